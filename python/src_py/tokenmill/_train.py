"""Counting and training."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from tokenmill import _core
from tokenmill._core import Counts
from tokenmill._progress import reporting
from tokenmill._recipes import CommonKeys, Input, TrainSettings, as_json, divided, given, texts_of
from tokenmill.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from typing_extensions import Unpack

    from tokenmill._core import Tokenizer
    from tokenmill._progress import Progress
    from tokenmill._recipes import Data, LearnKeys, Path, ReadKeys, SampleKeys, Size, Text, TrainArguments


def train(
    source: Data | None = None,
    *,
    vocab_size: int | None = None,
    column: str | None = None,
    counts: Counts | Path | Sequence[Path] | None = None,
    extend: Path | None = None,
    keep_merges: int | None = None,
    sample: SampleKeys | None = None,
    threads: int | None = None,
    memory: Size | None = None,
    progress: Progress = None,
    **keys: Unpack[TrainArguments],
) -> Tokenizer:
    """Trains a tokenizer on files, Arrow data or an iterator of texts, or from counts.

    It is what the command ``train`` learns from the same input. Nothing is written but what does not fit the memory,
    to temporary files.

    Args:
        source: A path, pattern or address (``"hf://…"``, ``"s3://…"``), or a list of them. One ``str`` is an address,
            not a text. A mapping is a table ``[source]`` of a recipe, for example with a ``weight``. Or Arrow data:
            a table, data frame or stream. Or an iterator of texts (``iter(texts)`` for a list). What an iterator gives
            is never a path: use ``list(Path("corpus").glob("*.parquet"))``.
        vocab_size: The most tokens: 256 for the bytes, the special tokens, and one for each merge. A small text gives
            fewer: merging ends when no pair is frequent enough. Leave it out only with ``stages``.
        column: The column with the text; by default ``"text"``.
        counts: Counts to train from in place of a source: :class:`Counts`, or the path of a counts file, or several.
            The split and the special tokens follow from them. Or a file, folder or pattern of Parquet with the columns
            ``pretoken`` and ``count`` that another program has written; then ``split`` must name their split.
        extend: A tokenizer whose merges come first: a path or a name.
        keep_merges: How many of its merges come first; by default all.
        sample: Which documents to take, as the section ``[sample]`` of a recipe: ``{"take": 1000}``.
        threads: The number of threads; by default one for each processor. The result does not depend on it.
        memory: The limit of memory, such as ``"8GB"`` or a number of bytes; by default that of the machine.
        progress: ``True`` shows a bar if tqdm is installed. A callable gets the name of the stage, the amount that is
            done, and the expected amount or ``None``.
        **keys: Further keys of the sections ``[source]`` and ``[train]`` of recipes: ``split`` (by default
            ``"gpt4"``; a name or a regular expression), ``special_tokens``, ``boundary``, ``tie_break``,
            ``min_frequency``, ``parity``, ``stages``, ``eos``, ``format``, ``on_bad_input`` and others.

    Returns:
        The tokenizer.

    Raises:
        UsageError: An argument is wrong, or contradicts the counts.
        NotFoundError: A file does not exist.
        TokenmillError: There is no text.
        MemoryLimitError: Training needs more than ``memory``.

    Example:
        >>> import tokenmill
        >>> tokenmill.train("demo:verse?lines=500", column="line", vocab_size=300)
        Tokenizer(vocab_size=300, split="gpt4", special_tokens=0)
        >>> stages = [{"split": "gpt4", "vocab_size": 300}, {"split": "superword", "vocab_size": 310}]
        >>> tokenmill.train("demo:verse?lines=500", column="line", stages=stages)
        Tokenizer(vocab_size=310, split="superword", special_tokens=0)
    """
    if (source is None) == (counts is None):
        raise UsageError("training needs a source or counts, and not both", "give one of them")
    of_train, of_sources = divided({"column": column, **keys}, TrainSettings, CommonKeys)
    recipe: dict[str, Any] = {"train": given({"vocab_size": vocab_size, **of_train})}
    arguments: dict[str, Any] = {}
    if counts is None:
        read = Input(source, of_sources)
        recipe["source"] = read.sources
        arguments = {"texts": read.texts, "table": read.table, "column": read.column}
    elif isinstance(counts, Counts):
        arguments = {"counts": counts}
    elif isinstance(counts, (str, os.PathLike)):
        arguments = {"files": [counts]}
    else:
        arguments = {"files": list(counts)}
    if counts is not None and (of_sources or sample):
        raise UsageError("counts have no sources to read or sample", f"leave out {', '.join(of_sources) or 'sample'}")
    recipe |= given({"sample": sample})
    return _trained(recipe, memory, threads, progress, extend=extend, keep_merges=keep_merges, **arguments)


def train_from_iterator(
    iterator: Iterable[Text],
    vocab_size: int,
    *,
    split: str | Mapping[str, str] = "gpt4",
    special_tokens: Sequence[str] = (),
    sample: SampleKeys | None = None,
    threads: int | None = None,
    memory: Size | None = None,
    progress: Progress = None,
    **keys: Unpack[LearnKeys],
) -> Tokenizer:
    """Trains a tokenizer on texts, each of which is a document.

    The texts are counted as they arrive, so they need not fit in memory together.

    Args:
        iterator: The texts: ``str`` or ``bytes``. A list will do.
        vocab_size: The most tokens: 256 for the bytes, the special tokens, and one for each merge. A small text gives
            fewer: merging ends when no pair is frequent enough.
        split: How texts are split: the name of a pattern, or a regular expression.
        special_tokens: The texts of the special tokens, which get the last ids.
        sample: Which texts to take, as for :func:`train`.
        threads: The number of threads; by default one for each processor.
        memory: The limit of memory, such as ``"8GB"`` or a number of bytes; by default that of the machine.
        progress: As for :func:`train`.
        **keys: Further keys of the section ``[train]`` of recipes, such as ``tie_break`` and ``min_frequency``.

    Returns:
        The tokenizer.

    Raises:
        UsageError: An argument is wrong.
        TokenmillError: There is no text.
        TypeError: An item is not a text.

    Example:
        >>> import tokenmill
        >>> tokenmill.train_from_iterator(["low lower lowest"] * 9, 260)
        Tokenizer(vocab_size=260, split="gpt4", special_tokens=0)
    """
    settings = given({"split": split, "special_tokens": special_tokens, **keys})
    recipe = {"source": {"uri": "the data"}, "train": {"vocab_size": vocab_size, **settings}}
    return _trained(recipe | given({"sample": sample}), memory, threads, progress, texts=iterator)


def _trained(
    recipe: dict[str, Any], memory: Size | None, threads: int | None, progress: Progress, **arguments: Any
) -> Tokenizer:
    """The tokenizer of a recipe."""
    with reporting(progress) as report:
        text = as_json({**recipe, "run": given({"memory": memory})})
        return _core.train(text, threads=threads, progress=report, **arguments)


def count(
    source: Data,
    *,
    column: str | None = None,
    split: str | Mapping[str, str] = "gpt4",
    special_tokens: Sequence[str] = (),
    boundary: str | None = None,
    sample: SampleKeys | None = None,
    shard: str | None = None,
    threads: int | None = None,
    memory: Size | None = None,
    progress: Progress = None,
    **keys: Unpack[ReadKeys],
) -> Counts:
    """Counts the distinct pre-tokens of files, Arrow data or an iterator of texts, to train from them later.

    Args:
        source: What to read, as for :func:`train`.
        column: The column with the text; by default ``"text"``.
        split: How texts are split: the name of a pattern, or a regular expression.
        special_tokens: Texts that are left out.
        boundary: The extent of a text that is split on its own: ``"document"`` (the default) or ``"join"``.
        sample: Which documents to take, as for :func:`train`.
        shard: The part of the files that is counted, such as ``"3/7"``, as for :func:`encode`. The counts of all shards
            are written to files, of which :func:`merge_counts` makes the file of the whole.
        threads: The number of threads; by default one for each processor. The result does not depend on it.
        memory: The limit of memory, such as ``"2GB"`` or a number of bytes; by default that of the machine. While
            counting, what exceeds it is written to temporary files. The result must fit.
        progress: As for :func:`train`.
        **keys: Further keys of the section ``[source]`` of recipes.

    Returns:
        The counts, with the pre-tokens in the order in which they first appear.

    Raises:
        UsageError: An argument is wrong, or a column is missing or holds no text.
        NotFoundError: A file does not exist.
        MemoryLimitError: The distinct pre-tokens need more than ``memory``.

    Example:
        >>> import tokenmill
        >>> counts = tokenmill.count(iter(["a cat", "a cat sat"]))
        >>> counts
        Counts(3 pretokens, total=5, split="gpt4")
        >>> tokenmill.train(counts=counts, vocab_size=258)
        Tokenizer(vocab_size=258, split="gpt4", special_tokens=0)
    """
    (of_sources,) = divided({"column": column, **keys}, CommonKeys)
    read = Input(source, of_sources)
    settings = {"split": split, "special_tokens": special_tokens, "boundary": boundary}
    recipe = {"source": read.sources, "train": given(settings), "run": given({"memory": memory, "shard": shard})}
    with reporting(progress) as report:
        return _core.count(
            as_json(recipe | given({"sample": sample})),
            texts=read.texts,
            table=read.table,
            column=read.column,
            threads=threads,
            progress=report,
        )


def merge_counts(
    paths: Sequence[Path],
    out: Path,
    *,
    weights: Sequence[float | str] | None = None,
    split: str | None = None,
    boundary: str | None = None,
    special_tokens: Sequence[str] | None = None,
    threads: int | None = None,
    memory: Size | None = None,
    progress: Progress = None,
) -> dict[str, Any]:
    """Sums counts files into one, as the command ``merge-counts`` does.

    Args:
        paths: The files, all with the same split, boundary and special tokens. Or files, folders or patterns of Parquet
            with the columns ``pretoken`` and ``count`` that another program has written.
        out: The file to write, completely or not at all. An earlier counts file is replaced, no other file is.
        weights: A number for each path: in a mixture, counts are multiplied by it. A ``str`` is taken exactly.
        split: How the text behind the counts of another program was split.
        boundary: The extent of a text that was split on its own there: ``"document"`` (the default) or ``"join"``.
        special_tokens: The special tokens that were left out there; by default none.
        threads: The number of threads; by default one for each processor.
        memory: The limit of memory, such as ``"8GB"``; by default that of the machine.
        progress: As for :func:`train`.

    Returns:
        What the command prints with ``--json``: ``output``, ``pretokens``, ``pretoken_bytes`` and ``ordered``.

    Raises:
        UsageError: The files do not fit together, a shard is missing or is there twice, or ``out`` is one of them.

    Example:
        >>> import tempfile, tokenmill
        >>> folder = tempfile.mkdtemp()
        >>> tokenmill.count(iter(["a cat"])).write(f"{folder}/one.parquet")
        >>> tokenmill.count(iter(["a dog"])).write(f"{folder}/two.parquet")
        >>> parts = [f"{folder}/one.parquet", f"{folder}/two.parquet"]
        >>> tokenmill.merge_counts(parts, f"{folder}/both.parquet")["pretokens"]
        3
    """
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise TypeError("paths must be a list of paths; this is one path")
    with reporting(progress) as report:
        summed = _core.merge_counts(
            list(paths),
            out,
            weights=None if weights is None else [str(weight) for weight in weights],
            split=split,
            boundary=boundary,
            special_tokens=None if special_tokens is None else texts_of("special_tokens", special_tokens),
            memory=None if memory is None else str(memory),
            threads=threads,
            progress=report,
        )
    result: dict[str, Any] = json.loads(summed)
    return result
