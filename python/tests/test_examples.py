"""The examples run, each in a folder of its own and without a network."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

SECONDS = 300

# What each example needs, and some of what it prints.
SCRIPTS: dict[str, tuple[list[str], list[str]]] = {
    "nanochat.py": ([], ["<|bos|>13 people"]),
    "datasets_map.py": (["datasets", "pyarrow"], ["num_rows: 1000", "tokens"]),
    "dataloader.py": (["torch"], ["(8, 64) (8, 64) torch.int64", "document 0 of"]),
    "dataframes.py": (["duckdb", "polars", "pyarrow"], ["list[i32]", "[(4, ", "[(0, "]),
    "drop_in.py": (["transformers"], ["[97, 268, 269]"]),
}


def needs(libraries: list[str]) -> None:
    """Skips the test if a library is not installed."""
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not tested, because these are not installed: {', '.join(missing)}")


def test_every_example_is_run() -> None:
    if not EXAMPLES.exists():
        pytest.skip("the examples are not here: run the tests from a checkout")
    files = {file.name for file in EXAMPLES.iterdir() if file.suffix in (".py", ".ipynb")}
    assert files == {*SCRIPTS, "tokens.ipynb"}
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"[{name}]({name})" in readme for name in files)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs(name: str, tmp_path: Path) -> None:
    if not EXAMPLES.exists():
        pytest.skip("the examples are not here: run the tests from a checkout")
    libraries, expected = SCRIPTS[name]
    needs(libraries)
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(tmp_path / "cache"), "POLARS_FMT_MAX_COLS": "8"}
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", str(EXAMPLES / name)],
        cwd=tmp_path,
        env={**os.environ, **offline},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for part in expected:
        assert part in done.stdout, done.stdout


def test_the_notebook_shows_what_its_cells_give() -> None:
    """The cells are run as a notebook would, and the outputs are those that are saved."""
    file = EXAMPLES / "tokens.ipynb"
    if not file.exists():
        pytest.skip("the examples are not here: run the tests from a checkout")
    cells = [cell for cell in json.loads(file.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert len(cells) == 5
    names: dict[str, Any] = {}
    for cell in cells:
        *statements, last = "".join(cell["source"]).split("\n")
        exec("\n".join(statements), names)
        value = eval(last, names)
        (output,) = cell["outputs"]
        assert "".join(output["data"]["text/plain"]).split() == repr(value).split()
        html = "".join(output["data"].get("text/html", ""))
        assert html == (value._repr_html_() if hasattr(value, "_repr_html_") else "")
