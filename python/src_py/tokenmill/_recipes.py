"""The sections and keys of recipes, and recipes from the arguments of functions.

``docs/recipes.md`` in the repository says what each key means.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from tokenmill.errors import UsageError

if TYPE_CHECKING:
    Size: TypeAlias = int | str
    Token: TypeAlias = str | Literal[False]
    Text: TypeAlias = str | bytes | bytearray
    Path: TypeAlias = str | os.PathLike[str]


class ReadKeys(TypedDict, total=False):
    """The keys of ``[source]`` that can be the same for several sources."""

    template: str
    join: str
    format: Literal["parquet", "arrow", "jsonl", "json", "csv", "tsv", "text"]
    documents: str | Mapping[str, str]
    stream: bool
    on_bad_input: Literal["fail", "skip", "quarantine", "replace"]


class CommonKeys(ReadKeys, total=False):
    """The same, with the column of the text."""

    column: str


class SourceKeys(CommonKeys, total=False):
    """``[source]``: what is read."""

    uri: str
    weight: float
    take: int
    max_bytes: Size


class SampleKeys(TypedDict, total=False):
    """``[sample]``: which documents are taken."""

    every: int
    shuffle_buffer: int
    seed: int
    skip: int
    take: int
    max_bytes: Size


class SplitKeys(TypedDict, total=False):
    """The keys of ``[train]`` that decide what is counted."""

    split: str | Mapping[str, str]
    boundary: Literal["document", "join"]
    special_tokens: Sequence[str]


class LearnKeys(TypedDict, total=False):
    """The keys of ``[train]`` that decide which tokenizer is learned from counts, without its size."""

    min_frequency: int
    max_token_bytes: int
    max_words: int
    tie_break: Literal["ids", "hf", "first", "bytes-greatest", "bytes-smallest", "alphabet-greatest"]
    score: str | Mapping[str, Mapping[str, int]]
    special_tokens_at: Literal["start", "end"]
    bos: Token
    eos: Token
    pad: Token
    unk: Token
    mask: Token
    model_max_length: int
    chat_template: str
    history_every: int


class ParityKeys(TypedDict, total=False):
    """The keys of ``parity`` in ``[train]``."""

    development: Sequence[str]
    ratio: Sequence[float]
    window: int
    alpha: float
    global_merges: int


class TrainSettings(SplitKeys, LearnKeys, total=False):
    """The keys of ``[train]`` for one tokenizer, without its size."""

    parity: bool | ParityKeys


class StageKeys(TypedDict, total=False):
    """One of the ``stages`` of ``[train]``."""

    split: str | Mapping[str, str]
    vocab_size: int
    max_words: int


class TrainKeys(TrainSettings, total=False):
    """``[train]``: what is learned."""

    vocab_size: int | Sequence[int]
    merges: int
    stages: Sequence[StageKeys]
    formats: Sequence[Literal["hf", "tiktoken", "minbpe", "gpt2"]]


class EncodeSettings(TypedDict, total=False):
    """The keys of ``[encode]`` for encoding with a tokenizer that exists."""

    split: str | Mapping[str, str]
    special_tokens: Sequence[str]
    columns: Sequence[str]
    special: Literal["text", "allow", "forbid"]
    missing_bytes: Literal["error", "hf"]
    dropout: float
    dropout_seed: int
    bos: Token
    eos: Token
    pack: Literal["none", "concat", "best-fit"]
    length: int
    compression: Literal["default", "fast"]


class EncodeKeys(EncodeSettings, total=False):
    """``[encode]``: how texts become ids."""

    tokenizer: str
    documents: Literal["sample", "all"]


class OutputSettings(TypedDict, total=False):
    """The keys of ``[output]`` besides the folder and the format."""

    staging: str
    split_name: str
    file_text_bytes: Size
    one_file: bool
    push: str


class OutputKeys(OutputSettings, total=False):
    """``[output]``: where results are written."""

    dir: str
    format: Literal["parquet", "bin", "megatron"]


class RunKeys(TypedDict, total=False):
    """``[run]``: threads, memory, and the part of the input."""

    threads: int
    memory: Size
    shard: str


class Recipe(TypedDict, total=False):
    """A recipe: what ``tokenmill.run`` and ``tokenmill.plan`` take."""

    source: SourceKeys | Sequence[SourceKeys]
    sample: SampleKeys
    train: TrainKeys
    encode: EncodeKeys
    output: OutputKeys
    run: RunKeys


class TrainArguments(ReadKeys, TrainSettings, total=False):
    """The keywords of ``tokenmill.train`` that are keys of a recipe."""

    stages: Sequence[StageKeys]


class EncodeArguments(ReadKeys, EncodeSettings, OutputSettings, total=False):
    """The keywords of ``tokenmill.encode`` that are keys of a recipe."""


SECTIONS: dict[str, type] = {
    "source": SourceKeys,
    "sample": SampleKeys,
    "train": TrainKeys,
    "encode": EncodeKeys,
    "output": OutputKeys,
    "run": RunKeys,
}

if TYPE_CHECKING:
    Source: TypeAlias = Path | SourceKeys
    Data: TypeAlias = Source | Sequence[Source] | Iterable[Text] | object


def keys_of(section: type) -> frozenset[str]:
    """The names of the keys of a section."""
    return frozenset(section.__annotations__)


def as_json(recipe: object) -> str:
    """A recipe as JSON."""
    # Half of a surrogate pair stays as it is, and is refused where the text is taken over.
    return json.dumps(recipe, default=_as_plain, ensure_ascii=False)


def _as_plain(value: object) -> object:
    """A value that JSON lacks as one that it has."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a recipe cannot have a value of type {type(value).__name__}")


