"""Counting and encoding on Spark, with two executors that are processes of their own.

A first attempt of a task is ended in several ways; the results must not change.
"""

from __future__ import annotations

import inspect
import io
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import made_texts
from test_docs import PYTHON, check
from test_train import program

import tokenmill
from tokenmill import Counts, Tokenizer, _shards, errors

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: Spark is not tested")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Java is not installed: Spark is not tested", allow_module_level=True)

from pyspark import cloudpickle  # noqa: E402
from pyspark.errors import PythonException  # noqa: E402
from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402

import tokenmill.spark as on_spark  # noqa: E402

# Workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SPECIAL = "<|end|>"

# The folder with the real texts, if there is one.
CORPORA = os.environ.get("TOKENMILL_DATA")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on a cluster of two executors with one core each, and a third on another host for speculation."""
    folder = tmp_path_factory.mktemp("spark")
    home = folder / "home"  # executors work in a folder of it
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    with pytest.MonkeyPatch.context() as environment:
        # Spark takes relative paths from the working folder in which it started.
        environment.chdir(folder)
        environment.setenv("SPARK_HOME", str(home))
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.shuffle.partitions": "3",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
            "spark.locality.wait": "0s",
            "spark.task.maxFailures": "8",
            "spark.speculation": "true",
            "spark.speculation.quantile": "0.1",
            "spark.speculation.minTaskRuntime": "3s",
        }
        builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("tokenmill")
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        add_host(session, "127.0.0.2", folder)
        yield session
        session.stop()


def add_host(session: SparkSession, host: str, folder: Path) -> None:
    """Adds a worker on another host to the cluster: a second copy of a task never runs on the host of the first."""
    context = session.sparkContext
    java, gateway = context._jvm, context._gateway
    deploy = java.org.apache.spark.deploy
    cluster = getattr(getattr(deploy, "LocalSparkCluster$"), "MODULE$").get().get()
    masters_of = cluster.getClass().getDeclaredField("masterRpcEnvs")
    masters_of.setAccessible(True)
    masters = gateway.new_array(java.java.lang.String, 1)
    masters[0] = masters_of.get(cluster).head().address().toSparkURL()
    deploy.worker.Worker.startRpcEnvAndEndpoint(
        *(host, 0, 0, 1, 1024, masters, str(folder / "work"), java.scala.Option.apply(3)),
        *(context._conf._jconf, java.scala.Option.empty()),
    )


def lines_of(name: str, most: int) -> list[str]:
    """The first lines of a real text, without those that have no text."""
    path = Path(str(CORPORA)) / name
    if path.suffix == ".zst":
        with pa.CompressedInputStream(pa.OSFile(str(path)), "zstd") as stream:
            data = stream.read(most)
    else:
        data = path.read_bytes()[:most]
    return [line for line in io.StringIO(data.decode("utf-8", "ignore")) if line.strip()]


def texts_of(name: str) -> list[str]:
    if name == "generated":
        return [text + SPECIAL * (row % 7 == 0) for row, text in enumerate(made_texts(3000, seed=5))]
    return lines_of({"books": "swanns-way.txt", "languages": "multilingual.txt.zst"}[name], 3_000_000)


@pytest.fixture(scope="module", params=["generated", *(["books", "languages"] if CORPORA else [])])
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of four files of Parquet, with numbered texts of which some are null."""
    folder = tmp_path_factory.mktemp("corpus")
    texts: list[str | None] = list(texts_of(request.param))
    texts[5::1000] = [None] * len(texts[5::1000])
    part = len(texts) // 4 + 1
    for first in range(0, len(texts), part):
        rows = range(first, min(first + part, len(texts)))
        table = pa.table({"text": texts[rows.start : rows.stop], "row": pa.array(rows, pa.int64())})
        pq.write_table(table, folder / f"part-{first // part}.parquet", row_group_size=500)
    return folder


@pytest.fixture(scope="module")
def learned(corpus: Path) -> Tokenizer:
    """A tokenizer that was trained on the texts."""
    return tokenmill.train(f"{corpus}/*.parquet", vocab_size=1000, special_tokens=[SPECIAL], eos=SPECIAL)


def frame_of(spark: SparkSession, corpus: Path) -> DataFrame:
    """The texts in four partitions."""
    return spark.read.parquet(str(corpus)).repartitionByRange(4, "row")


