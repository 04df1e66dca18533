"""Shards of a job, each by a process of its own, and what is made of them."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import made_texts

import tokenmill
from tokenmill import Tokenizer, errors

SHARDS = 5


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three Parquet files of several row groups."""
    folder = tmp_path_factory.mktemp("corpus")
    for number, rows in enumerate([300, 50, 420]):
        table = pa.table({"text": made_texts(rows, seed=number), "id": list(range(rows))})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=60)
    return folder


def encode_shard(job: tuple[Path, Path, Path, int]) -> str:
    """Encodes a shard in a process of its own, and gives its folder."""
    corpus, tokenizer, out, number = job
    folder = out / f"shard-{number}"
    tokenmill.encode(corpus, tokenizer=tokenizer, out=folder, columns=["id"], shard=f"{number}/{SHARDS}")
    return str(folder)


def test_shards_of_processes_are_merged_to_the_rows_of_one_job(corpus: Path, folder: Path, tmp_path: Path) -> None:
    one = tokenmill.encode(corpus, tokenizer=folder, out=tmp_path / "one", columns=["id"])
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        shards = pool.map(encode_shard, [(corpus, folder, tmp_path, number) for number in range(1, SHARDS + 1)])
    merged = tokenmill.merge(shards[::-1], tmp_path / "merged")
    rows = [
        pa.concat_tables(pq.read_table(tmp_path / name / file["name"]) for file in manifest["files"])
        for name, manifest in (("one", one), ("merged", merged))
    ]
    assert rows[0].to_pylist() == rows[1].to_pylist()
    assert (merged["inputs"], merged["tokenizer"]) == (one["inputs"], one["tokenizer"])
    written = json.loads((tmp_path / "merged" / "manifest.json").read_text())
    assert {key: value for key, value in written.items() if key != "sha256"} == merged
    assert json.loads((tmp_path / "shard-2" / "manifest.json").read_text())["shard"]["index"] == 2
    assert tokenmill.merge(shards, tmp_path / "merged") == merged


def test_counts_of_shards_are_those_of_the_whole(corpus: Path, tmp_path: Path) -> None:
    tokenmill.count(corpus).write(tmp_path / "one.parquet")
    parts = [tmp_path / f"{number}.parquet" for number in range(1, SHARDS + 1)]
    for number, part in enumerate(parts, start=1):
        tokenmill.count(corpus, shard=f"{number}/{SHARDS}").write(part)
    tokenmill.merge_counts(parts, tmp_path / "sum.parquet")
    assert (tmp_path / "sum.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()
    with pytest.raises(errors.UsageError, match="shard 3/5 is missing"):
        tokenmill.merge_counts([*parts[:2], *parts[3:]], tmp_path / "wrong.parquet")


def test_wrong_shards_are_named(corpus: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    for shard in ("0/7", "8/7", "third"):
        with pytest.raises(errors.UsageError, match=shard):
            tokenmill.encode(corpus, tokenizer=tokenizer, out=tmp_path / "out", shard=shard)
    with pytest.raises(errors.UsageError, match="`take` cannot be combined with `shard`"):
        tokenmill.encode(corpus, tokenizer=tokenizer, out=tmp_path / "out", shard="1/7", sample={"take": 3})
    with pytest.raises(errors.UsageError, match="cannot be divided into shards"):
        tokenmill.count(iter(["a text"]), shard="1/7")
    tokenmill.encode(corpus, tokenizer=tokenizer, out=tmp_path / "first", shard="1/2")
    with pytest.raises(errors.UsageError, match="shard 2/2 is missing"):
        tokenmill.merge([tmp_path / "first"], tmp_path / "out")
    with pytest.raises(errors.UsageError, match="is not a complete shard"):
        tokenmill.merge([corpus], tmp_path / "out")
    with pytest.raises(errors.UsageError, match="no shards to merge"):
        tokenmill.merge([], tmp_path / "out")
    with pytest.raises(TypeError, match="this is one path"):
        tokenmill.merge("first", tmp_path / "out")  # type: ignore[arg-type]


def test_a_recipe_is_run_in_shards(corpus: Path, folder: Path, tmp_path: Path) -> None:
    recipe = {"source": {"uri": str(corpus)}, "encode": {"tokenizer": str(folder)}}
    made = [tokenmill.run(recipe, dir=str(tmp_path / str(number)), shard=f"{number}/3") for number in (1, 2, 3)]
    merged = tokenmill.merge([tmp_path / str(number) for number in (1, 2, 3)], tmp_path / "merged")
    assert sum(file["rows"] for file in merged["files"]) == sum(one["rows"] for one in made) == 770
    assert tokenmill.plan(recipe, dir=str(tmp_path / "4"), shard="2/3")["shard"] == "2/3"