def given(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that are not None, with lists for other sequences, and a split as recipes write it."""
    result: dict[str, Any] = {}
    for key, value in keys.items():
        if value is None:
            continue
        if key in ("special_tokens", "columns"):
            value = texts_of(key, value)
        if key == "split" and isinstance(value, str) and re.fullmatch(r"[\w-]*", value) is None:
            value = {"regex": value}
        if key == "stages" and isinstance(value, Sequence):
            value = [given(stage) if isinstance(stage, Mapping) else stage for stage in value]
        result[key] = value
    return result


def texts_of(name: str, values: object) -> list[str]:
    """A list of texts. One text is refused: its characters would be taken for texts."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list of str, not {type(values).__name__}")
    return list(values)


def divided(keys: Mapping[str, Any], *sections: type) -> list[dict[str, Any]]:
    """Keyword arguments by section. Those that no section has are left to the first, for the program to refuse."""
    parts: list[dict[str, Any]] = [{} for _ in sections]
    for key, value in given(keys).items():
        found = (number for number, section in enumerate(sections) if key in keys_of(section))
        parts[next(found, 0)][key] = value
    return parts


class Input:
    """What a job reads: sources, texts of an iterator, or Arrow data."""

    def __init__(self, data: object, keys: Mapping[str, Any]) -> None:
        """Takes one source, a list of them, Arrow data, or an iterator of texts. ``keys`` are for all sources."""
        self.texts: Iterable[Any] | None = None
        self.table: object | None = None
        self.column: str = keys.get("column", "text")
        if isinstance(data, (str, os.PathLike, Mapping)):
            self.sources = [_source(data, keys)]
        elif isinstance(data, (list, tuple)):
            self.sources = [_source(source, keys) for source in data]
            if not data:
                raise UsageError("there are no sources", "give paths or addresses, or an iterator of texts")
        elif any(hasattr(data, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "to_frame")):
            self.sources, self.table = [{"uri": "the data", **keys}], data
        elif isinstance(data, Iterable) and not isinstance(data, (bytes, bytearray)):
            self.sources, self.texts = [{"uri": "the data", **keys}], data
        else:
            found = type(data).__name__
            raise TypeError(f"the input must be paths, addresses, Arrow data or an iterator of texts, not {found}")


def _source(source: object, keys: Mapping[str, Any]) -> dict[str, Any]:
    """A source as a table ``[source]``."""
    if isinstance(source, Mapping):
        return {**keys, **source}
    if isinstance(source, (str, os.PathLike)):
        return {"uri": os.fspath(source), **keys}
    raise TypeError(f"a source must be a path, an address or a mapping, not {type(source).__name__}")


def overriding(overrides: Mapping[str, Any], memory: Size | None) -> dict[str, Any]:
    """Other values for keys of a recipe, by section. They are given by section, or by key if one section has it."""
    result: dict[str, Any] = {}
    for key, value in overrides.items():
        if key in SECTIONS:
            result[key] = value
    for key, value in [*_single_keys(overrides), *([] if memory is None else [("run", {"memory": memory})])]:
        section = result.get(key, {})
        if not isinstance(section, Mapping):
            raise UsageError(f"`{key}` is a list, and a key of it is given too", "put the key into the list")
        result[key] = {**section, **value}
    return result


def _single_keys(overrides: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The section of each single key."""
    for key, value in overrides.items():
        if key in SECTIONS:
            continue
        found = [name for name, section in SECTIONS.items() if key in keys_of(section)]
        if not found:
            raise UsageError(f"unknown key `{key}`", f"the sections are {', '.join(SECTIONS)}; see docs/recipes.md")
        if len(found) > 1:
            sections = " and ".join(f"[{name}]" for name in found)
            raise UsageError(f"`{key}` is a key of {sections}", f"write {found[0]}={{{key!r}: …}}")
        yield found[0], given({key: value})