def test_counts_are_those_of_the_program(spark: SparkSession, corpus: Path, tmp_path: Path) -> None:
    files = f"{corpus}/*.parquet"
    program("count", files, "-o", tmp_path / "program.parquet", "--split", "gpt4", "--special-token", SPECIAL)
    counts = on_spark.count(frame_of(spark, corpus), special_tokens=[SPECIAL])
    counts.write(tmp_path / "spark.parquet")
    # The file of the program also names the input, which Spark does not know.
    plain = pq.read_table(tmp_path / "program.parquet").replace_schema_metadata(None)
    Counts.from_arrow(plain, special_tokens=[SPECIAL]).write(tmp_path / "plain.parquet")
    assert (tmp_path / "spark.parquet").read_bytes() == (tmp_path / "plain.parquet").read_bytes()
    for name in ("spark", "plain"):
        tokenmill.merge_counts([tmp_path / f"{name}.parquet"] * 2, tmp_path / f"{name}-twice.parquet")
    assert (tmp_path / "spark-twice.parquet").read_bytes() == (tmp_path / "plain-twice.parquet").read_bytes()
    trained = tokenmill.train(counts=counts, vocab_size=1000)
    expected = tokenmill.train(files, vocab_size=1000, special_tokens=[SPECIAL])
    assert trained.fingerprint == expected.fingerprint
    with pytest.raises(errors.UsageError, match="first"):
        tokenmill.train(counts=counts, vocab_size=1000, tie_break="first")


def test_ids_are_those_of_the_program(spark: SparkSession, corpus: Path, learned: Tokenizer, tmp_path: Path) -> None:
    tokenizer = learned.with_special("allow")
    encoded = on_spark.encode(frame_of(spark, corpus), tokenizer, keep=["row"], eos=True)
    assert encoded.columns == ["input_ids", "length", "row"]
    encoded.write.option("compression", "zstd").parquet(str(tmp_path / "ids"))
    ids = pq.read_table(tmp_path / "ids").sort_by("row")
    texts = pq.read_table(corpus).sort_by("row")["text"].to_pylist()
    expected = [None if text is None else tokenizer.encode(text, eos=True) for text in texts]
    assert ids["input_ids"].to_pylist() == expected
    assert ids["length"].to_pylist() == [row and len(row) for row in expected]
    assert ids["row"].to_pylist() == list(range(len(texts)))
    tokenmill.encode(f"{corpus}/*.parquet", tokenizer=tokenizer, out=tmp_path / "program", eos=SPECIAL, columns=["row"])
    of_program = pq.read_table(tmp_path / "program" / "data").sort_by("row")
    assert of_program["input_ids"].to_pylist() == expected
    assert of_program["length"].to_pylist() == ids["length"].to_pylist()


def ordered(folder: Path) -> pa.Table:
    """The rows of a data set, file after file."""
    return pa.concat_tables([pq.read_table(file) for file in sorted((folder / "data").iterdir())]).combine_chunks()


def test_files_are_encoded_as_by_the_program(
    spark: SparkSession, corpus: Path, learned: Tokenizer, tmp_path: Path
) -> None:
    files, keys = f"{corpus}/*.parquet", {"columns": ["row"], "eos": SPECIAL}
    tokenizer = learned.with_special("allow")
    made = on_spark.encode_files(spark, files, tokenizer, tmp_path / "spark", 5, **keys)
    tokenmill.encode(files, tokenizer=tokenizer, out=tmp_path / "one", **keys)
    assert ordered(tmp_path / "spark").equals(ordered(tmp_path / "one"))
    assert made["tokenizer"] == tokenizer.fingerprint
    assert not (tmp_path / "spark" / ".shards").exists()
    program("verify", tmp_path / "spark")
    with pytest.raises(errors.UsageError, match="holds a data set already"):
        on_spark.encode_files(spark, files, tokenizer, tmp_path / "spark", 5, **keys)


