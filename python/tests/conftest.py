"""A tokenizer for all tests, trained on a text that is made here."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import tokenmill

# Fewer words would give fewer tokens than the tests want.
WORDS = [
    *("the", "quick", "brown", "fox", "naïve", "cafés", "日本語", "don't", "12345", "🦀\n"),
    *("".join(random.Random(seed).choices("aeioubcdst", k=6)) for seed in range(200)),
]


def made_texts(number: int, seed: int = 1) -> list[str]:
    """Texts of words in a random order, of very different lengths; some are empty."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.choice([0, 1, 5, 20, 200]))) for _ in range(number)]


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
