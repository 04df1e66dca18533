"""The command line of the package: the same as the program.

The variable ``TOKENMILL`` may name a program that Cargo has built; the results are then compared with its own.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import NamedTuple

import pytest

import tokenmill

SCRIPT = shutil.which("tokenmill", path=sysconfig.get_path("scripts"))

PROGRAMS = {"script": [str(SCRIPT)], "module": [sys.executable, "-m", "tokenmill"]}

BINARY = os.environ.get("TOKENMILL")

SECONDS = 120


class Ended(NamedTuple):
    """How a program has ended, and what it printed."""

    code: int
    out: str
    error: str = ""


def run(program: list[str], *words: str, folder: Path, **environment: str) -> Ended:
    """Runs a program, whose output goes to pipes."""
    done = subprocess.run(
        [*program, *words],
        cwd=folder,
        env=clean(**environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def run_on_terminal(program: list[str], *words: str, folder: Path, interrupt_at: str = "") -> Ended:
    """Runs a program on a terminal of 24 lines and 100 columns. Presses Ctrl-C when it has printed ``interrupt_at``."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(clean(TERM="xterm-256color", COLUMNS="100", LINES="24"))
        try:
            os.execvp(program[0], [*program, *words])
        finally:
            os._exit(127)
    said = b""
    until = time.monotonic() + SECONDS
    # A terminal whose other end is closed gives an error at the end.
    with contextlib.suppress(OSError):
        while time.monotonic() < until and (part := os.read(terminal, 1 << 16)):
            said += part
            if interrupt_at and interrupt_at.encode() in said:
                os.write(terminal, b"\x03")
                interrupt_at = ""
    if time.monotonic() >= until:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return Ended(os.waitstatus_to_exitcode(status), said.decode(errors="replace"))


def clean(**environment: str) -> dict[str, str]:
    """The environment without what changes colours or reports."""
    changing = ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR")
    return {**{name: value for name, value in os.environ.items() if name not in changing}, **environment}


def steady(ended: Ended) -> Ended:
    """An end without what differs from run to run: amounts of time and memory, and how often progress was drawn."""
    amount = r"\d[\d.,]* ?(?:ms|min|s|h|B|bytes?|[kMGT]B)?(?:/s)?\b"
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME", ended.error)
    return Ended(ended.code, ended.out, re.sub(amount, "#", text))


