"""The command line of the package."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import tokenmill

SCRIPT = shutil.which("tokenmill", path=sysconfig.get_path("scripts"))


@pytest.mark.parametrize("command", [[SCRIPT], [sys.executable, "-m", "tokenmill"]])
def test_the_program_runs(command: list[str], folder: Path, tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *words], capture_output=True, text=True, check=False, cwd=tmp_path)

    assert run("--version").stdout.split() == ["tokenmill", tokenmill.__version__]
    trained = run("train", "demo:verse?lines=300", "--column", "line", "--vocab-size", "300", "-o", "made", "--quiet")
    assert trained.returncode == 0, trained.stderr
    assert tokenmill.Tokenizer.from_file(tmp_path / "made").vocab_size == 300
    refused = run("train", "--no-such-flag")
    assert refused.returncode == 2
    assert "--no-such-flag" in refused.stderr
    assert "tokenmill train" in refused.stderr
    failed = run("inspect", "no-such-file", "--json")
    assert (failed.returncode, json.loads(failed.stderr)["level"]) == (1, "error")


def test_the_package_has_the_version_of_the_library() -> None:
    assert importlib.metadata.version("tokenmill") == tokenmill.__version__


def test_importing_changes_nothing_of_the_process() -> None:
    code = """
import resource, signal
before = [signal.getsignal(signal.SIGINT), resource.getrlimit(resource.RLIMIT_NOFILE)]
import tokenmill
assert [signal.getsignal(signal.SIGINT), resource.getrlimit(resource.RLIMIT_NOFILE)] == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)
