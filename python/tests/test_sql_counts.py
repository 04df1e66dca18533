"""Counts that another program has made: the SQL in docs/formats.md, run by duckdb, and files as Spark writes them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import made_texts
from test_train import program

import tokenmill
from tokenmill import Counts, errors

DOCUMENT = Path(__file__).parents[2] / "docs" / "formats.md"
TEXTS = [*made_texts(400, seed=9), "  two  spaces\n\n", "naïve Ünïcode 東京 3.14 it's"]


def query() -> str:
    """The SQL of the document."""
    if not DOCUMENT.exists():
        pytest.skip("the documents are not beside the tests")
    (found,) = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    return str(found)


def pattern() -> str:
    """The regular expression in it."""
    (found,) = re.findall(r"regexp_extract_all\(text, '(.*?)'\)", query())
    assert f"--split-regex '{found}'" in DOCUMENT.read_text()
    return str(found)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `corpus` with two files, in the working directory."""
    (tmp_path / "corpus").mkdir()
    for number, part in enumerate([TEXTS[:150], TEXTS[150:]]):
        pq.write_table(pa.table({"text": part}), tmp_path / "corpus" / f"{number}.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path, table: pa.Table, name: str = "part-00000.parquet") -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / name)
    return folder


def rows(pretokens: list[Any], counts: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"pretoken": pretokens, "count": pa.array(counts, kind or pa.int64())})


def test_the_query_of_the_document_counts_what_the_program_counts(corpus: Path) -> None:
    duckdb.connect().execute(query())
    program("train", *sorted(corpus.glob("corpus/*")), "-o", "text", "--vocab-size", 600, "--split-regex", pattern())
    program("train", "--from-counts", "counts", "-o", "counted", "--vocab-size", 600, "--split-regex", pattern())
    assert (corpus / "text/tokenizer.json").read_bytes() == (corpus / "counted/tokenizer.json").read_bytes()
    made = tokenmill.merge_counts(["counts"], "all.parquet", split=pattern())
    program("count", *sorted(corpus.glob("corpus/*")), "-o", "text.parquet", "--split-regex", pattern())
    assert pq.read_table("all.parquet").equals(pq.read_table("text.parquet"))
    assert made["pretokens"] == pq.read_metadata("text.parquet").num_rows
    tokenizer = tokenmill.train(counts="counts", split=pattern(), vocab_size=600)
    assert tokenizer.fingerprint == tokenmill.Tokenizer.from_file("text").fingerprint
    counts = Counts.from_file("counts", split=pattern())
    assert tokenmill.train(counts=counts, vocab_size=600).fingerprint == tokenizer.fingerprint
    assert counts.split == pattern()


def test_sums_of_parts_need_a_cast(corpus: Path) -> None:
    database = duckdb.connect()
    database.execute(query())
    parts = "SELECT pretoken, sum(count) AS count FROM 'counts/*.parquet' GROUP BY pretoken"
    database.execute(f"COPY ({parts}) TO 'doubles.parquet' (FORMAT parquet)")
    with pytest.raises(errors.TokenmillError, match='"count" is of type Float64') as refused:
        Counts.from_file("doubles.parquet", split=pattern())
    assert "CAST(sum(count) AS BIGINT)" in str(refused.value)
    expected = pa.table(Counts.from_file("counts", split=pattern()).to_arrow())
    for cast in ["BIGINT", "UBIGINT", "DECIMAL(38, 0)"]:
        summed = parts.replace("sum(count)", f"CAST(sum(count) AS {cast})")
        database.execute(f"COPY ({summed}) TO 'sums.parquet' (FORMAT parquet)")
        assert pa.table(Counts.from_file("sums.parquet", split=pattern()).to_arrow()).equals(expected)


