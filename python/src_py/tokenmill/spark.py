"""Counts and encodes on Spark: columns of data frames, and files.

It needs PySpark 4 with pandas and pyarrow, which ``pip install 'tokenmill[spark]'`` installs, and tokenmill on each
node. Scheduling, shuffling and retries are those of Spark. A task may run any number of times: what it gives depends
on its input only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructField, StructType

import tokenmill
from tokenmill import _shards
from tokenmill._core import Counts
from tokenmill._recipes import texts_of
from tokenmill.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Unpack

    from tokenmill._core import Tokenizer
    from tokenmill._recipes import EncodeArguments, Path, Size, Source

__all__ = ["count", "encode", "encode_files", "pretoken_counts"]

# Bytes of text (256 MiB) that a task counts before it gives their sums to Spark. More would make fewer rows for Spark
# to sum, and take more memory.
_PORTION_BYTES = 256 << 20

# The columns that encoding adds.
_IDS = [StructField("input_ids", ArrayType(IntegerType())), StructField("length", IntegerType())]


def count(
    df: DataFrame,
    column: str = "text",
    split: str = "gpt4",
    *,
    special_tokens: Sequence[str] = (),
    threads: int = 1,
    memory: Size = "1GB",
) -> Counts:
    """Counts the distinct pre-tokens of a column, to train from them on the driver.

    The driver receives one row of about 25 bytes for each distinct pre-token, and Spark limits their size:
    ``spark.driver.maxResultSize`` is 1 GiB by default, enough for some 30 million. Sums that are larger, or that
    another machine trains from, are written by Spark: see :func:`pretoken_counts`.

    Args:
        df: The data frame. Its rows are read once.
        column: The column of text: strings, or binary values. Null texts are skipped.
        split: How texts are split: the name of a pattern, or a regular expression. It cannot be ``"none"``.
        special_tokens: Texts that are left out.
        threads: The number of threads of a task. If it is not 1, set ``spark.task.cpus`` to the same number.
        memory: The limit of memory of a task, outside of the JVM, besides the batches of Spark. What exceeds it while
            counting is written to temporary files.

    Returns:
        The counts, as ``tokenmill.count`` gives them, but in no particular order. So training with
        ``tie_break="first"``, which needs the order of the text, refuses them.

    Raises:
        UsageError: An argument is wrong, or the column is missing or holds no text.

    Example:
        >>> df = spark.createDataFrame([("a cat and a dog",), ("a dog",), (None,)], "text string")
        >>> tokenmill.spark.count(df)
        Counts(5 pretokens, total=7, split="gpt4")
    """
    sums = pretoken_counts(df, column, split, special_tokens=special_tokens, threads=threads, memory=memory)
    return Counts.from_arrow(sums.toArrow(), split=split, special_tokens=list(special_tokens))


def pretoken_counts(
    df: DataFrame,
    column: str = "text",
    split: str = "gpt4",
    *,
    special_tokens: Sequence[str] = (),
    threads: int = 1,
    memory: Size = "1GB",
) -> DataFrame:
    """Counts the distinct pre-tokens of a column, as a data frame that Spark can write.

    Each task counts 256 MiB of text at a time, and Spark sums what the tasks give. Nothing is held in the driver.

    Args:
        df: The data frame.
        column: As for :func:`count`.
        split: As for :func:`count`. The result does not record it.
        special_tokens: As for :func:`count`. The result does not record them.
        threads: As for :func:`count`.
        memory: As for :func:`count`.

    Returns:
        A data frame with the columns ``pretoken`` (binary) and ``count`` (bigint), one row for each distinct pre-token.
        It is computed when it is used. A sum that exceeds 63 bits is an error then, whatever ``spark.sql.ansi.enabled``
        is.

    Raises:
        UsageError: As for :func:`count`.

    Example:
        >>> df = spark.createDataFrame([("a cat and a dog",), ("a dog",)], "text string")
        >>> tokenmill.spark.pretoken_counts(df).write.parquet("counts")
        >>> rows = spark.read.parquet("counts").where("count > 1").orderBy("pretoken").collect()
        >>> [(bytes(row["pretoken"]), row["count"]) for row in rows]
        [(b' dog', 2), (b'a', 2)]
    """
    texts = _selected(df, column, [])
    settings: dict[str, Any] = {"split": split, "special_tokens": texts_of("special_tokens", special_tokens)}
    # What cannot be counted is refused here, before Spark runs anything.
    tokenmill.count(pa.table({"text": pa.array([], pa.string())}), **settings)
    settings |= {"column": "0", "threads": threads, "memory": memory}
    return _summed(texts.mapInArrow(partial(_counted, settings=settings), "pretoken binary, count bigint"))


def _counted(batches: Iterator[pa.RecordBatch], settings: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Counts the texts of a partition, portion by portion."""
    for first in batches:
        portion = pa.RecordBatchReader.from_batches(first.schema, _portion(first, batches))
        counts = tokenmill.count(portion, **settings)
        for batch in pa.RecordBatchReader.from_stream(counts.to_arrow()):
            # Spark has no unsigned numbers.
            columns = [batch["pretoken"], batch["count"].cast(pa.int64())]
            yield pa.RecordBatch.from_arrays(columns, ["pretoken", "count"])


