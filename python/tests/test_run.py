"""Whole jobs by recipes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tokenmill
from tokenmill import Tokenizer, errors


def recipe(folder: Path) -> dict[str, Any]:
    return {
        "source": {"uri": "demo:verse?lines=500", "column": "line"},
        "train": {"split": "gpt4", "vocab_size": 300},
        "encode": {"eos": False},
        "output": {"dir": str(folder)},
    }


def test_a_recipe_is_run_once(tmp_path: Path) -> None:
    stages: list[str] = []
    made = tokenmill.run(recipe(tmp_path / "out"), progress=lambda stage, done, total: stages.append(stage))
    assert (made["done_before"], made["rows"], made["vocab_size"]) == (False, 500, 300)
    assert stages
    tokenizer = Tokenizer.from_file(tmp_path / "out" / "tokenizer")
    assert tokenizer.fingerprint == made["tokenizer"]
    rows = pq.read_table(tmp_path / "out" / "data")["input_ids"].to_pylist()
    assert sum(map(len, rows)) == made["tokens"]
    again = tokenmill.run(recipe(tmp_path / "out"))
    assert (again["done_before"], again["tokens"]) == (True, made["tokens"])


def test_a_file_gives_the_same_as_its_values(tmp_path: Path) -> None:
    values = tokenmill.run(recipe(tmp_path / "values"), threads=1, memory="1GB")
    file = tmp_path / "recipe.toml"
    file.write_text(
        f"""
source = {{ uri = "demo:verse?lines=500", column = "line" }}
train = {{ split = "gpt4", vocab_size = 300 }}
encode = {{ eos = false }}
output = {{ dir = "{tmp_path / "file"}" }}
"""
    )
    assert tokenmill.run(file, threads=3)["tokenizer"] == values["tokenizer"]


def test_mistakes_are_errors_with_their_place(tmp_path: Path) -> None:
    wrong = recipe(tmp_path / "out")
    wrong["train"]["vocab_sise"] = 3
    with pytest.raises(errors.UsageError, match="vocab_sise"):
        tokenmill.run(wrong)
    wrong = recipe(tmp_path / "out")
    wrong["train"]["split"] = None
    with pytest.raises(errors.UsageError, match="value that recipes lack"):
        tokenmill.run(wrong)
    with pytest.raises(errors.NotFoundError):
        tokenmill.run(tmp_path / "none.toml")
    with pytest.raises(errors.UsageError):
        tokenmill.run(recipe(tmp_path / "out"), memory="much")
    assert not (tmp_path / "out").exists()


def test_an_exception_ends_a_run_that_goes_on_later(tmp_path: Path) -> None:
    def refuse(*report: object) -> None:
        raise ArithmeticError("enough")

    longer = recipe(tmp_path / "out")
    longer["source"]["uri"] = "demo:verse?lines=300000"
    with pytest.raises(ArithmeticError, match="enough"):
        tokenmill.run(longer, progress=refuse)
    assert tokenmill.run(longer)["rows"] == 300_000
