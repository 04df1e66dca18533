"""Encoding of files in shards, each of which is a task of an engine that may start it more than once.

A shard is encoded into a folder of its own attempt, which is renamed when it is complete. Attempts of one shard give
equal results, so that whichever is first may stay.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tokenmill
from tokenmill.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenmill._core import Tokenizer
    from tokenmill._recipes import Path as Address
    from tokenmill._recipes import Source


def folder_of(out: Address, count: int) -> Path:
    """The folder for the data set as an absolute path, since workers have working folders of their own.

    What the shards cannot be put together in is refused before any of them is encoded. The folder is made, by which
    workers know that they see it.

    Args:
        out: The folder, which all nodes see.
        count: The number of shards.

    Raises:
        UsageError: ``out`` is in an object store or holds a data set, or there is no shard.
    """
    name = os.fspath(out)
    if "://" in name:
        raise UsageError(f"{name} is not a folder", "give a folder that all nodes see")
    folder = Path(name).absolute()
    if (folder / "manifest.json").exists():
        raise UsageError(f"{name} holds a data set already", "give another folder, or remove this one")
    if count < 1:
        raise UsageError(f"`shards` is {count}", "give 1 or more")
    _shard(folder, 1).parent.mkdir(parents=True, exist_ok=True)
    return folder


def encode_shard(
    files: Source | Sequence[Source],
    tokenizer: Tokenizer | Address,
    out: Address,
    index: int,
    count: int,
    **settings: Any,
) -> None:
    """Encodes one shard into ``out/.shards``. Any number of attempts may run, at once or one after the other.

    A shard that is complete is only checked.

    Args:
        files: What to read, as for ``tokenmill.encode``.
        tokenizer: A tokenizer, or its path or name.
        out: The folder for the data set, which all nodes see.
        index: The number of the shard, from 1.
        count: The number of shards.
        **settings: Further arguments of ``tokenmill.encode``.

    Raises:
        UsageError: An argument is wrong, the shard is there, but of another job, or this node does not see the folder.
            After ``merge_shards``, no node does.
    """
    folder = _shard(out, index)
    arguments: dict[str, Any] = {"tokenizer": tokenizer, "shard": f"{index}/{count}", **settings}
    if folder.exists():
        tokenmill.encode(files, out=folder, **arguments)
        return
    if not folder.parent.is_dir():
        raise UsageError(f"{folder.parent} does not exist on this node", "give a folder that all nodes see")
    attempt = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    try:
        tokenmill.encode(files, out=attempt, **arguments)
        attempt.rename(folder)
    except OSError:
        # Another attempt may have been first. Its folder is not empty, so it cannot have been replaced.
        if not folder.exists():
            raise
    finally:
        shutil.rmtree(attempt, ignore_errors=True)


def merge_shards(out: Address, count: int) -> dict[str, Any]:
    """Puts the shards together to one data set, writes its manifest last, and removes ``out/.shards``.

    Args:
        out: The folder for the data set.
        count: The number of shards.

    Returns:
        The manifest.

    Raises:
        TokenmillError: A shard is missing, or shards are of different jobs.
    """
    manifest: dict[str, Any] = tokenmill.merge([_shard(out, index) for index in range(1, count + 1)], out)
    # What an attempt still writes there is no output.
    shutil.rmtree(Path(out) / ".shards", ignore_errors=True)
    return manifest


def _shard(out: Address, index: int) -> Path:
    """The folder of a complete shard."""
    return Path(out) / ".shards" / f"{index:05}"