def _portion(first: pa.RecordBatch, following: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Gives batches up to a portion's size. The others stay in the iterator."""
    yield first
    size = first.nbytes
    while size < _PORTION_BYTES and (batch := next(following, None)) is not None:
        yield batch
        size += batch.nbytes


def _summed(counts: DataFrame) -> DataFrame:
    """Sums the counts of equal pre-tokens."""
    problem = F.raise_error(F.lit("the sum of the counts of a pre-token exceeds 63 bits"))
    return counts.groupBy("pretoken").agg(F.coalesce(F.try_sum("count"), problem).alias("count"))


def encode(
    df: DataFrame,
    tokenizer: Tokenizer,
    column: str = "text",
    keep: Sequence[str] = (),
    *,
    bos: bool = False,
    eos: bool = False,
    threads: int = 1,
) -> DataFrame:
    """Encodes a column of text.

    A task holds one batch of Spark at a time, and its ids. Spark 4.3 makes batches of up to 64 MB
    (``spark.sql.execution.arrow.maxBytesPerBatch``); if yours has no such limit, ``maxRecordsPerBatch`` limits rows.

    If Spark writes the result to Parquet, do so with ``option("compression", "zstd")`` and
    ``option("parquet.enable.dictionary", "false")``: ids then take a fifth less space.

    Args:
        df: The data frame.
        tokenizer: The tokenizer, which must be one that can be pickled. A worker prepares it once.
        column: The column of text: strings, or binary values.
        keep: The columns that the result has as they are, after the ids.
        bos: Whether to add the token that begins a document before the ids of each text.
        eos: Whether to add the token that ends a document after the ids of each text.
        threads: As for :func:`count`.

    Returns:
        A data frame with the columns ``input_ids`` (array of int), ``length`` (int) and ``keep``, and a row for each
        row of ``df``. It is computed when it is used. The ids and the length of a null text are null.

    Raises:
        UsageError: A column is missing or holds no text, or the tokenizer names no token for ``bos`` or ``eos``.
        pyspark.errors.PythonException: When the result is used: a text cannot be encoded.

    Example:
        >>> df = spark.createDataFrame([(1, "a wood"), (2, None)], "id int, text string")
        >>> rows = tokenmill.spark.encode(df, tokenizer, keep=["id"]).orderBy("id").collect()
        >>> [(row.id, row.input_ids, row.length) for row in rows]
        [(1, [97, 263], 2), (2, None, None)]
    """
    keep = texts_of("keep", keep)
    texts = _selected(df, column, keep)
    settings: dict[str, Any] = {"bos": bos, "eos": eos, "threads": threads}
    # What the tokenizer cannot do is refused here, before Spark runs anything.
    tokenizer.encode_arrow(pa.array([], pa.string()), **settings)
    settings |= {"column": "0", "keep": texts.columns[1:]}
    schema = StructType([*_IDS, *(df.schema[name] for name in keep)])
    return texts.mapInArrow(partial(_encoded, tokenizer=tokenizer, settings=settings), schema)


def _encoded(
    batches: Iterator[pa.RecordBatch], tokenizer: Tokenizer, settings: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Encodes the texts of a partition, batch by batch."""
    for batch in batches:
        for encoded in pa.RecordBatchReader.from_stream(tokenizer.encode_arrow(batch, **settings)):
            *keep, ids = encoded.columns
            names = ["input_ids", "length", *settings["keep"]]
            yield pa.RecordBatch.from_arrays([ids, pc.list_value_length(ids), *keep], names)


def encode_files(
    spark: SparkSession,
    files: Source | Sequence[Source],
    tokenizer: Tokenizer | Path,
    out: Path,
    shards: int,
    *,
    column: str | None = None,
    output_format: str | None = None,
    threads: int = 1,
    memory: Size = "1GB",
    **keys: Unpack[EncodeArguments],
) -> dict[str, Any]:
    """Encodes files into a data set, as ``tokenmill.encode`` does, with one task of Spark for each shard.

    Each task reads and writes files by itself, which is faster than through data frames. The shards appear in
    ``out/.shards``, each when it is complete. The driver puts them together, writes the manifest last, and removes
    ``out/.shards``. If it is stopped before, the same call goes on with the shards that are missing.

    Args:
        spark: The session. If ``threads`` is not 1, set its ``spark.task.cpus`` to the same number.
        files: What to read, as for ``tokenmill.encode``: absolute paths that all nodes see, or addresses.
        tokenizer: A tokenizer that can be pickled, or its path or name, as the nodes see it.
        out: The folder to write, which all nodes see.
        shards: The number of shards. A few hundred MB of text in each, and several for each core, are a good choice.
            The rows and their order do not depend on it.
        column: The column with the text; by default ``"text"``.
        output_format: ``"parquet"`` (the default), ``"bin"`` or ``"megatron"``.
        threads: The number of threads of a task.
        memory: The limit of memory of a task, outside of the JVM.
        **keys: Further keys, as for ``tokenmill.encode``: ``columns``, ``bos``, ``eos``, ``pack`` and others.

    Returns:
        The manifest, as ``tokenmill.merge`` gives it.

    Raises:
        UsageError: An argument is wrong, or ``out`` holds a data set already.
        pyspark.errors.PythonException: A task failed as often as Spark repeats it. Its last error is in the message:
            ``out/.shards`` holds shards of another job, for example.

    Example:
        >>> made = tokenmill.spark.encode_files(
        ...     spark, "demo:verse?lines=500", tokenizer, "tokens", shards=3, column="line"
        ... )
        >>> made["tokenizer"] == tokenizer.fingerprint
        True
    """
    folder = _shards.folder_of(out, shards)
    arguments: dict[str, Any] = {
        "column": column,
        "output_format": output_format,
        "threads": threads,
        "memory": memory,
        **keys,
    }
    work = partial(_shard_written, files=files, tokenizer=tokenizer, out=folder, shards=shards, arguments=arguments)
    spark.range(1, shards + 1, numPartitions=shards).mapInArrow(work, "id bigint").collect()
    return _shards.merge_shards(folder, shards)


def _shard_written(
    batches: Iterator[pa.RecordBatch],
    files: Source | Sequence[Source],
    tokenizer: Tokenizer | Path,
    out: Path,
    shards: int,
    arguments: dict[str, Any],
) -> Iterator[pa.RecordBatch]:
    """Writes the shards with the numbers of a partition, and gives the numbers."""
    for batch in batches:
        for index in batch["id"].to_pylist():
            _shards.encode_shard(files, tokenizer, out, index, shards, **arguments)
        yield batch


def _selected(df: DataFrame, column: str, keep: Sequence[str]) -> DataFrame:
    """The column of text, and columns to keep. Their names are numbers: Spark's ``mapInArrow`` refuses some others.

    Raises:
        UsageError: A column is missing, or there are several of the name, or the column holds no text.
    """
    for name in (column, *keep):
        if df.columns.count(name) != 1:
            problem = "several columns" if name in df.columns else "no column"
            raise UsageError(f"the data frame has {problem} {name!r}", f"its columns are {', '.join(df.columns)}")
    for field in _IDS:
        if field.name in keep:
            raise UsageError(f"two columns would be named {field.name!r}", "leave that column out of keep")
    kind = df.schema[column].dataType
    if not isinstance(kind, (StringType, BinaryType)):
        raise UsageError(
            f"the column {column!r} is of type {kind.simpleString()}, which is not text", "name another with column=…"
        )
    quoted = ("`" + name.replace("`", "``") + "`" for name in (column, *keep))
    return df.select([F.col(name).alias(str(number)) for number, name in enumerate(quoted)])
