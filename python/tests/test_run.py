"""Whole jobs by recipes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_train import program

import tokenmill
from tokenmill import Tokenizer, _recipes, errors


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


def test_the_sections_have_the_keys_of_the_schema() -> None:
    schema = json.loads(program("schema"))
    sections = {**schema["properties"], "source": schema["$defs"]["source"]}
    assert set(sections) == set(_recipes.SECTIONS) == set(_recipes.Recipe.__annotations__)
    for name, section in sections.items():
        assert set(section["properties"]) == _recipes.keys_of(_recipes.SECTIONS[name]), name


def test_keys_are_overridden_by_section_or_by_name(tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(
        """
[[source]]
uri = "demo:verse?lines=300"
[[source]]
uri = "demo:verse?lines=200&seed=5"
[train]
vocab_size = 300
split = "gpt2"
[output]
dir = "nowhere"
"""
    )
    keys: dict[str, Any] = {"source": {"column": "line"}, "vocab_size": 290, "memory": "1GB"}
    made = tokenmill.run(file, output={"dir": str(tmp_path / "file")}, **keys)
    assert made["vocab_size"] == 290
    values = {
        "source": [{"uri": "demo:verse?lines=300"}, {"uri": "demo:verse?lines=200&seed=5"}],
        "train": {"vocab_size": 300, "split": "gpt2"},
        "output": {"dir": "nowhere"},
    }
    again = tokenmill.run(values, dir=str(tmp_path / "values"), **keys)
    assert again["tokenizer"] == made["tokenizer"]
    assert not Path("nowhere").exists()
    for wrong, message in [
        ({"vocab_sise": 3}, "unknown key `vocab_sise`"),
        ({"bos": "x"}, "`bos` is a key of [train] and [encode]"),
        ({"train": {"vocab_sise": 3}}, "did you mean `vocab_size`"),
        ({"vocab_size": "x"}, "`vocab_size` must be"),
        ({"source": [], "column": "line"}, "`source` is a list"),
    ]:
        with pytest.raises(errors.UsageError) as raised:
            tokenmill.run(file, **wrong)
        assert message in str(raised.value)


def test_a_recipe_is_not_read_beyond_its_limit(tmp_path: Path) -> None:
    large = tmp_path / "large.toml"
    with large.open("wb") as file:
        file.truncate(17 << 20)
    with pytest.raises(errors.UsageError, match="not a recipe"):
        tokenmill.run(large)


def test_a_plan_is_what_the_program_prints(tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    recipe_text = """
source = {{ uri = "demo:verse?lines=500", column = "line" }}
train = {{ split = "gpt4", vocab_size = 300 }}
encode = {{ eos = false }}
output = {{ dir = "{}" }}
"""
    file.write_text(recipe_text.format(tmp_path / "out"))
    printed = json.loads(program("plan", file, "--json", "--threads", 2, "--memory", "1GB"))
    planned = tokenmill.plan(file, threads=2, memory="1GB")
    for free in (printed, planned):
        free.pop("disk_free_bytes")
    assert printed == planned
    planned = tokenmill.plan(recipe(tmp_path / "out"), vocab_size=280)
    assert (planned["held"], planned["sources"][0]["rows"]) == ("nothing", 500)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("keys", [{}, {"eos": "<|end|>", "columns": ["n"]}, {"pack": "concat", "length": 64}])
def test_a_dataset_is_encoded_as_by_the_program(
    keys: dict[str, Any], folder: Path, texts: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"text": texts, "n": range(len(texts))}), file)
    words = [word for key, value in keys.items() for word in (f"--{key}", value if key != "columns" else "n")]
    program("encode", file, "-t", folder, "-o", tmp_path / "program", *words)
    expected = data_of(tmp_path / "program")
    tokenizer = Tokenizer.from_file(folder)
    for name, given in [("object", tokenizer), ("path", folder), ("name", str(folder))]:
        manifest = tokenmill.encode(file, tokenizer=given, out=tmp_path / name, threads=2, **keys)
        assert data_of(tmp_path / name) == expected
        assert manifest["tokenizer"] == tokenizer.fingerprint
        written = json.loads((tmp_path / name / "manifest.json").read_text())
        del written["sha256"]
        assert manifest == written
    assert "tokenmill.encode(" in (tmp_path / "object" / "report.html").read_text()
    program("verify", tmp_path / "object")
    again = tokenmill.encode(str(file), tokenizer=tokenizer, out=tmp_path / "object", **keys)
    assert again["files"] == manifest["files"]
    with pytest.raises(errors.UsageError, match="another run"):
        tokenmill.encode(file, tokenizer=tokenizer, out=tmp_path / "object", special="allow", **keys)


def data_of(folder: Path) -> dict[str, bytes]:
    """The data files of an output."""
    return {file.name: file.read_bytes() for file in sorted((folder / "data").iterdir())}


@pytest.mark.parametrize(
    ("keys", "kind", "message"),
    [
        ({"files": []}, errors.UsageError, "no sources"),
        ({"files": "none.parquet"}, errors.NotFoundError, "none.parquet"),
        ({"tokenizer": "./none"}, errors.NotFoundError, "none"),
        ({"column": "body"}, errors.UsageError, "body"),
        ({"output_format": "csv"}, errors.UsageError, "`format` cannot be"),
        ({"compresion": "fast"}, errors.UsageError, "did you mean `compression`"),
        ({"columns": "n"}, TypeError, "columns must be a list"),
        ({"eos": "<|nothing|>"}, errors.TokenmillError, "<|nothing|>"),
        ({"memory": "lots"}, errors.UsageError, "lots"),
    ],
)
def test_mistakes_in_encoding_are_clear_errors(
    keys: dict[str, Any], kind: type[Exception], message: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    file = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"text": ["a"]}), file)
    arguments = {"files": file, "tokenizer": tokenizer, "out": tmp_path / "out", **keys}
    with pytest.raises(kind) as raised:
        tokenmill.encode(arguments.pop("files"), **arguments)
    assert message in str(raised.value)


def test_the_policy_of_the_tokenizer_holds_for_datasets(tokenizer: Tokenizer, tmp_path: Path) -> None:
    file, text = tmp_path / "texts.parquet", "a<|end|>b"
    pq.write_table(pa.table({"text": [text]}), file)
    for policy in ("text", "allow"):
        tokenmill.encode(file, tokenizer=tokenizer.with_special(policy), out=tmp_path / policy)
        rows = pq.read_table(tmp_path / policy / "data")["input_ids"].to_pylist()
        assert rows == [tokenizer.with_special(policy).encode(text)]
    with pytest.raises(errors.TokenmillError, match="row 0"):
        tokenmill.encode(file, tokenizer=tokenizer.with_special("forbid"), out=tmp_path / "forbid")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked")
def test_a_forked_process_holds_its_output_itself(tmp_path: Path) -> None:
    """The next run must not take what a killed process left for that of a running one."""
    tokenmill.run(recipe(tmp_path / "before"))
    longer = recipe(tmp_path / "out")
    longer["source"]["uri"] = "demo:verse?lines=2000000"
    child = os.fork()
    if child == 0:

        def encoding(stage: str, done: int, total: int | None) -> None:
            if stage == "encode":
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            tokenmill.run(longer, progress=encoding)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    holder = json.loads((tmp_path / "out" / ".tokenmill" / "owner-1").read_text())["holder"]
    assert holder["id"] == child
    longer["source"]["uri"] = "demo:verse?lines=500"
    assert tokenmill.run(longer, force=True)["rows"] == 500


def test_a_plan_for_several_machines_has_times_and_assumptions(tmp_path: Path) -> None:
    planned = tokenmill.plan(recipe(tmp_path / "out"), nodes=64, cores=16, text_bytes="10TB")["cluster"]
    assert (planned["nodes"], planned["cores"], planned["counted_bytes"]) == (64, 16, 10**13)
    for estimate in planned["estimates"]:
        assert all(estimate[step] > 0 for step in ("count_s", "merge_s", "train_s", "encode_s"))
    assert planned["assumptions"]
    tokenmill.run(recipe(tmp_path / "out"), threads=1)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    # What a generated source declares is not exact.
    size = report["corpus"]["text_bytes"]
    planned = tokenmill.plan(recipe(tmp_path / "out"), nodes=1, cores=1, text_bytes=size, rates=tmp_path / "out")
    (own,) = planned["cluster"]["estimates"]
    took = {stage["name"]: stage["seconds"] for stage in report["stages"]}
    assert own["count_s"] == pytest.approx(took["count"])
    assert own["encode_s"] == pytest.approx(took["encode"])
    assert "cluster" not in tokenmill.plan(recipe(tmp_path / "out"))
    with pytest.raises(errors.UsageError, match="need `nodes`"):
        tokenmill.plan(recipe(tmp_path / "out"), cores=2)
