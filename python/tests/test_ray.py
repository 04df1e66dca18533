"""Counting and encoding on Ray: what the program gives, also if workers die."""

from __future__ import annotations

import doctest
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import made_texts, real_texts
from test_train import program

import tokenmill
from tokenmill import Tokenizer, _shards, errors

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
ray = pytest.importorskip("ray", reason="Ray is not installed: tokenmill.ray is not tested")
pytest.importorskip("ray.data", reason="ray[data] is not installed: tokenmill.ray is not tested")
import tokenmill.ray  # noqa: E402

SPECIAL = "<|end|>"
PARTS = 5


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Ray with two processors, whose datasets keep their order."""
    ray.init(num_cpus=2, object_store_memory=300_000_000, include_dashboard=False, log_to_driver=False)
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    # Workers cannot import this file.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    ray.shutdown()


@pytest.fixture(scope="module", params=["generated", "books", "languages"])
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = made_texts(3000, seed=5) if request.param == "generated" else real_texts(request.param)
    return written(texts, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(made_texts(1000, seed=6), tmp_path_factory.mktemp("small"))


def written(texts: list[Any], folder: Path) -> Path:
    """A folder of files with texts, some of which spell a special token, are empty or null."""
    texts = [f"{text}{SPECIAL}{text}" if at % 50 == 7 else text for at, text in enumerate(texts)]
    texts[3::100] = [None] * len(texts[3::100])
    size = -(-len(texts) // PARTS)
    for part in range(PARTS):
        rows = range(part * size, min(len(texts), (part + 1) * size))
        table = pa.table({"text": pa.array([texts[row] for row in rows], pa.string()), "id": rows})
        pq.write_table(table, folder / f"part-{part}.parquet", row_group_size=size // 4)
    return folder


@pytest.fixture(scope="module")
def trained() -> Tokenizer:
    return tokenmill.train_from_iterator(made_texts(2000, seed=2), 1000, special_tokens=[SPECIAL])


def dataset(corpus: Path, blocks: int | None = None) -> Any:
    """The files as a dataset, or their rows in so many blocks."""
    if blocks is None:
        return ray.data.read_parquet(str(corpus))
    table = pa.concat_tables(pq.read_table(file) for file in sorted(corpus.iterdir()))
    size = -(-table.num_rows // blocks)
    return ray.data.from_arrow([table.slice(at * size, size) for at in range(blocks)])


def table_of(ds: Any) -> pa.Table:
    return pa.concat_tables(ray.get(ds.to_arrow_refs()))


def data_of(folder: Path) -> list[list[int]]:
    """The rows of an output, in order."""
    files = sorted((folder / "data").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file)["input_ids"].to_pylist()]


@pytest.mark.parametrize(("split", "special_tokens"), [("gpt4", [SPECIAL]), (r"\p{L}+|[^\p{L}]+", [])])
def test_counts_are_those_of_the_program(split: str, special_tokens: list[str], corpus: Path, tmp_path: Path) -> None:
    pattern = ["--split", split] if split == "gpt4" else ["--split-regex", split]
    specials = [word for token in special_tokens for word in ("--special-token", token)]
    program("count", corpus / "*.parquet", "-o", tmp_path / "program", *pattern, *specials)
    # More blocks than a task sums.
    counts = tokenmill.ray.count(dataset(corpus, blocks=37), split=split, special_tokens=special_tokens)
    counts.write(tmp_path / "ray")
    # Without what the file of the program says about its sources.
    tokenmill.Counts.from_arrow(tokenmill.Counts.from_file(tmp_path / "program").to_arrow()).write(tmp_path / "plain")
    assert (tmp_path / "ray").read_bytes() == (tmp_path / "plain").read_bytes()
    trained = [tokenmill.train(counts=given, vocab_size=900) for given in (counts, tmp_path / "program")]
    assert trained[0].get_mergeable_ranks() == trained[1].get_mergeable_ranks()
    assert trained[0].fingerprint == trained[1].fingerprint


def test_ids_are_those_of_the_program(corpus: Path, trained: Tokenizer, tmp_path: Path) -> None:
    table = pa.concat_tables(pq.read_table(file) for file in sorted(corpus.iterdir()))
    for special in ("text", "allow"):
        tokenizer = trained.with_special(special)
        encoded = table_of(tokenmill.ray.encode(dataset(corpus), tokenizer, keep=["id"]))
        expected = pa.table(tokenizer.encode_arrow(table, keep=["id"]))
        assert encoded.schema.equals(expected.schema)
        assert encoded.equals(expected)
        assert encoded["input_ids"].null_count == table["text"].null_count > 0
        trained.save_pretrained(tmp_path / "tokenizer")
        words = ("-t", tmp_path / "tokenizer", "-o", tmp_path / special, "--special", special)
        program("encode", corpus / "*.parquet", *words, "--on-bad-input", "skip")
        assert data_of(tmp_path / special) == encoded["input_ids"].to_pylist()


def test_datasets_without_texts_give_nothing(trained: Tokenizer) -> None:
    nulls = ray.data.from_items([{"text": None, "id": number} for number in range(3)])
    for ds, ids in [(nulls, [None] * 3), (ray.data.from_arrow(pa.table({"text": pa.array([], pa.string())})), [])]:
        assert len(tokenmill.ray.count(ds)) == 0
        assert [row["input_ids"] for row in tokenmill.ray.encode(ds, trained).take_all()] == ids
    few = ray.data.from_items([{"text": "a"}]).filter(lambda row: row["text"] != "a")
    assert (len(tokenmill.ray.count(few)), tokenmill.ray.encode(few, trained).count()) == (0, 0)


def dying(marker: Path) -> Callable[[pa.Table], pa.Table]:
    """A step whose worker dies after some rows, the first time that it gets there."""

    def step(rows: pa.Table) -> pa.Table:
        if 400 in rows["id"].to_pylist() and not marker.exists():
            marker.touch()
            os._exit(1)
        return rows

    return step


def test_a_worker_that_dies_loses_and_doubles_no_row(small: Path, trained: Tokenizer, tmp_path: Path) -> None:
    def mortal(name: str) -> Any:
        step = dying(tmp_path / name)
        return dataset(small, blocks=4).map_batches(step, batch_format="pyarrow", batch_size=50)

    counts = tokenmill.ray.count(mortal("count"))
    expected = tokenmill.count(str(small / "*.parquet"), on_bad_input="skip")
    assert (len(counts), counts.total) == (len(expected), expected.total)
    encoded = table_of(tokenmill.ray.encode(mortal("encode"), trained, keep=["id"]))
    assert encoded.equals(table_of(tokenmill.ray.encode(dataset(small), trained, keep=["id"])))
    assert {"count", "encode"} <= {marker.name for marker in tmp_path.iterdir()}


def test_mistakes_are_clear_errors(trained: Tokenizer, tmp_path: Path) -> None:
    ds = ray.data.from_items([{"text": f"a{SPECIAL}", "n": 1}])
    for split, message in [("none", "need a split"), ("(", r"\("), ("gpt9", "gpt9")]:
        with pytest.raises(errors.UsageError, match=message):
            tokenmill.ray.count(ds, split=split)
    for call in [
        lambda: tokenmill.ray.count(ds, special_tokens=SPECIAL),
        lambda: tokenmill.ray.encode(ds, trained, keep="n"),
    ]:
        with pytest.raises(TypeError, match="must be a list"):
            call()
    with pytest.raises(errors.UsageError, match="order"):
        tokenmill.train(counts=tokenmill.ray.count(ds), vocab_size=257, tie_break="first")
    for call, message in [
        (lambda: tokenmill.ray.count(ds, "body"), "body"),
        (lambda: tokenmill.ray.count(ds, "n"), "text"),
        (lambda: tokenmill.ray.encode(ds, trained, "body").take_all(), "body"),
        (lambda: tokenmill.ray.encode(ds, trained, "n").take_all(), "not text"),
        (lambda: tokenmill.ray.encode(ds, trained, keep=["m"]).take_all(), "m"),
        (lambda: tokenmill.ray.encode(ds, trained.with_special("forbid")).take_all(), "row 0"),
    ]:
        with pytest.raises((ray.exceptions.RayError, ValueError), match=message):
            call()


@pytest.fixture(scope="module")
def single(small: Path, trained: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> list[list[int]]:
    return rows_of_one_run(small, trained, tmp_path_factory.mktemp("single"))


def rows_of_one_run(files: Path, tokenizer: Tokenizer, out: Path) -> list[list[int]]:
    tokenmill.encode(str(files / "*.parquet"), tokenizer=tokenizer, out=out, on_bad_input="skip", eos=SPECIAL)
    return data_of(out)


def encode_files(files: Path, tokenizer: Tokenizer, out: Path, shards: int = 3, **keys: Any) -> dict[str, Any]:
    keys = {"on_bad_input": "skip", "eos": SPECIAL, **keys}
    return tokenmill.ray.encode_files(str(files / "*.parquet"), tokenizer, out, shards, **keys)


def check(out: Path, single: list[list[int]], manifest: dict[str, Any] | None = None) -> None:
    """The output is complete, and nothing else is there."""
    program("verify", out)
    assert data_of(out) == single
    assert not (out / ".shards").exists()
    written = json.loads((out / "manifest.json").read_text())
    assert sum(file["rows"] for file in written["files"]) == len(single)
    if manifest is not None:
        assert manifest["files"] == written["files"]


def test_files_give_the_data_set_of_one_run(corpus: Path, trained: Tokenizer, tmp_path: Path) -> None:
    single = rows_of_one_run(corpus, trained, tmp_path / "single")
    check(tmp_path / "out", single, encode_files(corpus, trained, tmp_path / "out"))


@pytest.mark.parametrize("shards", [1, 40])
def test_shards_may_be_few_or_empty(
    shards: int, small: Path, trained: Tokenizer, single: list[list[int]], tmp_path: Path
) -> None:
    check(tmp_path / "out", single, encode_files(small, trained, tmp_path / "out", shards))


class Failing:
    """Does something else the first times that a shard is half-way, and counts these times by files."""

    def __init__(self, folder: Path, times: int, act: Callable[[], object]) -> None:
        self.folder, self.times, self.act = folder, times, act
        folder.mkdir()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        for time in range(self.times):
            try:
                (self.folder / str(time)).touch(exist_ok=False)
            except FileExistsError:
                continue
            self.act()

    @property
    def done(self) -> int:
        """How often it was done."""
        return len(list(self.folder.iterdir()))


def fail() -> None:
    raise errors.SystemFailure("the disk is tired")


@pytest.mark.parametrize(("times", "act"), [(1, lambda: os._exit(1)), (2, lambda: os._exit(1)), (2, fail)])
def test_shards_that_fail_are_encoded_again(
    times: int,
    act: Callable[[], object],
    small: Path,
    trained: Tokenizer,
    single: list[list[int]],
    tmp_path: Path,
) -> None:
    failing = Failing(tmp_path / "times", times, act)
    # With a single shard, it is the same one that fails each time.
    manifest = encode_files(small, trained, tmp_path / "out", 1, progress=failing)
    assert failing.done == times
    check(tmp_path / "out", single, manifest)


def test_after_a_failure_the_same_call_does_what_is_left(
    small: Path, trained: Tokenizer, single: list[list[int]], tmp_path: Path
) -> None:
    out, failing = tmp_path / "out", Failing(tmp_path / "times", 1, fail)
    once = {"max_retries": 0, "retry_exceptions": False}
    _shards.folder_of(out, 3)
    _shards.encode_shard(str(small / "*.parquet"), trained, out, 2, 3, on_bad_input="skip", eos=SPECIAL)
    before = {file: file.stat().st_mtime_ns for file in (out / ".shards" / "00002").rglob("*.parquet")}
    with pytest.raises(errors.SystemFailure, match="tired"):
        encode_files(small, trained, out, progress=failing, ray_remote_args=once)
    assert not (out / "manifest.json").exists()
    assert before == {file: file.stat().st_mtime_ns for file in (out / ".shards" / "00002").rglob("*.parquet")}
    check(out, single, encode_files(small, trained, out))
    with pytest.raises(errors.UsageError, match="holds a data set"):
        encode_files(small, trained, out)


def test_a_shard_of_another_job_is_refused(small: Path, trained: Tokenizer, tmp_path: Path) -> None:
    out = _shards.folder_of(tmp_path / "out", 3)
    _shards.encode_shard(str(small / "*.parquet"), trained, out, 2, 3, on_bad_input="skip", eos=SPECIAL)
    with pytest.raises(errors.UsageError, match="another run"):
        encode_files(small, trained, out, special="allow")
    assert not (out / "manifest.json").exists()


def test_copies_of_a_shard_do_not_disturb_each_other(
    small: Path, trained: Tokenizer, single: list[list[int]], tmp_path: Path
) -> None:
    out = _shards.folder_of(tmp_path / "out", 3)
    task = ray.remote(_shards.encode_shard)
    keys = {"on_bad_input": "skip", "eos": SPECIAL}
    copies = [task.remote(str(small / "*.parquet"), trained, out, index, 3, **keys) for index in (1, 1, 2, 2, 3, 3)]
    ray.get(copies)
    assert sorted(folder.name for folder in (out / ".shards").iterdir()) == ["00001", "00002", "00003"]
    _shards.merge_shards(out, 3)
    check(out, single)
    # A copy that begins after the end.
    with pytest.raises(errors.UsageError, match="does not exist"):
        ray.get(task.remote(str(small / "*.parquet"), trained, out, 2, 3, **keys))
    program("verify", out)
    assert data_of(out) == single


def test_attempts_at_the_same_moment_give_way(
    small: Path, trained: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both attempts are complete before either is renamed."""
    out, both, rename = _shards.folder_of(tmp_path, 2), threading.Barrier(2), Path.rename

    def rename_together(self: Path, target: Path) -> Path:
        both.wait(timeout=60)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", rename_together)
    failures: list[BaseException] = []

    def attempt() -> None:
        try:
            _shards.encode_shard(str(small / "*.parquet"), trained, out, 1, 2, on_bad_input="skip")
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=attempt) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [folder.name for folder in (tmp_path / ".shards").iterdir()] == ["00001"]


def test_mistakes_with_files_are_clear_errors(small: Path, trained: Tokenizer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for keys, message in [
        ({"out": "s3://bucket/tokens"}, "not a folder"),
        ({"shards": 0}, "`shards` is 0"),
        ({"column": "body"}, "body"),
        ({"sample": {"take": 3}}, "shard"),
        ({"compresion": "fast"}, "did you mean `compression`"),
    ]:
        arguments = {"out": out, "shards": 2, **keys}
        with pytest.raises(errors.UsageError, match=message):
            encode_files(small, trained, **arguments)
    with pytest.raises(errors.TokenmillError, match="no file"):
        tokenmill.ray.encode_files("none/*.parquet", trained, out, 2)
    assert not (out / "manifest.json").exists()


def test_the_examples_are_true() -> None:
    result = doctest.testmod(tokenmill.ray)
    assert (result.failed, result.attempted > 5) == (0, True)
