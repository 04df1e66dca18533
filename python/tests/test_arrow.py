"""Arrow data in and out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tokenmill import Tokenizer, errors

TEXTS = ["the quick", None, "", "naïve 日本語", "fox"]


def expected(tokenizer: Tokenizer) -> list[list[int] | None]:
    return [None if text is None else tokenizer.encode(text) for text in TEXTS]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
)
def test_every_type_of_text_is_encoded(tokenizer: Tokenizer, kind: pa.DataType) -> None:
    table = pa.table({"text": pa.array(TEXTS).cast(pa.binary()).cast(kind), "n": range(5)})
    encoded = pa.table(tokenizer.encode_arrow(table, keep=["n"]))
    assert encoded.column("input_ids").to_pylist() == expected(tokenizer)
    assert encoded.column("n").to_pylist() == [0, 1, 2, 3, 4]
    assert encoded.schema.field("input_ids").type == pa.list_(pa.field("element", pa.int32()))


def test_slices_and_batches_keep_their_rows(tokenizer: Tokenizer) -> None:
    table = pa.table({"text": ["dropped", *TEXTS, "dropped"]})[1:6]
    batches = table.to_batches(max_chunksize=2)
    for data in [table, pa.RecordBatchReader.from_batches(table.schema, batches), batches[0]]:
        rows = 2 if data is batches[0] else 5
        encoded = pa.table(tokenizer.encode_arrow(data, dtype="uint32"))
        assert encoded.column("input_ids").to_pylist() == expected(tokenizer)[:rows]
        assert encoded.schema.field("input_ids").type.value_type == pa.uint32()


def test_tokens_are_put_around_texts_that_are_not_null(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(folder)
    rows = [None if text is None else tokenizer.encode(text, eos=True) for text in TEXTS]
    column = pa.array(TEXTS)
    for data in [column, column.dictionary_encode()]:
        ids = pa.table(tokenizer.encode_arrow(data, eos=True)).column("input_ids").combine_chunks()
        assert ids.to_pylist() == rows
        assert len(ids.values) == sum(len(row) for row in rows if row is not None)
    long = pa.array(["fox " * 3_000_000, None, "fox"])  # the rows of several batches
    ids = pa.table(tokenizer.encode_arrow(long, eos=True)).column("input_ids")
    assert ids.num_chunks > 1
    assert [row.as_py() and row.as_py()[-1] for row in ids] == [tokenizer.eos_token_id, None, tokenizer.eos_token_id]
    with pytest.raises(errors.UsageError, match="names no bos token"):
        tokenizer.encode_arrow(column, bos=True)


def test_a_single_column_needs_no_name(tokenizer: Tokenizer) -> None:
    for data in [pa.array(TEXTS), pa.chunked_array([TEXTS])]:
        assert pa.table(tokenizer.encode_arrow(data)).column("input_ids").to_pylist() == expected(tokenizer)


def test_a_stream_is_encoded_as_it_is_read(tokenizer: Tokenizer) -> None:
    drawn = []

    def batches():
        for number in range(100):
            drawn.append(number)
            yield pa.record_batch({"text": [f"fox {number}"]})

    source = pa.RecordBatchReader.from_batches(pa.schema({"text": pa.string()}), batches())
    stream = pa.RecordBatchReader.from_stream(tokenizer.encode_arrow(source))
    assert drawn == []
    assert stream.read_next_batch().column(0).to_pylist() == [tokenizer.encode("fox 0")]
    assert len(drawn) <= 2
    assert sum(batch.num_rows for batch in stream) == 99


def test_a_failing_source_is_an_error(tokenizer: Tokenizer) -> None:
    def batches():
        yield pa.record_batch({"text": ["fox"]})
        raise LookupError("mine")

    source = pa.RecordBatchReader.from_batches(pa.schema({"text": pa.string()}), batches())
    with pytest.raises(Exception, match="mine"):
        pa.table(tokenizer.encode_arrow(source))


def test_the_batch_of_an_error_is_named(tokenizer: Tokenizer) -> None:
    table = pa.table({"text": ["fox"] * 7 + ["<|end|>"]})
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=5))
    with pytest.raises(Exception, match="begins with row 5: .*row 2"):
        pa.table(tokenizer.with_special("forbid").encode_arrow(stream))


def test_mistakes_are_errors(tokenizer: Tokenizer) -> None:
    table = pa.table({"text": TEXTS, "n": range(5), "input_ids": range(5)})
    for arguments, message in [
        ({"column": "texts"}, "no column"),
        ({"column": "n"}, "not text"),
        ({"keep": ["m"]}, "no column"),
        ({"keep": ["input_ids"]}, "two columns"),
        ({"dtype": "int8"}, "int8"),
    ]:
        with pytest.raises(errors.UsageError, match=message):
            tokenizer.encode_arrow(table, **arguments)
    with pytest.raises(errors.UsageError, match="not Arrow data"):
        tokenizer.encode_arrow(TEXTS)
    stream = tokenizer.encode_arrow(table)
    pa.table(stream)
    with pytest.raises(errors.UsageError, match="read already"):
        pa.table(stream)


def test_data_of_other_libraries_is_encoded(tokenizer: Tokenizer) -> None:
    polars = pytest.importorskip("polars")
    for data in [polars.DataFrame({"text": TEXTS}), polars.Series(TEXTS)]:
        frame = polars.DataFrame(tokenizer.encode_arrow(data))
        assert frame["input_ids"].to_list() == expected(tokenizer)


def test_duckdb_reads_and_is_read(tokenizer: Tokenizer) -> None:
    duckdb = pytest.importorskip("duckdb")
    table = pa.table({"text": TEXTS, "n": range(5)})
    stream = tokenizer.encode_arrow(duckdb.from_arrow(table), keep=["n"])  # noqa: F841  duckdb finds it by its name
    other = duckdb.connect()
    assert other.sql("SELECT input_ids FROM stream ORDER BY n").fetchall() == [(row,) for row in expected(tokenizer)]


def test_dictionaries_are_encoded(tokenizer: Tokenizer) -> None:
    chunks = [["the quick", None, "the quick"], [], ["", "naïve 日本語", None]]
    column = pa.chunked_array([pa.array(chunk, pa.string()).dictionary_encode() for chunk in chunks])
    encoded = pa.table(tokenizer.encode_arrow(pa.table({"text": column}))).column("input_ids").to_pylist()
    assert encoded == [None if text is None else tokenizer.encode(text) for chunk in chunks for text in chunk]


def test_an_error_names_the_row_of_a_dictionary(tokenizer: Tokenizer) -> None:
    table = pa.table({"text": pa.array(["a", "a", "b", "<|end|>"]).dictionary_encode()})
    with pytest.raises(pa.ArrowInvalid, match="row 3"):
        pa.table(tokenizer.with_special("forbid").encode_arrow(table))
