"""The step of datatrove writes the same files as datatrove's own."""

from __future__ import annotations

import doctest
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import made_texts, real_texts

import tokenmill
from tokenmill import Tokenizer, errors

# datatrove writes a log of each task otherwise.
os.environ.setdefault("DATATROVE_COLORIZE_LOGS", "0")
pytest.importorskip("datatrove", reason="datatrove is not installed: tokenmill.datatrove is not tested")
for library in ("orjson", "tokenizers"):
    pytest.importorskip(library, reason=f"{library} is not installed: tokenmill.datatrove is not tested")
from datatrove.executor import LocalPipelineExecutor  # noqa: E402
from datatrove.pipeline.readers import JsonlReader, ParquetReader  # noqa: E402
from datatrove.pipeline.tokens import DocumentTokenizer  # noqa: E402
from tokenizers.processors import TemplateProcessing  # noqa: E402

import tokenmill.datatrove  # noqa: E402
from tokenmill.datatrove import TokenmillTokenizer  # noqa: E402

SPECIAL = "<|end|>"


@pytest.fixture(scope="module")
def texts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two files of JSON lines and two of Parquet. Some texts spell a special token."""
    kind = getattr(request, "param", "generated")
    texts = made_texts(700, seed=8) if kind == "generated" else real_texts(kind)[:3000]
    texts[5::40] = [f"{text}{SPECIAL} {text}" for text in texts[5::40]]
    folder = tmp_path_factory.mktemp(kind)
    for kind in ("jsonl", "parquet"):
        (folder / kind).mkdir()
    for part in range(2):
        rows = texts[part::2]
        lines = [json.dumps({"id": f"{part}-{at}", "text": text}) for at, text in enumerate(rows)]
        (folder / "jsonl" / f"{part}.jsonl").write_text("\n".join(lines), encoding="utf-8")
        pq.write_table(pa.table({"text": rows}), folder / "parquet" / f"{part}.parquet")
    return folder


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of a tokenizer whose ids take two bytes, of one whose ids take four, and of one that adds ids to texts."""
    folder = tmp_path_factory.mktemp("tokenizers")
    trained = tokenmill.train_from_iterator(made_texts(2000, seed=2), 400, special_tokens=[SPECIAL])
    pairs = [bytes([first, second]) for first in range(256) for second in range(256)]
    ranks = [(bytes([byte]), byte) for byte in range(256)] + [(pair, 256 + at) for at, pair in enumerate(pairs)]
    large = Tokenizer.from_ranks(trained.get_pattern(), ranks, {SPECIAL: len(ranks)})
    made = {}
    for name, tokenizer in [("two", trained), ("four", large), ("around", trained)]:
        tokenizer.save_pretrained(folder / name)
        made[name] = folder / name / "tokenizer.json"
    original = of_file(made["around"])
    end = original.token_to_id(SPECIAL)
    original.post_processor = TemplateProcessing(
        single="<s> <s> $A </s>", special_tokens=[("<s>", end), ("</s>", original.token_to_id("a"))]
    )
    original.save(str(made["around"]))
    return made


def of_file(path: Path) -> Any:
    from tokenizers import Tokenizer as Original

    return Original.from_file(str(path))


def written(step: type, folder: Path, texts: Path, kind: str, tokenizer: Path, workers: int = 1, **keys: Any) -> Any:
    """The files that two tasks write, and the numbers of documents and tokens."""
    reader = (JsonlReader if kind == "jsonl" else ParquetReader)(str(texts / kind))
    pipeline = [reader, step(str(folder / "out"), str(tokenizer), **keys)]
    executor = LocalPipelineExecutor(pipeline, tasks=2, workers=workers, logging_dir=str(folder / "logs"))
    stats = json.loads(executor.run().to_json())
    files = {file.name: file.read_bytes() for file in (folder / "out").iterdir()}
    return files, stats[-1]["stats"]["tokens"]


@pytest.mark.parametrize("texts", ["generated", "books", "languages"], indirect=True)
@pytest.mark.parametrize(
    ("kind", "name", "keys"),
    [
        ("jsonl", "two", {"eos_token": SPECIAL, "seed": 7, "batch_size": 100}),
        ("parquet", "four", {"eos_token": SPECIAL, "shuffle_documents": False}),
    ],
)
def test_files_of_texts_are_those_of_datatrove(
    kind: str, name: str, keys: dict[str, Any], texts: Path, tokenizers: dict[str, Path], tmp_path: Path
) -> None:
    compare(texts, kind, tokenizers[name], tmp_path, keys)


@pytest.mark.parametrize(
    ("kind", "name", "keys"),
    [
        ("parquet", "two", {"seed": 7, "shuffle_chunk_size": 64, "max_tokens_per_file": 5000}),
        ("jsonl", "four", {"eos_token": SPECIAL, "seed": 7, "save_filename": "named", "save_index": False}),
        ("jsonl", "two", {"shuffle_documents": False, "save_final_metadata": False}),
        ("parquet", "around", {"seed": 7}),
    ],
)
def test_files_are_those_of_datatrove(
    kind: str, name: str, keys: dict[str, Any], texts: Path, tokenizers: dict[str, Path], tmp_path: Path
) -> None:
    compare(texts, kind, tokenizers[name], tmp_path, keys)


def compare(texts: Path, kind: str, tokenizer: Path, folder: Path, keys: dict[str, Any]) -> None:
    """Asserts that both steps write the same files, and all of those that are asked for."""
    files, tokens = written(TokenmillTokenizer, folder / "ours", texts, kind, tokenizer, **keys)
    assert (files, tokens) == written(DocumentTokenizer, folder / "theirs", texts, kind, tokenizer, **keys)
    optional = [(".index", "save_index"), (".metadata", "save_final_metadata")]
    assert {Path(file).suffix for file in files} == {".ds", *(end for end, key in optional if keys.get(key, True))}
    assert tokens["total"] > 10_000


def test_tasks_of_other_processes_write_the_same(texts: Path, tokenizers: dict[str, Path], tmp_path: Path) -> None:
    keys = {"eos_token": SPECIAL, "seed": 7, "local_working_dir": str(tmp_path / "work")}
    files, _ = written(TokenmillTokenizer, tmp_path / "ours", texts, "jsonl", tokenizers["two"], workers=2, **keys)
    expected, _ = written(DocumentTokenizer, tmp_path / "theirs", texts, "jsonl", tokenizers["two"], workers=1, **keys)
    assert files == expected


def test_what_cannot_be_the_same_is_refused(tokenizers: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match="save_loss_metadata"):
        TokenmillTokenizer(str(tmp_path), str(tokenizers["two"]), save_loss_metadata=True)
    shortening = of_file(tokenizers["two"])
    shortening.enable_truncation(8)
    shortening.save(str(tmp_path / "short.json"))
    with pytest.raises(errors.UsageError, match="shortens"):
        TokenmillTokenizer(str(tmp_path), str(tmp_path / "short.json")).encoder  # noqa: B018
    trained = Tokenizer.from_file(tokenizers["two"])
    apart = Tokenizer.from_ranks(trained.get_pattern(), trained.get_mergeable_ranks(), {SPECIAL: 70_000})
    apart.save_pretrained(tmp_path / "apart")
    with pytest.raises(errors.UsageError, match="70000"):
        TokenmillTokenizer(str(tmp_path), str(tmp_path / "apart" / "tokenizer.json")).encoder  # noqa: B018


def test_the_examples_are_true() -> None:
    result = doctest.testmod(tokenmill.datatrove)
    assert (result.failed, result.attempted > 3) == (0, True)