@pytest.fixture(params=PROGRAMS, scope="module")
def program(request: pytest.FixtureRequest) -> list[str]:
    assert SCRIPT is not None, "the package has installed no program"
    return PROGRAMS[request.param]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer, encoded text, text that is not JSON in part, and a result that is damaged."""
    folder = tmp_path_factory.mktemp("cli")
    script = PROGRAMS["script"]
    train = ["train", "demo:verse?lines=300", "--column", "line", "--vocab-size", "300", "-o", "made", "--quiet"]
    assert run(script, *train, folder=folder).code == 0
    (folder / "bad.jsonl").write_text('{"text": "Mi he"}\n{bad\n')
    encode = ["encode", "demo:verse?lines=300", "--column", "line", "-t", "made", "--quiet", "-o"]
    for out in ("out", "damaged"):
        assert run(script, *encode, out, folder=folder).code == 0
    with next((folder / "damaged" / "data").iterdir()).open("ab") as file:
        file.write(b"x")
    return folder


# Commands with their exit codes. None of them writes anything.
COMMANDS: list[tuple[int, str]] = [
    (0, "--version"),
    (0, "tokens -t made Mi.he"),
    (0, "tokens -t made Mi.he --color always"),
    (0, "tokens -t made Mi.he --json"),
    (0, "inspect made"),
    (0, "inspect made --json"),
    (0, "verify out --quiet"),
    (0, "decode out -t made"),
    (0, "plan --help"),
    (0, "completions bash"),
    (0, "encode demo:verse?lines=300 --column line -t made -o new --dry-run"),
    (0, "encode demo:verse?lines=300 --column line -t made -o new --print-recipe"),
    (1, "inspect no-such-file"),
    (1, "inspect no-such-file --json"),
    (1, "train no-such-file.txt -o new --vocab-size 300"),
    (1, "inspect no-such-file --color always"),
    (2, ""),
    (2, "no-such-command"),
    (2, "train --no-such-flag"),
    (2, "train --no-such-flag --color always"),
    (2, "encode bad.jsonl -t made -o new --threads 0"),
    (4, "verify damaged --quiet"),
    (4, "verify damaged --json"),
]


@pytest.mark.parametrize(("code", "words"), COMMANDS, ids=[words for _, words in COMMANDS])
def test_a_command_ends_as_it_should(program: list[str], made: Path, code: int, words: str) -> None:
    ended = run(program, *words.split(), folder=made)
    assert ended.code == code, ended
    assert ("\x1b[" in ended.out + ended.error) == ("--color always" in words)
    if BINARY:
        assert steady(run([BINARY], *words.split(), folder=made)) == steady(ended)
    assert not (made / "new").exists()


def test_help_is_that_of_the_program(program: list[str], tmp_path: Path) -> None:
    whole = run(program, "--help", folder=tmp_path)
    commands = re.findall(r"^  ([a-z-]+)  ", whole.out.partition("Options:")[0], re.M)
    assert {"train", "encode", "run", "verify"} < set(commands)
    for words in [["--help"], ["-h"], *([command, "--help"] for command in commands if command != "help")]:
        ended = run(program, *words, folder=tmp_path)
        assert ended.code == 0
        assert "Usage: tokenmill" in ended.out
        if BINARY:
            assert ended == run([BINARY], *words, folder=tmp_path)


def test_inputs_that_were_left_out_have_a_code(program: list[str], made: Path, tmp_path: Path) -> None:
    words = ["encode", str(made / "bad.jsonl"), "-t", str(made / "made"), "--on-bad-input", "skip", "-o", "out"]
    ended = run(program, *words, folder=tmp_path)
    assert ended.code == 3
    assert "1 row or file was left out" in ended.error + ended.out
    if BINARY:
        shutil.rmtree(tmp_path / "out")
        assert steady(run([BINARY], *words, folder=tmp_path)) == steady(ended)


def test_files_are_those_of_the_program(program: list[str], made: Path, tmp_path: Path) -> None:
    words = ["encode", "demo:verse?lines=300", "--column", "line", "-t", str(made / "made"), "-o"]
    for name, each in {"own": program, **({"its": [BINARY]} if BINARY else {})}.items():
        assert run(each, *words, name, folder=tmp_path).code == 0
    read = {path.name: path.read_bytes() for path in (tmp_path / "own" / "data").iterdir()}
    assert read == {path.name: path.read_bytes() for path in (made / "out" / "data").iterdir()}
    if BINARY:
        assert read == {path.name: path.read_bytes() for path in (tmp_path / "its" / "data").iterdir()}


def test_a_terminal_gets_colours_and_progress(program: list[str], made: Path, tmp_path: Path) -> None:
    shown = run_on_terminal(program, "tokens", "-t", "made", "Mi he", folder=made)
    assert shown.code == 0
    assert "\x1b[" in shown.out
    if BINARY:
        assert run_on_terminal([BINARY], "tokens", "-t", "made", "Mi he", folder=made) == shown
    words = ["train", "demo:verse?lines=200000", "--column", "line", "--vocab-size", "400", "-o"]
    trained = run_on_terminal(program, *words, str(tmp_path / "own"), folder=made)
    assert trained.code == 0, trained
    # A bar is drawn over the last one.
    assert re.search(r"\r|\x1b\[\d*[AGK]", trained.out)
    assert "count" in trained.out
    assert run(program, *words, str(tmp_path / "piped"), folder=made).error.count("\r") == 0
    if BINARY:
        theirs = run_on_terminal([BINARY], *words, str(tmp_path / "its"), folder=made)
        assert last_lines(theirs) == last_lines(trained._replace(out=trained.out.replace("/own", "/its")))


def last_lines(ended: Ended) -> tuple[int, list[str]]:
    """The exit code, and the lines that a terminal shows at the end, without amounts."""
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", steady(Ended(0, "", ended.out)).error)
    lines = [line.rpartition("\r")[2].strip() for line in text.replace("\r\n", "\n").split("\n")]
    return ended.code, [line for line in lines if line][-2:]


ENCODE = ["encode", "demo:verse?lines=1500000", "--column", "line", "-t", "made", "--file-text-bytes", "1MB", "-o"]


def test_an_interrupted_run_is_continued(program: list[str], made: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    process = subprocess.Popen([*program, *ENCODE, out], cwd=made, stderr=subprocess.PIPE, text=True, env=clean())
    try:
        until = time.monotonic() + SECONDS
        while not list(tmp_path.glob("out/data/*.parquet")) and time.monotonic() < until:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "To continue from what is finished, give the same command again:\n  tokenmill encode" in said
    ended = run(program, *ENCODE, out, folder=made)
    assert ended.code == 0, ended
    assert "continuing an earlier run: it completed" in ended.error
    assert run(program, "verify", out, folder=made).code == 0


def test_ctrl_c_on_a_terminal_ends_it(program: list[str], made: Path, tmp_path: Path) -> None:
    ended = run_on_terminal(program, *ENCODE, str(tmp_path / "out"), folder=made, interrupt_at="encode")
    assert ended.code == 130, ended
    assert "interrupted" in ended.out
    assert "Traceback" not in ended.out
    assert list(tmp_path.glob("out/data/*.parquet.*")) == []


def test_a_reader_that_ends_is_no_failure(program: list[str], made: Path) -> None:
    line = f"{' '.join(program)} decode out -t made | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], cwd=made, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


def test_messages_can_be_json(program: list[str], made: Path) -> None:
    failed = run(program, "inspect", "no-such-file", "--json", folder=made)
    assert json.loads(failed.error)["level"] == "error"


def test_the_package_has_the_version_of_the_library(program: list[str], tmp_path: Path) -> None:
    assert importlib.metadata.version("tokenmill") == tokenmill.__version__
    assert run(program, "--version", folder=tmp_path).out.split() == ["tokenmill", tokenmill.__version__]


def test_importing_changes_nothing_of_the_process() -> None:
    code = """
import resource, signal
before = [signal.getsignal(signal.SIGINT), resource.getrlimit(resource.RLIMIT_NOFILE)]
import tokenmill
assert [signal.getsignal(signal.SIGINT), resource.getrlimit(resource.RLIMIT_NOFILE)] == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_imports_little() -> None:
    """What a call needs beside the package is imported by the call."""
    code = """
import sys
before = set(sys.modules)
import tokenmill
later = {"numpy", "pyarrow", "tiktoken", "tokenizers", "tqdm", "transformers", "tempfile", "subprocess"}
assert not later & (set(sys.modules) - before), later & (set(sys.modules) - before)
"""
    # Without `-S`, Python itself imports some of them for packages that were installed in an editable way.
    subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"], check=True)


def test_importing_takes_little_time() -> None:
    code = "import time; began = time.perf_counter(); import tokenmill; print(time.perf_counter() - began)"
    took = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(7)]
    assert min(took) < 0.06
