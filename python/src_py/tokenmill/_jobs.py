"""Whole jobs, which write their results: recipes and the encoding of datasets."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tokenmill import _core
from tokenmill._core import Tokenizer
from tokenmill._progress import reporting
from tokenmill._recipes import CommonKeys, EncodeSettings, Input, OutputSettings, as_json, divided, given, overriding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Unpack

    from tokenmill._progress import Progress
    from tokenmill._recipes import EncodeArguments, Path, Recipe, SampleKeys, Size, Source


def run(
    recipe: Path | Recipe | Mapping[str, Any],
    *,
    threads: int | None = None,
    memory: Size | None = None,
    force: bool = False,
    progress: Progress = None,
    **overrides: Any,
) -> dict[str, Any]:
    """Runs a recipe: trains, encodes, and writes the results, as the command ``run`` does.

    A complete result is only checked, and an interrupted run continues.

    Args:
        recipe: The path of a recipe, or the recipe itself, as nested mappings.
        threads: The number of threads, in place of the recipe's.
        memory: The limit of memory, such as ``"8GB"``, in place of the recipe's.
        force: Whether to replace the results of another run.
        progress: As for :func:`train`.
        **overrides: Other values for keys of the recipe: whole sections by name (``train={"split": "gpt2"}``), of
            which the other keys stay, or single keys that only one section has (``vocab_size=32_000``).

    Returns:
        What the command prints with ``--json``.

    Raises:
        UsageError: The recipe has mistakes, or the folder holds the results of another run.
        NotFoundError: A file does not exist.

    Example:
        >>> import tempfile, tokenmill
        >>> recipe = {"source": {"uri": "demo:verse?lines=500", "column": "line"}, "train": {"vocab_size": 300}}
        >>> tokenmill.run(recipe, dir=tempfile.mkdtemp())["vocab_size"]
        300
    """
    path, text = _given_recipe(recipe)
    with reporting(progress) as report:
        outcome = _core.run(
            path, text, as_json(overriding(overrides, memory)), threads=threads, force=force, progress=report
        )
    result: dict[str, Any] = json.loads(outcome)
    return result


def plan(
    recipe: Path | Recipe | Mapping[str, Any],
    *,
    threads: int | None = None,
    memory: Size | None = None,
    progress: Progress = None,
    **overrides: Any,
) -> dict[str, Any]:
    """Says what running a recipe would read and write, and what memory and disk space it needs.

    Nothing is written.

    Args:
        recipe: The path of a recipe, or the recipe itself, as nested mappings.
        threads: The number of threads, in place of the recipe's.
        memory: The limit of memory, in place of the recipe's.
        progress: As for :func:`train`.
        **overrides: As for :func:`run`.

    Returns:
        What the command ``plan`` prints with ``--json``. Sizes that are not known before reading are ``None``.

    Raises:
        UsageError: The recipe has mistakes.
        NotFoundError: A file does not exist.

    Example:
        >>> import tempfile, tokenmill
        >>> recipe = {"source": {"uri": "demo:verse?lines=500", "column": "line"}, "train": {"vocab_size": 300}}
        >>> tokenmill.plan(recipe, dir=tempfile.mkdtemp())["sources"][0]["rows"]
        500
    """
    path, text = _given_recipe(recipe)
    with reporting(progress) as report:
        planned = _core.plan(path, text, as_json(overriding(overrides, memory)), threads=threads, progress=report)
    result: dict[str, Any] = json.loads(planned)
    return result


def _given_recipe(recipe: Path | Recipe | Mapping[str, Any]) -> tuple[Path | None, str]:
    """The path of a recipe, or its JSON."""
    return (None, as_json(recipe)) if isinstance(recipe, Mapping) else (recipe, "{}")


def encode(
    files: Source | Sequence[Source],
    *,
    tokenizer: Tokenizer | Path,
    out: Path,
    column: str | None = None,
    output_format: str | None = None,
    sample: SampleKeys | None = None,
    shard: str | None = None,
    threads: int | None = None,
    memory: Size | None = None,
    force: bool = False,
    progress: Progress = None,
    **keys: Unpack[EncodeArguments],
) -> dict[str, Any]:
    """Encodes a dataset into files of token ids, as the command ``encode`` does.

    A complete result is only checked, and an interrupted job continues.

    Args:
        files: A path, pattern or address, or a list of them; or tables ``[source]`` of a recipe, as mappings.
        tokenizer: A tokenizer, or its path or name.
        out: The folder to write, or a place in an object store.
        column: The column with the text; by default ``"text"``.
        output_format: ``"parquet"`` (the default), ``"bin"`` or ``"megatron"``.
        sample: Which documents to take, as for :func:`train`.
        shard: The part of the files that is encoded: ``"3/7"`` is the third of seven about equal parts. They follow
            from the list of files alone, so processes and machines can encode one each, into a folder of its own.
            :func:`merge` joins the folders.
        threads: The number of threads; by default one for each processor. The result does not depend on it.
        memory: The limit of memory, such as ``"8GB"``; by default that of the machine.
        force: Whether to replace the results of another job.
        progress: As for :func:`train`.
        **keys: Further keys of the sections ``[source]``, ``[encode]`` and ``[output]`` of recipes: ``columns``,
            ``bos``, ``eos``, ``pack``, ``length``, ``split_name``, ``push`` and others.

    Returns:
        The manifest, as in ``manifest.json`` but for its own hash: the files with their rows, tokens and hashes.

    Raises:
        UsageError: An argument is wrong, or the folder holds the results of another job.
        NotFoundError: A file does not exist.

    Example:
        >>> import tempfile, tokenmill
        >>> tokenizer = tokenmill.train("demo:verse?lines=500", column="line", vocab_size=300)
        >>> folder = tempfile.mkdtemp()
        >>> made = tokenmill.encode("demo:verse?lines=500", tokenizer=tokenizer, out=folder, column="line")
        >>> made["tokenizer"] == tokenizer.fingerprint
        True
    """
    of_encode, of_sources, of_output = divided({"column": column, **keys}, EncodeSettings, CommonKeys, OutputSettings)
    name = repr(tokenizer) if isinstance(tokenizer, Tokenizer) else os.fspath(tokenizer)
    if not isinstance(files, (str, os.PathLike, Mapping, list, tuple)):
        raise TypeError(f"files must be a path, an address, a mapping or a list of them, not {type(files).__name__}")
    special = {"special": tokenizer.special} if isinstance(tokenizer, Tokenizer) else {}
    recipe = {
        "source": Input(files, of_sources).sources,
        "encode": {"tokenizer": name, **special, **of_encode},
        "output": {"dir": os.fspath(out), **of_output, **given({"format": output_format})},
        "run": given({"memory": memory, "shard": shard}),
        **given({"sample": sample}),
    }
    shown = {
        "tokenizer": tokenizer,
        "out": os.fspath(out),
        **given({"column": column, "output_format": output_format, "sample": sample, "shard": shard}),
        **keys,
    }
    call = f"tokenmill.encode({files!r}, {', '.join(f'{name}={value!r}' for name, value in shown.items())})"
    with reporting(progress) as report:
        manifest = _core.encode(
            as_json(recipe),
            call,
            tokenizer=tokenizer if isinstance(tokenizer, Tokenizer) else None,
            threads=threads,
            force=force,
            progress=report,
        )
    result: dict[str, Any] = json.loads(manifest)
    return result


def merge(folders: Sequence[Path], out: Path) -> dict[str, Any]:
    """Joins the outputs of all shards of a job to one data set, as the command ``merge`` does.

    The data files are hard links to those of the shards where the file system allows it, and otherwise copies. Their
    rows are those of one job without shards, in the same order, unless they are packed.

    Args:
        folders: The folders that :func:`encode` has written for each ``shard``, in any order.
        out: The folder to write. If it holds this data set already, nothing is done.

    Returns:
        The manifest, as of :func:`encode`.

    Raises:
        UsageError: A shard is missing, is there twice, or is of another job; or ``out`` holds another result.
        MismatchError: A data file is missing or has another size.

    Example:
        >>> import tempfile, tokenmill
        >>> tokenizer = tokenmill.train("demo:verse?lines=500", column="line", vocab_size=300)
        >>> folder, source = tempfile.mkdtemp(), {"uri": "demo:verse?lines=500", "column": "line"}
        >>> for shard in ("1/2", "2/2"):
        ...     made = tokenmill.encode(source, tokenizer=tokenizer, out=f"{folder}/{shard[0]}", shard=shard)
        >>> merged = tokenmill.merge([f"{folder}/1", f"{folder}/2"], f"{folder}/all")
        >>> sum(file["rows"] for file in merged["files"])
        500
    """
    if isinstance(folders, (str, bytes, os.PathLike)):
        raise TypeError("folders must be a list of paths; this is one path")
    result: dict[str, Any] = json.loads(_core.merge(list(folders), out))
    return result
