"""Counts: of files, texts and Arrow data, and as files and Arrow data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import made_texts
from test_train import program

import tokenmill
from tokenmill import Counts, errors

TEXTS: list[str | None] = [*made_texts(500, seed=4), None, ""]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("counts") / "texts.parquet"
    pq.write_table(pa.table({"text": TEXTS}), path)
    return path


def table_of(counts: Counts) -> pa.Table:
    return pa.table(counts.to_arrow()).sort_by("pretoken")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()])
def test_all_inputs_give_the_same_counts(kind: pa.DataType, file: Path, tmp_path: Path) -> None:
    program("count", file, "-o", tmp_path / "program.parquet", "--split", "gpt4")
    expected = pq.read_table(tmp_path / "program.parquet")
    table = pa.table({"text": pa.array(TEXTS).cast(pa.binary()).cast(kind)})
    stream = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7))
    for counts in [
        tokenmill.count(file),
        tokenmill.count(str(file), memory="2GB", threads=3),
        tokenmill.count(text for text in TEXTS if text is not None),
        tokenmill.count(table),
        tokenmill.count(stream),
        tokenmill.count(table["text"].combine_chunks(), column="body"),
        Counts.from_file(tmp_path / "program.parquet"),
    ]:
        assert table_of(counts).equals(expected)
        counts.write(tmp_path / "written.parquet")
        assert pq.read_table(tmp_path / "written.parquet").equals(expected)
        assert len(counts) == expected.num_rows
        assert counts.total == sum(expected["count"].to_pylist())
        assert (counts.split, counts.special_tokens) == ("gpt4", [])
        assert repr(counts) == f'Counts({len(counts)} pretokens, total={counts.total}, split="gpt4")'
    tokenmill.count(file).write(tmp_path / "same.parquet")
    assert (tmp_path / "same.parquet").read_bytes() == (tmp_path / "program.parquet").read_bytes()


def test_data_of_polars_is_counted(file: Path) -> None:
    polars = pytest.importorskip("polars")
    expected = table_of(tokenmill.count(file))
    for data in [polars.DataFrame({"text": TEXTS}), polars.Series(TEXTS)]:
        assert table_of(tokenmill.count(data)).equals(expected)
    frame = polars.DataFrame(tokenmill.count(file).to_arrow())
    assert table_of(Counts.from_arrow(frame)).equals(expected.replace_schema_metadata(None))


def test_texts_of_several_columns_are_composed() -> None:
    table = pa.table({"a": ["one", None], "b": [["x", "y"], ["z"]]})
    composed = tokenmill.count(table, template="{a}: {b[]}", join=" ")
    assert table_of(composed).equals(table_of(tokenmill.count(iter(["one: x y", ": z"]))))


def test_counts_of_parts_are_summed(file: Path, tmp_path: Path) -> None:
    whole = tokenmill.count(file, special_tokens=["fox"])
    texts = [text for text in TEXTS if text is not None]
    parts = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for path, part in zip(parts, [texts[:200], texts[200:]]):
        tokenmill.count(iter(part), special_tokens=["fox"]).write(path)
    made = tokenmill.merge_counts(parts, tmp_path / "all.parquet")
    assert made["pretokens"] == len(whole)
    assert table_of(Counts.from_file(tmp_path / "all.parquet")).equals(table_of(whole))
    both = pa.concat_tables([pa.table(Counts.from_file(path).to_arrow()) for path in parts])
    summed = Counts.from_arrow(both)
    assert summed.special_tokens == ["fox"]
    assert table_of(summed).equals(table_of(whole))
    double = tokenmill.merge_counts([parts[0]], tmp_path / "double.parquet", weights=[2.5])
    assert double["pretokens"] == len(Counts.from_file(parts[0]))
    tokenmill.merge_counts(parts, tmp_path / "mixed.parquet", weights=["0.5", 1], memory="1GB")
    mixed, two = Counts.from_file(tmp_path / "mixed.parquet"), Counts.from_file(parts[1])
    assert mixed.total == Counts.from_file(parts[0]).total + 2 * two.total


def test_the_order_is_kept_if_asked_for(file: Path, tmp_path: Path) -> None:
    program("count", file, "-o", tmp_path / "program.parquet", "--order")
    counts = tokenmill.count(file)
    counts.write(tmp_path / "ordered.parquet", order=True)
    assert (tmp_path / "ordered.parquet").read_bytes() == (tmp_path / "program.parquet").read_bytes()
    with pytest.raises(errors.UsageError, match="not in the order"):
        Counts.from_arrow(counts.to_arrow()).write(tmp_path / "x.parquet", order=True)


def test_what_exceeds_the_memory_is_spilled_and_still_right(tmp_path: Path) -> None:
    texts = [f"{number:x} {number * number:x} fox" for number in range(60_000)]
    few = tokenmill.count(iter(texts), memory="20MB", threads=2)
    assert table_of(few).equals(table_of(tokenmill.count(iter(texts))))


def rows(pretokens: list[Any], counts: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"pretoken": pretokens, "count": pa.array(counts, kind)})


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda file: Counts.from_arrow(rows(["a", None], [1, 2])), errors.TokenmillError, "row 1: the pre-token"),
        (lambda file: Counts.from_arrow(rows(["a", ""], [1, 2])), errors.TokenmillError, "row 1: the pre-token"),
        (lambda file: Counts.from_arrow(rows(["a", "b"], [1, 0])), errors.TokenmillError, "row 1: the count"),
        (lambda file: Counts.from_arrow(rows(["a", "b"], [1, -2])), errors.TokenmillError, "row 1: the count"),
        (lambda file: Counts.from_arrow(rows(["a", "b"], [1, None])), errors.TokenmillError, "row 1: the count"),
        (lambda file: Counts.from_arrow(rows([1], [1])), errors.UsageError, '"pretoken" is of type Int64'),
        (lambda file: Counts.from_arrow(rows(["a"], ["1"])), errors.UsageError, '"count" is of type'),
        (lambda file: Counts.from_arrow(rows(["a"] * 2, [2**63] * 2, pa.uint64())), errors.TokenmillError, "64 bits"),
        (lambda file: Counts.from_arrow(pa.table({"a": [1]})), errors.UsageError, "these are a"),
        (lambda file: Counts.from_arrow([1]), errors.UsageError, "not Arrow data"),
        (lambda file: Counts.from_arrow(rows(["a"], [1]), split="none"), errors.UsageError, "need a split"),
        (lambda file: Counts.from_arrow(rows(["a"], [1]), split="("), errors.UsageError, "("),
        (lambda file: Counts.from_arrow(tokenmill.count(file).to_arrow(), split="gpt2"), errors.UsageError, "gpt4"),
        (lambda file: Counts.from_file(file), errors.TokenmillError, "not a counts file"),
        (lambda file: Counts.from_file(file.parent / "none"), errors.NotFoundError, "none"),
        (lambda file: tokenmill.count(file).write(file), errors.UsageError, "counts file"),
        (lambda file: tokenmill.count(file, split="none"), errors.UsageError, "`split` cannot be none"),
        (lambda file: tokenmill.count(file, column="body"), errors.UsageError, "body"),
        (lambda file: tokenmill.count(pa.table({"n": [1]})), errors.UsageError, "the data has no column"),
        (lambda file: tokenmill.count(pa.table({"text": [1]})), errors.UsageError, "text"),
        (lambda file: tokenmill.count(file, memory="lots"), errors.UsageError, "lots"),
        (lambda file: tokenmill.count(file, bounary="join"), errors.UsageError, "bounary"),
        (lambda file: tokenmill.merge_counts(file, "x"), TypeError, "one path"),
        (lambda file: tokenmill.merge_counts([], "x"), errors.UsageError, "no counts files"),
        (lambda file: tokenmill.merge_counts([file], "x", weights=[1, 2]), errors.UsageError, "2 numbers for 1 file"),
        (lambda file: tokenmill.merge_counts([file], "x", weights=[-1]), errors.UsageError, "-1"),
        (lambda file: tokenmill.merge_counts([file], "x", memory="lots"), errors.UsageError, "lots"),
    ],
)
def test_mistakes_are_clear_errors(file: Path, call: Any, kind: type[Exception], message: str) -> None:
    before = file.read_bytes()
    with pytest.raises(kind) as raised:
        call(file)
    assert message in str(raised.value)
    assert file.read_bytes() == before


def test_a_failing_stream_is_an_error_with_its_row() -> None:
    def batches():
        yield pa.record_batch({"text": ["fox", "fox"]})
        raise LookupError("mine")

    source = pa.RecordBatchReader.from_batches(pa.schema({"text": pa.string()}), batches())
    with pytest.raises(errors.TokenmillError, match=r"begins with row 2 .*mine"):
        tokenmill.count(source)