def test_a_driver_that_was_stopped_goes_on(
    spark: SparkSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*arguments: Any) -> None:
        raise KeyboardInterrupt

    tokenizer, merge = Tokenizer.from_file(folder), tokenmill.merge
    files, out = str(tmp_path / "texts.parquet"), tmp_path / "out"
    pq.write_table(pa.table({"text": made_texts(900, seed=8)}), files, row_group_size=100)
    monkeypatch.setattr(tokenmill, "merge", stopped)
    with pytest.raises(KeyboardInterrupt):
        on_spark.encode_files(spark, files, tokenizer, out, 3)
    shards = [out / ".shards" / f"{index:05}" for index in (1, 2, 3)]
    shutil.rmtree(shards[1])
    (out / ".shards" / "00002-abc").mkdir()
    before = [(path, path.stat().st_mtime_ns) for path in shards[0].rglob("*.parquet")]
    with pytest.raises(KeyboardInterrupt):
        on_spark.encode_files(spark, files, tokenizer, out, 3)
    assert [(path, path.stat().st_mtime_ns) for path in shards[0].rglob("*.parquet")] == before
    with pytest.raises(PythonException, match="another run"):
        on_spark.encode_files(spark, files, tokenizer, out, 3, eos=SPECIAL)
    monkeypatch.setattr(tokenmill, "merge", merge)
    on_spark.encode_files(spark, files, tokenizer, out, 3)
    tokenmill.encode(files, tokenizer=tokenizer, out=tmp_path / "one")
    assert ordered(out).equals(ordered(tmp_path / "one"))
    assert not (out / ".shards").exists()


def test_a_folder_that_workers_do_not_see_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match="folder that all nodes see"):
        _shards.encode_shard("demo:verse?lines=9", tokenizer, tmp_path / "other", 1, 2, column="line")
    assert not (tmp_path / "other").exists()
    with pytest.raises(errors.UsageError, match="folder that all nodes see"):
        _shards.folder_of("s3://bucket/ids", 2)


def test_the_session_stays_as_it_is(spark: SparkSession, tokenizer: Tokenizer) -> None:
    df = spark.createDataFrame([("a fox",)], "text string")
    before = spark.conf.getAll
    on_spark.count(df)
    on_spark.encode(df, tokenizer).collect()
    assert spark.conf.getAll == before


@pytest.mark.parametrize("large", ["false", "true"])
def test_columns_of_many_types_are_kept(spark: SparkSession, tokenizer: Tokenizer, large: str) -> None:
    df = spark.createDataFrame([("the fox",), (None,), ("",)], "text string").select(
        F.encode("text", "utf-8").alias("a `text`.here"),
        F.expr("text AS kept"),
        F.expr("array('a', null) AS strings"),
        F.expr("map('k', 1.5D) AS numbers"),
        F.expr("named_struct('x', 7, 'when', TIMESTAMP '2026-01-02 03:04:05') AS pair"),
        F.expr("DATE '2026-01-02' AS day"),
        F.expr("1.25BD AS price"),
        F.expr("X'00FF' AS bytes"),
    )
    keep = ["kept", "strings", "numbers", "pair", "day", "price", "bytes", "a `text`.here"]
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", large)
    try:
        encoded = on_spark.encode(df, tokenizer, "a `text`.here", keep=keep, threads=2)
        quoted = ["`" + name.replace("`", "``") + "`" for name in keep]
        assert encoded.select(quoted).collect() == df.select(quoted).collect()
        assert [row.input_ids for row in encoded.collect()] == [tokenizer.encode("the fox"), None, []]
        assert on_spark.count(df, "a `text`.here").total == 2
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")


def test_nothing_gives_nothing(spark: SparkSession, tokenizer: Tokenizer) -> None:
    for rows in [[], [(None,)]]:
        df = spark.createDataFrame(rows, "text string")
        assert len(on_spark.count(df)) == 0
        assert on_spark.encode(df, tokenizer).count() == len(rows)


def test_a_task_counts_its_texts_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_spark, "_PORTION_BYTES", 100)
    batches = [pa.record_batch({"text": [f"fox {number}", "fox"]}) for number in range(50)]
    settings = {"split": "gpt4", "special_tokens": [], "column": "text", "threads": 1, "memory": "1GB"}
    counted = list(on_spark._counted(iter(batches), settings))
    assert len(counted) > 5
    whole = tokenmill.count(pa.Table.from_batches(batches))
    summed = Counts.from_arrow(pa.Table.from_batches(counted))
    assert pa.table(summed.to_arrow()).sort_by("pretoken") == pa.table(whole.to_arrow()).sort_by("pretoken").cast(
        pa.table(summed.to_arrow()).schema
    )


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_sum_that_overflows_is_an_error(spark: SparkSession, ansi: str) -> None:
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        rows = [(b"a", 2**62), (b"a", 2**62 - 1), (b"b", 1)]
        df = spark.createDataFrame(rows, "pretoken binary, count bigint")
        assert sorted(row["count"] for row in on_spark._summed(df).collect()) == [1, 2**63 - 1]
        df = df.union(spark.createDataFrame([(b"a", 1)], df.schema))
        with pytest.raises(Exception, match="exceeds 63 bits"):
            on_spark._summed(df).collect()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


