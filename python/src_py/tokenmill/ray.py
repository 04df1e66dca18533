"""Counting and encoding on a Ray cluster: of datasets of Ray Data, and of files.

Each node needs tokenmill of the same version. Ray places the tasks, starts them again if a worker dies, and moves data.

Example:
    >>> import ray, tokenmill.ray
    >>> texts = ["how much wood would a woodchuck chuck", "if a woodchuck could chuck wood?"]
    >>> ds = ray.data.from_items([{"id": 7, "text": texts[0]}, {"id": 8, "text": texts[1]}])
    >>> counts = tokenmill.ray.count(ds)
    >>> counts
    Counts(10 pretokens, total=14, split="gpt4")
    >>> tokenizer = tokenmill.train(counts=counts, vocab_size=262)
    >>> encoded = tokenmill.ray.encode(ds, tokenizer, keep=["id"])
    >>> [row["input_ids"] == tokenizer.encode(texts[row["id"] - 7]) for row in encoded.take_all()]
    [True, True]
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import ray

import tokenmill
from tokenmill import Counts, Tokenizer, _shards, errors
from tokenmill._recipes import texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Literal

    from typing_extensions import Unpack

    from tokenmill._recipes import EncodeArguments, Path, Size, Source

__all__ = ["count", "encode", "encode_files"]

# How many tables of counts a task sums.
_FAN_IN = 16


def count(
    ds: ray.data.Dataset,
    column: str = "text",
    split: str = "gpt4",
    *,
    special_tokens: Sequence[str] = (),
    num_cpus: float = 1,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> Counts:
    """Counts the distinct pre-tokens of a dataset, as :func:`tokenmill.count` does.

    A task counts a block of the dataset, and others sum 16 results at a time. A task that sums holds the counts that
    it sums, about 25 bytes for each distinct pre-token of each. The sum of all must fit into the memory of the driver.

    Blocks are counted in any order. So training with ``tie_break="first"``, which needs the order of the text, refuses
    the counts, and this function refuses ``split="none"``, for which there is nothing to count.

    Args:
        ds: The dataset. A null text is skipped.
        column: The column with the text.
        split: How texts are split: the name of a pattern, or a regular expression.
        special_tokens: Texts that are left out.
        num_cpus: The processors of a task, each of which gets a thread.
        ray_remote_args: Further arguments of ``ray.remote`` for the tasks, such as ``{"max_retries": 5}``.

    Returns:
        The counts, in no particular order.

    Raises:
        UsageError: The split cannot be used.
        ray.exceptions.RayError: A task failed: the column is missing or holds no text, for example.
    """
    arguments: dict[str, Any] = {"split": split, "special_tokens": texts_of("special_tokens", special_tokens)}
    empty = pa.table({"pretoken": pa.array([], pa.binary()), "count": pa.array([], pa.uint64())})
    none = Counts.from_arrow(empty, **arguments)
    options = dict(num_cpus=num_cpus, **(ray_remote_args or {}))
    counted = ds.select_columns([column]).map_batches(
        _counted,
        batch_format="pyarrow",
        batch_size=None,
        zero_copy_batch=True,
        fn_kwargs={"column": column, "threads": _threads(num_cpus), **arguments},
        **options,
    )
    blocks = (block for bundle in counted.iter_internal_ref_bundles() for block in bundle.blocks)
    # An empty block may have no columns.
    tables = (block.ref for block in blocks if block.metadata.num_rows != 0)
    summed = _summed_in_tree(tables, partial(ray.remote(**options)(_summed).remote, **arguments))
    return Counts.from_arrow(ray.get(summed[0]), **arguments) if summed else none


def _counted(block: pa.Table, column: str, threads: int, **arguments: Any) -> pa.Table:
    """The counts of a block."""
    return pa.table(tokenmill.count(_typed(block, column), column=column, threads=threads, **arguments).to_arrow())


def _summed_in_tree(tables: Iterable[Any], summed: Callable[..., Any]) -> list[Any]:
    """A reference to the sum of tables of counts, from references to them, or none if there is no table.

    The sums begin while tables are still being made. Nothing waits for them: the tables may be made by actors that hold
    all processors until the last table is there.
    """
    levels: list[list[Any]] = [[]]
    for table in tables:
        levels[0].append(table)
        for level, tables_of_level in enumerate(levels):
            if len(tables_of_level) < _FAN_IN:
                break
            if level + 1 == len(levels):
                levels.append([])
            levels[level + 1].append(summed(*tables_of_level))
            tables_of_level.clear()
    rest: list[Any] = []
    for tables_of_level in levels:
        rest += tables_of_level
        if len(rest) > 1:
            rest = [summed(*rest)]
    return rest


def _summed(*tables: pa.Table, **arguments: Any) -> pa.Table:
    """The sum of tables of counts."""
    return pa.table(Counts.from_arrow(pa.concat_tables(tables), **arguments).to_arrow())


def encode(
    ds: ray.data.Dataset,
    tokenizer: Tokenizer,
    column: str = "text",
    keep: Sequence[str] = (),
    *,
    dtype: Literal["int32", "uint32"] = "int32",
    num_cpus: float = 1,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> ray.data.Dataset:
    """Encodes a column of a dataset, as :meth:`tokenmill.Tokenizer.encode_arrow` does.

    Nothing is encoded before the result is consumed. Rows stay in order if the dataset has an order, and if
    ``ray.data.DataContext.get_current().execution_options.preserve_order`` is set.

    Args:
        ds: The dataset.
        tokenizer: The tokenizer. A worker process makes its tables once.
        column: The column with the text.
        keep: Columns to keep.
        dtype: The type of the ids.
        num_cpus: The processors of a task, each of which gets a thread.
        ray_remote_args: Further arguments of ``ray.remote`` for the tasks, such as ``{"max_retries": 5}``.

    Returns:
        A dataset with the columns of ``keep`` and ``input_ids``, a list of ids. A null text has null ids.

    Raises:
        ray.exceptions.RayError: While it is consumed: a column is missing, or the column holds no text.
    """
    kept = texts_of("keep", keep)
    return ds.select_columns(list(dict.fromkeys([*kept, column]))).map_batches(
        _encoded,
        batch_format="pyarrow",
        batch_size=None,
        zero_copy_batch=True,
        fn_args=(tokenizer,),
        fn_kwargs={"column": column, "keep": kept, "dtype": dtype, "threads": _threads(num_cpus)},
        num_cpus=num_cpus,
        **(ray_remote_args or {}),
    )


def _encoded(block: pa.Table, tokenizer: Tokenizer, column: str, **arguments: Any) -> pa.Table:
    """The ids of a block."""
    return pa.table(tokenizer.encode_arrow(_typed(block, column), column=column, **arguments))


def _typed(block: pa.Table, column: str) -> pa.Table:
    """The block with a column of text also if all values are null, from which Ray infers no type."""
    at = block.schema.get_field_index(column)
    if at < 0 or not pa.types.is_null(block.schema.field(at).type):
        return block
    return block.set_column(at, column, block.column(at).cast(pa.string()))


def encode_files(
    files: Source | Sequence[Source],
    tokenizer: Tokenizer | Path,
    out: Path,
    shards: int,
    *,
    column: str | None = None,
    output_format: str | None = None,
    memory: Size | None = None,
    num_cpus: float = 1,
    ray_remote_args: Mapping[str, Any] | None = None,
    **keys: Unpack[EncodeArguments],
) -> dict[str, Any]:
    """Encodes files into one data set, as :func:`tokenmill.encode` does, with a task for each shard of them.

    A task encodes its shard into a folder of its own and renames that when it is complete, so that it may be started
    again, or twice at once. At the end the driver puts the shards together and writes the manifest. After a failure,
    the same call does only what is left; tasks that run at that time end by themselves.

    Args:
        files: A path, pattern or address, or a list of them, as the nodes see them.
        tokenizer: A tokenizer, or its path or name, as the nodes see it.
        out: A folder that the driver and all nodes see.
        shards: The number of tasks. Three or more for each task that runs at a time even out differences.
        column: The column with the text; by default ``"text"``.
        output_format: ``"parquet"`` (the default), ``"bin"`` or ``"megatron"``.
        memory: The limit of memory of a task, such as ``"2GB"``; by default that of the machine.
        num_cpus: The processors of a task, each of which gets a thread.
        ray_remote_args: Further arguments of ``ray.remote`` for the tasks. Without others, a task whose worker dies, or
            which has a failure of the network or the system, is started up to three more times.
        **keys: Further keys of recipes, as for :func:`tokenmill.encode`.

    Returns:
        The manifest.

    Raises:
        UsageError: An argument is wrong, or ``out`` holds a data set, or shards of another job.
        ray.exceptions.RayError: A task failed. Its failure is the ``cause``.
    """
    folder = _shards.folder_of(out, shards)
    settings = {"column": column, "output_format": output_format, "memory": memory, **keys}
    retried = [errors.NetworkError, errors.SystemFailure]
    options = {"max_retries": 3, "retry_exceptions": retried, "num_cpus": num_cpus, **(ray_remote_args or {})}
    task = ray.remote(**options)(_shards.encode_shard)
    encoding = [
        task.remote(files, tokenizer, folder, index, shards, threads=_threads(num_cpus), **settings)
        for index in range(1, shards + 1)
    ]
    ray.get(encoding)
    return _shards.merge_shards(folder, shards)


def _threads(num_cpus: float) -> int:
    """The threads of a task. Ray counts processors, but does not limit threads."""
    return max(1, int(num_cpus))
