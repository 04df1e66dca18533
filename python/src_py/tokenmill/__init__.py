"""Trains byte-level BPE tokenizers, and encodes texts and Arrow data into token ids."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tokenmill import errors
from tokenmill._core import DecodeStream, Tokenizer, TokenStream, __version__, get_encoding
from tokenmill._core import run as _run
from tokenmill._core import train_from_iterator as _train_from_iterator
from tokenmill._progress import reporting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from os import PathLike

    from tokenmill._progress import Progress

__all__ = [
    "DecodeStream",
    "TokenStream",
    "Tokenizer",
    "__version__",
    "errors",
    "get_encoding",
    "run",
    "train_from_iterator",
]


def train_from_iterator(
    iterator: Iterable[str | bytes | bytearray],
    vocab_size: int,
    *,
    split: str = "gpt4",
    special_tokens: Sequence[str] = (),
    threads: int | None = None,
    progress: Progress = None,
) -> Tokenizer:
    """Trains a tokenizer on the texts of an iterator, each of which is a document.

    The texts are counted as they arrive, so they need not fit in memory together.

    Args:
        iterator: The texts.
        vocab_size: The number of tokens: 256 for the bytes, the special tokens, and one for each merge.
        split: How texts are split: the name of a pattern, or a regular expression.
        special_tokens: The texts of the special tokens, which get the last ids.
        threads: The number of threads; by default one for each processor.
        progress: ``True`` shows a bar if tqdm is installed. A callable gets the name of the stage, the amount that is
            done, and the expected amount or ``None``.
    """
    with reporting(progress) as report:
        return _train_from_iterator(
            iterator,
            vocab_size,
            split=split,
            special_tokens=special_tokens,
            threads=threads,
            progress=report,
        )


def run(
    recipe: str | PathLike[str] | Mapping[str, Any],
    *,
    threads: int | None = None,
    memory: str | None = None,
    force: bool = False,
    progress: Progress = None,
) -> dict[str, Any]:
    """Runs a recipe: trains, encodes, and writes the results, as the command ``run`` does.

    A complete result is only checked, and an interrupted run continues.

    Args:
        recipe: The path of a recipe, or the recipe itself, as nested mappings.
        threads: The number of threads, in place of the recipe's.
        memory: The limit of memory, such as ``"8GB"``, in place of the recipe's.
        force: Whether to replace the results of another run.
        progress: As for :func:`train_from_iterator`.

    Returns:
        What the command prints with ``--json``.
    """
    path, text = (None, json.dumps(recipe, default=_as_dict)) if isinstance(recipe, Mapping) else (recipe, None)
    with reporting(progress) as report:
        outcome = _run(path, text, threads=threads, memory=memory, force=force, progress=report)
    result: dict[str, Any] = json.loads(outcome)
    return result


def _as_dict(value: object) -> dict[str, Any]:
    """A mapping as a dictionary, for JSON, which takes no other mappings."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a recipe cannot have a value of type {type(value).__name__}")