# What happens to the first attempts of a task, by the number of its partition.
WAYS = {
    "tasks": ["the worker is killed", "the worker exits", "two failures", "another attempt is faster"],
    "an executor": ["nothing", "the executor is killed", "nothing", "nothing"],
}


class Disturbed:
    """A function for ``mapInArrow`` whose first attempts are disturbed after their first batch."""

    def __init__(self, function: Callable[..., Any], ways: list[str], folder: Path) -> None:
        self.function, self.ways, self.folder = function, ways, folder

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.function(self.disturbed(batches))

    def disturbed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == 1:
                self.disturb()
            yield batch

    def disturb(self) -> None:
        """Ends or delays the first attempt that gets here, and two attempts if they shall fail."""
        from pyspark import TaskContext

        way = self.ways[TaskContext.get().partitionId()]
        folder = self.folder / way
        folder.mkdir(exist_ok=True)
        try:
            (folder / "first").touch(exist_ok=False)
        except FileExistsError:
            if way != "two failures" or (folder / "second").exists():
                (folder / "last").touch()
                return
            (folder / "second").touch()
        if way == "the worker is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif way == "the worker exits":
            os._exit(7)
        elif way == "the executor is killed":
            daemon = Path(f"/proc/{os.getppid()}/status").read_text()
            os.kill(int(daemon.split("PPid:")[1].split()[0]), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        elif way == "two failures":
            raise RuntimeError("a failure")
        elif way == "another attempt is faster":
            until = time.monotonic() + 60
            while not (folder / "last").exists() and time.monotonic() < until:
                time.sleep(0.01)


class DisturbedWrites(Disturbed):
    """The same for tasks that write shards: they are disturbed before a complete shard gets its name.

    A worker that is killed has begun to write, and is not done yet.
    """

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rename, encode = Path.rename, tokenmill.encode

        def disturbed_rename(path: Path, target: Path) -> Path:
            self.disturb()
            return rename(path, target)

        def disturbed_encode(*arguments: Any, out: Path, **keys: Any) -> Any:
            def wait_and_disturb() -> None:
                while not any((out / "data").glob("*")):
                    time.sleep(0.001)
                self.disturb()

            threading.Thread(target=wait_and_disturb, daemon=True).start()
            return encode(*arguments, out=out, **keys)

        from pyspark import TaskContext

        if self.ways[TaskContext.get().partitionId()] == "the worker is killed":
            tokenmill.encode = disturbed_encode
        else:
            Path.rename = disturbed_rename
        try:
            yield from self.function(batches)
        finally:
            Path.rename, tokenmill.encode = rename, encode


@pytest.fixture(params=WAYS)
def disturbed(
    spark: SparkSession, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Disturbs the tasks of each job, and checks in the end that it has."""
    folder = tmp_path / "disturbed"
    folder.mkdir()
    kind, ways = type(spark.range(1)), WAYS[request.param]
    original = kind.mapInArrow

    def map_in_arrow(df: DataFrame, function: Any, schema: Any) -> DataFrame:
        disturbing = DisturbedWrites if function.func is on_spark._shard_written else Disturbed
        return original(df, disturbing(function, ways, folder), schema)

    monkeypatch.setattr(kind, "mapInArrow", map_in_arrow)
    yield
    assert [way for way in ways if way != "nothing" and not (folder / way / "last").exists()] == []


def many(spark: SparkSession) -> tuple[DataFrame, list[str]]:
    """Rows in four partitions, and their texts."""
    texts = made_texts(1200, seed=6)
    rows = pa.table({"row": range(len(texts)), "text": texts})
    return spark.createDataFrame(rows).repartitionByRange(4, "row"), texts


def test_disturbed_tasks_count_alike(spark: SparkSession, disturbed: None) -> None:
    df, texts = many(spark)
    counts = pa.table(on_spark.count(df).to_arrow()).sort_by("pretoken")
    assert counts["count"].to_pylist() == of_texts(texts)["count"].to_pylist()
    assert counts["pretoken"].to_pylist() == of_texts(texts)["pretoken"].to_pylist()


def of_texts(texts: list[str]) -> pa.Table:
    return pa.table(tokenmill.count(iter(texts)).to_arrow()).sort_by("pretoken")


def test_disturbed_tasks_encode_alike(
    spark: SparkSession, disturbed: None, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    df, texts = many(spark)
    on_spark.encode(df, tokenizer, keep=["row"]).write.parquet(str(tmp_path / "ids"))
    ids = pq.read_table(tmp_path / "ids").sort_by("row")
    assert ids["row"].to_pylist() == list(range(len(texts)))
    assert ids["input_ids"].to_pylist() == tokenizer.encode_batch(texts)


def test_disturbed_tasks_write_the_same_files(
    spark: SparkSession, disturbed: None, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    table = pa.table({"text": made_texts(20_000, seed=7)})
    pq.write_table(table, tmp_path / "texts.parquet", row_group_size=1000)
    files = str(tmp_path / "texts.parquet")
    on_spark.encode_files(spark, files, tokenizer, tmp_path / "spark", 4)
    tokenmill.encode(files, tokenizer=tokenizer, out=tmp_path / "one")
    assert ordered(tmp_path / "spark").equals(ordered(tmp_path / "one"))
    assert not (tmp_path / "spark" / ".shards").exists()
    program("verify", tmp_path / "spark")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda df, tok: on_spark.count(df, "body"), "no column 'body'"),
        (lambda df, tok: on_spark.count(df, "n"), "type int, which is not text"),
        (lambda df, tok: on_spark.count(df.select("text", "text")), "several columns 'text'"),
        (lambda df, tok: on_spark.count(df, split="none"), "cannot be none"),
        (lambda df, tok: on_spark.count(df, split="(x"), "(x"),
        (lambda df, tok: on_spark.encode(df, tok, keep=["n", "m"]), "no column 'm'"),
        (lambda df, tok: on_spark.encode(df, tok, "n"), "type int, which is not text"),
        (lambda df, tok: on_spark.encode(df.withColumn("length", df.n), tok, keep=["length"]), "named 'length'"),
        (lambda df, tok: on_spark.encode(df, tok, bos=True), "names no bos token"),
    ],
)
def test_mistakes_are_errors_before_anything_runs(
    spark: SparkSession, tokenizer: Tokenizer, call: Any, message: str
) -> None:
    df = spark.createDataFrame([("a fox", 1)], "text string, n int")
    with pytest.raises(errors.UsageError) as raised:
        call(df, tokenizer)
    assert message in str(raised.value)


def test_an_error_of_a_task_says_what_happened(spark: SparkSession, tokenizer: Tokenizer) -> None:
    df = spark.createDataFrame([("a fox",), (f"a {SPECIAL}",)], "text string").coalesce(1)
    with pytest.raises(PythonException, match=r"row 1: .*special"):
        on_spark.encode(df, tokenizer.with_special("forbid")).collect()


def test_the_documentation_is_true(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the examples of the docstrings, and the code of the page on clusters."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"spark": spark, "tokenmill": tokenmill}
    check(tokenmill.Tokenizer.__doc__, "Tokenizer", names)  # it makes the tokenizer of the examples
    for name in on_spark.__all__:
        function = getattr(on_spark, name)
        assert check(function.__doc__, name, names) > 0
        for argument in inspect.signature(function).parameters:
            assert re.search(rf"\n        (\*\*)?{argument}: ", function.__doc__), f"{name}({argument})"
    (tmp_path / "page").mkdir()
    monkeypatch.chdir(tmp_path / "page")
    page = PYTHON.parent / "docs" / "clusters.md"
    section = re.search(r"^## Spark\n(.*?)(?=^## |\Z)", page.read_text(encoding="utf-8"), re.M | re.S)
    blocks = re.findall(r"^```(python|pycon)\n(.*?)^```", section[1], re.M | re.S)
    assert len(blocks) > 3
    for at, (kind, block) in enumerate(blocks):
        if kind == "pycon":
            assert check(block, f"block {at}", names) > 0
        else:
            exec(compile(block, f"block {at}", "exec"), names)