def test_a_folder_of_spark_is_read(tmp_path: Path) -> None:
    folder = written(tmp_path / "counts", rows(["the", " cat", "the"], [1, 2, 3]))
    written(folder, rows([b" cat", b" sat"], [7, 1], pa.decimal128(38, 0)), "part-00001.parquet")
    (folder / "_SUCCESS").touch()
    (folder / "._SUCCESS.crc").write_bytes(b"crc")
    (folder / ".part-00000.parquet.crc").write_bytes(b"crc")
    expected = {b" cat": 9, b" sat": 1, b"the": 4}
    for path in [folder, f"{folder}/part-*.parquet"]:
        found = pa.table(Counts.from_file(path, split="gpt2", special_tokens=["<s>"]).to_arrow()).to_pylist()
        assert {row["pretoken"]: row["count"] for row in found} == expected
    tokenmill.merge_counts(
        [folder, folder / "part-00000.parquet"], tmp_path / "sum.parquet", split="gpt4", weights=[2, 1]
    )
    doubled = Counts.from_file(tmp_path / "sum.parquet")
    assert (doubled.split, doubled.total) == ("gpt4", 2 * 14 + 6)


def test_rows_beyond_the_memory_are_summed_on_disk(tmp_path: Path) -> None:
    words = ["".join(chr(97 + int(digit)) for digit in str(number * 7919 % 100_003)) for number in range(300_000)]
    folder = written(tmp_path / "counts", rows(words, list(range(1, 300_001))))
    for name, memory in [("few.parquet", "2MB"), ("all.parquet", "1GB")]:
        program("merge-counts", folder, "-o", tmp_path / name, "--split", "gpt2", "--memory", memory)
    assert (tmp_path / "few.parquet").read_bytes() == (tmp_path / "all.parquet").read_bytes()
    assert sum(pq.read_table(tmp_path / "few.parquet")["count"].to_pylist()) == 300_000 * 300_001 // 2


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (rows(["a", None], [1, 1]), "row 1: the pre-token is null"),
        (rows(["a", ""], [1, 1]), "row 1: the pre-token is empty"),
        (rows(["a", "b"], [1, 0]), 'row 1: the count of "b" is 0'),
        (rows(["a", "b"], [1, -1]), 'row 1: the count of "b" is -1'),
        (rows(["a", "b"], [1, None]), 'row 1: the count of "b" is null'),
        (rows(["a", "a"], [2**63, 2**63], pa.uint64()), '"a" does not fit in 64 bits'),
        (rows(["a"], [1.0], pa.float64()), '"count" is of type Float64'),
        (rows(["a"], ["1"], pa.string()), '"count" is of type Utf8'),
        (rows([1], [1]), '"pretoken" is of type Int64'),
        (pa.table({"word": ["a"], "n": [1]}), 'no column "pretoken"; its columns are word, n'),
        (rows(["a b", "c d"], [1, 1]), "the split gpt2 cuts 2 of the 2 pre-tokens"),
    ],
)
def test_what_no_counts_have_is_an_error(table: pa.Table, message: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "counts", table)
    for read in [
        lambda: Counts.from_file(folder, split="gpt2"),
        lambda: tokenmill.train(counts=folder, split="gpt2", vocab_size=300),
        lambda: tokenmill.merge_counts([folder], tmp_path / "sum.parquet", split="gpt2"),
    ]:
        with pytest.raises(errors.TokenmillError, match=re.escape(message)) as refused:
            read()
        assert refused.value.help
    assert not (tmp_path / "sum.parquet").exists()


def test_the_split_must_be_named(tmp_path: Path) -> None:
    folder = written(tmp_path / "counts", rows(["a", " cat"], [1, 1]))
    with pytest.raises(errors.UsageError, match="`split` is missing"):
        tokenmill.train(counts=folder, vocab_size=300)
    with pytest.raises(errors.UsageError, match="does not say how its text was split"):
        tokenmill.merge_counts([folder], tmp_path / "sum.parquet")
    with pytest.raises(errors.UsageError, match="`split` cannot be none"):
        tokenmill.train(counts=folder, split="none", vocab_size=300)
    with pytest.raises(errors.UsageError, match="need `split`"):
        Counts.from_file(folder, special_tokens=["<s>"])
    with pytest.raises(errors.UsageError, match="first needs the order"):
        tokenmill.train(counts=folder, split="gpt2", tie_break="first", vocab_size=300)
    tokenmill.count(iter(["a cat"]), split="gpt4").write(tmp_path / "ours.parquet")
    with pytest.raises(errors.UsageError, match="gpt4, not gpt2"):
        tokenmill.merge_counts([tmp_path / "ours.parquet"], tmp_path / "sum.parquet", split="gpt2")
    both = tokenmill.train(counts=[tmp_path / "ours.parquet", folder / "part-00000.parquet"], vocab_size=300)
    assert both.vocab_size > 256
