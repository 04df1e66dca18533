"""What the documentation shows is what happens: docstrings, the README, and docs/python.md."""

from __future__ import annotations

import ast
import doctest
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tokenmill
from tokenmill import compat, errors
from tokenmill.compat import hf, tiktoken

PYTHON = Path(__file__).parent.parent
PAGES = [PYTHON / "README.md", PYTHON.parent / "docs" / "python.md"]

# The libraries that examples use.
for library in ("duckdb", "numpy", "polars", "pyarrow", "tiktoken", "transformers"):
    pytest.importorskip(library)


def public() -> Iterator[tuple[str, Any]]:
    """Everything that is public, with its name: modules, their functions and classes, and the members of these."""
    for module in (tokenmill, errors, compat, hf, tiktoken):
        yield module.__name__, module
        for name in getattr(module, "__all__", None) or vars(module):
            item = getattr(module, name)
            is_own = str(getattr(item, "__module__", "")).startswith("tokenmill")
            if name.startswith("_") or isinstance(item, ModuleType) or not is_own:
                continue
            yield f"{module.__name__}.{name}", item
            members = vars(item).items() if inspect.isclass(item) else ()
            for member, value in members:
                if not member.startswith("_") and (callable(value) or inspect.isdatadescriptor(value)):
                    yield f"{module.__name__}.{name}.{member}", getattr(item, member, value)


ITEMS = dict(public())


def test_everything_public_is_documented() -> None:
    assert {"tokenmill.Tokenizer.encode", "tokenmill.errors.UsageError", "tokenmill.compat.hf.accelerate"} < set(ITEMS)
    undocumented = [name for name, item in ITEMS.items() if not inspect.getdoc(item)]
    assert undocumented == []


def test_arguments_are_documented() -> None:
    """Functions of the package and methods of its classes document each argument, and say when they raise."""
    missing = []
    for name, item in ITEMS.items():
        if not callable(item) or inspect.isclass(item) or "Encoding" in name:
            continue
        said = inspect.getdoc(item) or ""
        for argument in inspect.signature(item).parameters.values():
            stars = "**" if argument.kind is argument.VAR_KEYWORD else ""
            if argument.name not in ("self", "args", "kwargs") and f"\n    {stars}{argument.name}: " not in said:
                missing.append(f"{name}({argument.name})")
    assert missing == []


def test_methods_have_an_example() -> None:
    of_classes = [
        name
        for name, item in ITEMS.items()
        if re.fullmatch(r"tokenmill\.(Tokenizer|DecodeStream|Counts)\.\w+", name) and callable(item)
    ]
    assert len(of_classes) > 25
    assert [name for name in of_classes if ">>>" not in (ITEMS[name].__doc__ or "")] == []


def test_the_examples_of_docstrings_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    # The first example makes the tokenizer that the others use.
    said = {"tokenmill.Tokenizer": tokenmill.Tokenizer.__doc__}
    said |= {name: item.__doc__ for name, item in ITEMS.items() if item.__doc__}
    tried = 0
    for name, text in said.items():
        tried += check(text or "", name, names)
    assert tried > 40


def check(text: str, name: str, names: dict[str, Any]) -> int:
    """Runs the examples of a text, which see and set these names, and says how many they are."""
    found = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
    found.globs = names
    printed: list[str] = []
    result = doctest.DocTestRunner().run(found, out=printed.append, clear_globs=False)
    assert result.failed == 0, "".join(printed)
    return result.attempted


def test_help_shows_signatures_with_defaults() -> None:
    shown = {
        name: str(inspect.signature(getattr(tokenmill.Tokenizer, name)))
        for name, method in vars(tokenmill.Tokenizer).items()
        if not name.startswith("_") and callable(getattr(tokenmill.Tokenizer, name))
    }
    assert shown["encode_arrow"].endswith("keep=(), bos=False, eos=False, dtype='int32', threads=None)")
    assert "..." not in " ".join(shown.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_what_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the Python blocks of a page in order, in one empty folder. The output of sessions is compared."""
    if not page.exists():
        pytest.skip(f"{page} is not here: run the tests from a checkout")
    monkeypatch.chdir(tmp_path)
    assert run_blocks(page.read_text(encoding="utf-8"), page.name) >= (1 if page.name == "README.md" else 10)
    assert os.getcwd() == str(tmp_path)


@pytest.mark.parametrize(("engine", "library"), [("Ray", "ray"), ("datatrove", "datatrove"), ("Daft", "daft")])
def test_the_page_on_clusters_shows_what_happens(
    engine: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs the Python blocks of the section on an engine as those of a page."""
    page = PYTHON.parent / "docs" / "clusters.md"
    if not page.exists():
        pytest.skip(f"{page} is not here: run the tests from a checkout")
    pytest.importorskip(library)
    if library == "datatrove":
        # It remembers for relative paths the working folder of an earlier test.
        pytest.importorskip("datatrove.io").DataFolder.clear_instance_cache()
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.chdir(tmp_path)
    section = re.search(rf"^## {engine}\n(.*?)(?=^## |\Z)", page.read_text(encoding="utf-8"), re.M | re.S)
    assert section is not None
    assert run_blocks(section[1], f"{page.name}, {engine}") >= 2


def run_blocks(text: str, page: str) -> int:
    """Runs the Python blocks of a page, and says how many they are."""
    names: dict[str, Any] = {"__name__": "__main__"}
    blocks = re.findall(r"^```(python|pycon)\n(.*?)^```", text, re.M | re.S)
    for at, (kind, block) in enumerate(blocks):
        if kind == "pycon" or block.startswith(">>>"):
            assert check(block, f"{page}, block {at}", names) > 0
        else:
            exec(compile(ast.parse(block), f"{page}, block {at}", "exec"), names)
    return len(blocks)
