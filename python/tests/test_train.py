"""Training from files, texts and counts: the same tokenizer, byte for byte."""

from __future__ import annotations

import doctest
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import made_texts

import tokenmill
from tokenmill import Counts, _jobs, _train, errors

SIZE = 400


def program(*words: object) -> str:
    """What the command line prints, as JSON if it is asked for."""
    done = subprocess.run(
        [sys.executable, "-m", "tokenmill", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return made_texts(800, seed=3)


@pytest.fixture(scope="module")
def corpus(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of Parquet."""
    folder = tmp_path_factory.mktemp("corpus")
    for number, part in enumerate([texts[:300], texts[300:]]):
        pq.write_table(pa.table({"text": part, "n": range(len(part))}), folder / f"part-{number}.parquet")
    return folder


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"split": "gpt2", "special_tokens": ["<|end|>"], "eos": "<|end|>"},
        {"split": r"\p{L}+|[^\p{L}]+", "min_frequency": 5, "tie_break": "bytes-smallest"},
        {"split": "none", "max_token_bytes": 5},
        {"sample": {"every": 3}, "memory": "400MB", "threads": 3},
    ],
)
def test_files_texts_and_the_program_give_the_same(
    keys: dict[str, Any], texts: list[str], corpus: Path, tmp_path: Path
) -> None:
    expected = tokenmill.train(str(corpus / "*.parquet"), vocab_size=SIZE, **keys)
    assert expected.vocab_size == SIZE
    table = pa.table({"text": texts})
    for same in [
        tokenmill.train([corpus / "part-0.parquet", corpus / "part-1.parquet"], vocab_size=SIZE, **keys),
        tokenmill.train({"uri": str(corpus)}, vocab_size=SIZE, **keys),
        tokenmill.train(table, vocab_size=SIZE, **keys),
        tokenmill.train(iter(texts), vocab_size=SIZE, **keys),
        tokenmill.train_from_iterator((text.encode() for text in texts), SIZE, **keys),
    ]:
        assert same.to_str() == expected.to_str()
        assert same.eos_token_id == expected.eos_token_id
    recipe = {
        "source": {"uri": str(corpus)},
        "sample": keys.get("sample", {}),
        "train": {"vocab_size": SIZE, **{key: keys[key] for key in keys if key not in ("sample", "memory", "threads")}},
        "output": {"dir": str(tmp_path / "run")},
    }
    if "split" in keys and "\\" in keys["split"]:
        recipe["train"]["split"] = {"regex": keys["split"]}
    tokenmill.run(recipe)
    written = (tmp_path / "run" / "tokenizer" / "tokenizer.json").read_text()
    assert json.loads(written) == json.loads(expected.to_str())


def test_the_command_line_trains_the_same(corpus: Path, tmp_path: Path) -> None:
    words = ["--special-token", "<|end|>", "--tie-break", "hf", "--vocab-size", SIZE]
    program("train", corpus, "-o", tmp_path / "made", *words)
    made = tokenmill.train(corpus, vocab_size=SIZE, special_tokens=["<|end|>"], tie_break="hf")
    assert (tmp_path / "made" / "tokenizer.json").read_text() == made.to_str()


def test_training_from_counts_is_training_from_text(corpus: Path, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"split": "gpt2", "special_tokens": ["<|end|>"]}
    expected = tokenmill.train(corpus, vocab_size=SIZE, **keys).to_str()
    counts = tokenmill.count(corpus, **keys)
    counts.write(tmp_path / "counts.parquet")
    for given in [
        counts,
        tmp_path / "counts.parquet",
        [str(tmp_path / "counts.parquet")],
        Counts.from_file(tmp_path / "counts.parquet"),
        Counts.from_arrow(counts.to_arrow()),
        Counts.from_arrow(pa.table(counts.to_arrow()).replace_schema_metadata(None), **keys),
    ]:
        assert tokenmill.train(counts=given, vocab_size=SIZE).to_str() == expected
        assert tokenmill.train(counts=given, vocab_size=SIZE, split="gpt2").to_str() == expected
    first = tokenmill.train(corpus, vocab_size=SIZE, tie_break="first", **keys)
    assert tokenmill.train(counts=counts, vocab_size=SIZE, tie_break="first").to_str() == first.to_str()
    with pytest.raises(errors.UsageError, match="`tie_break` first needs the order"):
        tokenmill.train(counts=Counts.from_arrow(counts.to_arrow()), vocab_size=SIZE, tie_break="first")
    with pytest.raises(errors.UsageError, match="`split`: the counts has the split gpt2"):
        tokenmill.train(counts=counts, vocab_size=SIZE, split="gpt4")


def test_a_tokenizer_is_extended(corpus: Path, tmp_path: Path) -> None:
    small = tokenmill.train(corpus, vocab_size=300)
    small.save_pretrained(tmp_path / "small")
    large = tokenmill.train(corpus, vocab_size=SIZE, extend=tmp_path / "small")
    assert large.to_str() == tokenmill.train(corpus, vocab_size=SIZE).to_str()


def test_superwords_are_learned_in_stages_or_after_the_merges_that_are_kept(corpus: Path, tmp_path: Path) -> None:
    stages: list[Any] = [{"split": "gpt4", "vocab_size": 300}, {"split": "superword", "vocab_size": 320}]
    staged = tokenmill.train(corpus, stages=stages)
    tokenmill.train(corpus, vocab_size=SIZE).save_pretrained(tmp_path / "words")
    after = tokenmill.train(corpus, vocab_size=320, extend=tmp_path / "words", keep_merges=44, split="superword")
    assert staged.vocab_size == 320
    assert after.to_str() == staged.to_str()
    with pytest.raises(errors.UsageError, match="reads its input twice"):
        tokenmill.train(iter(["a text", "a text"]), stages=stages)


def test_sources_are_balanced(tmp_path: Path) -> None:
    (tmp_path / "many.txt").write_text("abcd " * 900)
    (tmp_path / "few.txt").write_text("wxyz " * 100)
    sources = [tmp_path / "many.txt", tmp_path / "few.txt"]
    plain = tokenmill.train(sources, vocab_size=260)
    balanced = tokenmill.train(sources, vocab_size=260, parity={"ratio": [1, 1]})
    assert plain.token_to_id("wx") is None
    assert balanced.token_to_id("wx") is not None


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda path: tokenmill.train(path, vocab_size=100), errors.UsageError, "`vocab_size` is 100, too small"),
        (lambda path: tokenmill.train(path, vocab_size=[300, 400]), errors.UsageError, "several sizes"),
        (lambda path: tokenmill.train(path, vocab_size="many"), errors.UsageError, "`vocab_size` must be"),
        (lambda path: tokenmill.train(path / "none.txt", vocab_size=300), errors.NotFoundError, "none.txt"),
        (lambda path: tokenmill.train([], vocab_size=300), errors.UsageError, "no sources"),
        (lambda path: tokenmill.train(path), errors.UsageError, "needs `vocab_size`"),
        (lambda path: tokenmill.train(path, vocab_size=300, keep_merges=9), errors.UsageError, "needs `extend`"),
        (lambda path: tokenmill.train([5], vocab_size=300), TypeError, "not int"),
        (lambda path: tokenmill.train(5, vocab_size=300), TypeError, "not int"),
        (lambda path: tokenmill.train(b"text", vocab_size=300), TypeError, "not bytes"),
        (lambda path: tokenmill.train(vocab_size=300), errors.UsageError, "a source or counts"),
        (lambda path: tokenmill.train(path, counts="x", vocab_size=300), errors.UsageError, "not both"),
        (lambda path: tokenmill.train(counts="x", column="a", vocab_size=300), errors.UsageError, "leave out column"),
        (lambda path: tokenmill.train(counts=path / "none", vocab_size=300), errors.NotFoundError, "none"),
        (lambda path: tokenmill.train(path, vocab_size=300, column="body"), errors.UsageError, "text, n"),
        (lambda path: tokenmill.train(path, vocab_size=300, column="n"), errors.UsageError, '"n"'),
        (lambda path: tokenmill.train(path, vocab_size=300, memory="lots"), errors.UsageError, '"lots"'),
        (lambda path: tokenmill.train(path, vocab_size=300, memory=5), errors.UsageError, "`memory` is 5 bytes"),
        (lambda path: tokenmill.train(path, vocab_size=300, split="gtp4"), errors.UsageError, "did you mean"),
        (lambda path: tokenmill.train(path, vocab_size=300, split="("), errors.UsageError, "`split`"),
        (lambda path: tokenmill.train(path, vocab_size=300, special_tokens="<a>"), TypeError, "special_tokens"),
        (lambda path: tokenmill.train(path, vocab_size=300, min_freqency=3), errors.UsageError, "`min_frequency`?"),
        (lambda path: tokenmill.train(path, vocab_size=300, sample={"tak": 3}), errors.UsageError, "`take`?"),
        (lambda path: tokenmill.train(path, vocab_size=300, special_tokens=["\ud800"]), errors.UsageError, "surrog"),
        (lambda path: tokenmill.train(iter([]), vocab_size=300), errors.TokenmillError, "nothing to train on"),
        (lambda path: tokenmill.train(iter(["a\ud800"]), vocab_size=300), errors.UsageError, "surrogate"),
        (lambda path: tokenmill.train(path, vocab_size=300, threads=0), errors.UsageError, "threads"),
        (lambda path: tokenmill.train_from_iterator(["a"], 255), errors.UsageError, "too small"),
    ],
)
def test_mistakes_are_clear_errors(corpus: Path, call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as raised:
        call(corpus)
    assert message in str(raised.value)


def test_more_than_the_memory_is_an_error() -> None:
    letters = str.maketrans("0123456789", "abcdefghij")
    texts = (str(number * 7919).translate(letters) for number in range(400_000))
    with pytest.raises(errors.MemoryLimitError, match="memory"):
        tokenmill.train(texts, vocab_size=300, memory="8MB")


def test_an_exception_of_a_generator_is_passed_on(texts: list[str]) -> None:
    def failing():
        yield from texts
        raise LookupError("mine")

    for call in [lambda: tokenmill.train(failing(), vocab_size=300), lambda: tokenmill.count(failing())]:
        with pytest.raises(LookupError, match="mine"):
            call()


def test_progress_is_reported(corpus: Path) -> None:
    stages: list[str] = []
    tokenmill.train(corpus, vocab_size=300, progress=lambda stage, done, total: stages.append(stage))
    assert stages[-1] == "train"


CALLS = {
    "files": "tokenmill.train('demo:verse?lines=900000000', column='line', vocab_size=300)",
    "texts": "tokenmill.train((f'word{n} and {n * 7919}' for n in itertools.count()), vocab_size=300)",
    "count": "tokenmill.count('demo:verse?lines=900000000', column='line')",
    "run": "tokenmill.run({'source': {'uri': 'demo:verse?lines=900000000'}, 'train': {'merges': 9}}, dir=sys.argv[1])",
}


@pytest.mark.parametrize("name", CALLS)
def test_an_interruption_ends_it(name: str, tmp_path: Path) -> None:
    code = f"import itertools, sys, tokenmill; print('begun', flush=True); {CALLS[name]}"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "out")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)
        assert process.returncode == -signal.SIGINT, said
        assert "KeyboardInterrupt" in said
    finally:
        process.kill()


@pytest.mark.parametrize("module", [_train, _jobs])
def test_the_examples_are_true(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted >= 8
    assert result.failed == 0
