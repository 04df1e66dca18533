"""A tokenizer for all tests, trained on a text that is made here."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tokenmill

# Fewer words would give fewer tokens than the tests want.
WORDS = [
    *("the", "quick", "brown", "fox", "naïve", "cafés", "日本語", "don't", "12345", "🦀\n"),
    *("".join(random.Random(seed).choices("aeioubcdst", k=6)) for seed in range(200)),
]


# How often the tests that look for hangs run a program. Some hang once in many times only.
ROUNDS = int(os.environ.get("TOKENMILL_ROUNDS", "1"))

# Time in seconds after which a program is taken to hang.
SECONDS = int(os.environ.get("TOKENMILL_SECONDS", "60"))


def run_program(code: str, *arguments: object, returned: int = 0) -> None:
    """Runs a program of Python, whose exit code must be ``returned``. It is killed if it hangs."""
    for number in range(ROUNDS):
        command = [sys.executable, "-W", "ignore", "-X", "faulthandler", "-c", code, *map(str, arguments)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            said = "".join(process.communicate(timeout=SECONDS))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGABRT)
            said = "".join(process.communicate())
            pytest.fail(f"round {number}: a hang\n{said}")
        assert process.returncode == returned, f"round {number}: {process.returncode}\n{said}"


def made_texts(number: int, seed: int = 1) -> list[str]:
    """Texts of words in a random order, of very different lengths; some are empty."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.choice([0, 1, 5, 20, 200]))) for _ in range(number)]


def real_texts(kind: str) -> list[str]:
    """Some of the lines of ``books``, or of texts in many ``languages``, from the folder with the real texts."""
    folder = os.environ.get("TOKENMILL_DATA")
    if folder is None:
        pytest.skip(f"not tested with {kind}, because TOKENMILL_DATA names no folder with real texts")
    import pyarrow as pa

    name, every = {"books": ("classics", 60), "languages": ("multilingual", 20)}[kind]
    with pa.input_stream(f"{folder}/{name}.txt.zst", compression="zstd") as file:
        return file.read().decode().splitlines()[::every]


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return made_texts(500)


@pytest.fixture(scope="session")
def tokenizer() -> tokenmill.Tokenizer:
    return tokenmill.train_from_iterator(made_texts(2000, seed=2), 400, special_tokens=["<|end|>"])


@pytest.fixture(scope="session")
def folder(tokenizer: tokenmill.Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tokenizer, whose settings name the token that ends documents."""
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save_pretrained(folder, formats=["hf", "tiktoken"])
    config = folder / "tokenizer_config.json"
    config.write_text(config.read_text().replace("{", '{"eos_token": "<|end|>",', 1))
    return folder
