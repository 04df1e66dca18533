"""Tables of pyarrow, data frames of polars and relations of duckdb, in and out.

Run: pip install pyarrow polars duckdb, then python dataframes.py
"""

from __future__ import annotations

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import tokenmill

TEXTS = ["the quick brown fox", None, "jumps over the lazy dog", "", "the dog and the fox"]


def main() -> None:
    """Encodes the same texts from each library to each."""
    tokenizer = tokenmill.train_from_iterator((text for text in TEXTS * 9 if text), 300)

    # polars: a frame in, a frame out.
    frame = pl.DataFrame({"id": range(len(TEXTS)), "text": TEXTS})
    encoded = pl.DataFrame(tokenizer.encode_arrow(frame, keep=["id"]))
    print(encoded.with_columns(length=pl.col("input_ids").list.len()))

    # pyarrow: from one Parquet file to another, batch by batch.
    frame.write_parquet("texts.parquet")
    file = pq.ParquetFile("texts.parquet")
    batches = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(batch_size=2))
    reader = pa.RecordBatchReader.from_stream(tokenizer.encode_arrow(batches, keep=["id"]))
    with pq.ParquetWriter("tokens.parquet", reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    assert pl.read_parquet("tokens.parquet").equals(encoded)

    # duckdb: it reads streams by their names in the program, as it reads tables.
    stream = tokenizer.encode_arrow(frame, keep=["id"])  # noqa: F841
    print(duckdb.execute("SELECT count(input_ids) AS texts, sum(len(input_ids)) AS tokens FROM stream").fetchall())
    # A relation in. A connection does one thing at a time, so the ids are collected before it reads them.
    relation = duckdb.sql("SELECT id, text FROM 'texts.parquet' WHERE text LIKE '%fox%' ORDER BY id")
    foxes = pa.table(tokenizer.encode_arrow(relation, keep=["id"]))  # noqa: F841
    print(duckdb.execute("SELECT id, len(input_ids) FROM foxes").fetchall())


if __name__ == "__main__":
    main()
