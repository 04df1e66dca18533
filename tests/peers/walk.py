"""Checks that the Python code in docs/walk.md prints the output shown there."""

import doctest
import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def check(setting):
    setting.run("run", REPOSITORY / "pipelines/demo.toml")
    text = (REPOSITORY / "docs/walk.md").read_text(encoding="utf-8")
    # doctest would take the end of a code block for output of the last statement.
    examples = doctest.DocTestParser().get_doctest(text.replace("\n```", "\n\n"), {}, "walk.md", "docs/walk.md", 0)
    said = []
    before = os.getcwd()
    os.chdir(setting.scratch)
    try:
        failed, tried = doctest.DocTestRunner().run(examples, out=said.append)
    finally:
        os.chdir(before)
    assert tried > 0 and failed == 0, "".join(said)
    yield f"{tried} lines of Python print what docs/walk.md shows"
