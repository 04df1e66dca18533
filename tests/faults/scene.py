"""A job in its own folder. Its files are compared with those of an undisturbed run."""

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from argparse import Namespace
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from hub import DATASET, Hubs

# Reports contain times, so they are not compared, but they must be complete.
REPORTS = {"report.json", "report.html"}
# Things that an error message may name, besides the files of the job.
NAMES = ["standard output", "signals", "hf://", DATASET]
# Seconds after which a run counts as hanging, whatever happened to it.
PATIENCE = 300


class Wrong(Exception):
    """A violation, with all details that are needed to reproduce it."""


@dataclass
class Setting:
    """The settings that all checks share."""

    program: Path
    scratch: Path
    hubs: Hubs
    # The parsed command line.
    given: Namespace
    scenes: list = field(default_factory=list)

    def draws(self, *names):
        """Random numbers that depend on the seed and on the names, but not on earlier checks."""
        return Random("/".join(map(str, (self.given.seed, *names))))


@dataclass
class Ended:
    """How a process ended. Its code is negative if a signal killed it."""

    code: int
    said: str
    out: str
    seconds: float


class Scene:
    """A job, its folder, and the files of its undisturbed run."""

    def __init__(self, setting, check, job):
        self.setting, self.job, self.figures = setting, job, Counter()
        setting.scenes.append(self)
        self.folder = setting.scratch / f"{check}-{job.name}"
        self.folder.mkdir()
        # The environment is fixed, so that no variable of the user changes what the program does.
        self.variables = {"PATH": os.environ["PATH"], "HOME": str(self.folder)} | job.prepare(self.folder)
        self.expected, self.seconds = {}, 0.0
        (self.folder / "out").mkdir()

    def leave_alone(self):
        """Runs the job undisturbed, to know the right files and the duration."""
        alone = self.run()
        self.must(alone.code == 0, "the undisturbed run failed", alone)
        self.clean("the undisturbed run", alone)
        self.expected, self.seconds = self.found(), alone.seconds
        self.sizes = {name: path.lstat().st_size for name, path in self.files() if name in self.expected}
        self.job.check(self, alone.out)
        self.clear()

    def command(self, *prefix):
        return [*map(str, prefix), str(self.setting.program), *self.job.arguments]

    def start(self, *prefix, **more):
        """Starts the job. `prefix` is a command that runs the program, such as `strace`."""
        more |= {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        # In its own process group, so that the program and the command that runs it can be killed together.
        return subprocess.Popen(self.command(*prefix), cwd=self.folder, env=self.variables, process_group=0, **more)

    def run(self, *prefix, **more):
        begun = time.monotonic()
        return self.end(self.start(*prefix, **more), begun)

    def end(self, process, begun=None):
        """Waits for the end of the process. Kills its group after `PATIENCE` seconds."""
        begun = begun or time.monotonic()
        try:
            out, said = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            self.must(False, f"it did not end within {PATIENCE} s")
        seconds = time.monotonic() - begun
        return Ended(process.returncode, said.decode(errors="replace"), out.decode(errors="replace"), seconds)

    def clear(self):
        """Removes everything that the job wrote."""
        for root in self.job.roots:
            folder = self.folder / root
            # The folder itself stays: it may be a mount point.
            for path in folder.iterdir() if folder.is_dir() else []:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def files(self):
        """Yields all files below the folders that the job writes to, with their paths relative to the job's folder."""
        for root in self.job.roots:
            for path in sorted((self.folder / root).rglob("*")):
                if path.is_symlink() or path.is_file():
                    yield path.relative_to(self.folder).as_posix(), path

    def unfinished(self):
        """Files without a final name."""
        return [name for name, _ in self.files() if is_unfinished(name)]

    def found(self):
        """The hash of every file with a final name, except reports and state. Reports and links must be valid."""
        found = {}
        for name, path in self.files():
            if is_unfinished(name) or "/.tokenmill/" in name or ".claim/" in name:
                continue
            self.must(path.exists(), f"{name} is a link that leads nowhere")
            if path.name in REPORTS:
                self.must(is_whole_report(path), f"{name} is not whole")
                continue
            with open(path, "rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
            self.figures["files compared"] += bool(self.expected)
            self.figures["bytes compared"] += path.stat().st_size if self.expected else 0
        return found

    def compare(self, what, ended=None, whole=False):
        """Requires that every file with a final name equals that of the undisturbed run, and that none is missing if
        the result is `whole`. Returns whether all files exist."""
        found = self.found()
        for name, digest in found.items():
            self.must(digest == self.expected.get(name), f"{what}: {name} is wrong", ended)
        missing = sorted(self.expected.keys() - found.keys())
        # A manifest declares that the output is complete.
        whole = whole or "out/manifest.json" in found
        self.must(not (whole and missing), f"{what}: {', '.join(missing)} are missing", ended)
        if "out/manifest.json" in found:
            manifest = json.loads((self.folder / "out/manifest.json").read_text())
            self.figures["rows compared"] += sum(file["rows"] for file in manifest["files"])
        return not missing

    def resume(self, what):
        """Runs the same command again. It must give the files of the undisturbed run."""
        again = self.run()
        self.must(again.code == 0, f"{what}, then the same command again", again)
        self.compare(f"{what}, then the same command again", again, whole=True)
        if self.job.owns_folder:
            self.must(not self.unfinished(), f"{what}, then the same command again left {self.unfinished()}", again)
        self.figures["resumes"] += 1

    def clean(self, what, ended):
        """Requires that a run that ended by itself left no unfinished file. Partial downloads may stay."""
        left = [name for name in self.unfinished() if not name.endswith(".incomplete")]
        self.must(not left, f"{what}: {', '.join(left)} are left", ended)

    def names_something(self, said):
        """Whether the error messages name an input, an output or another thing of the job."""
        # With --json, an error is a JSON object.
        messages = [json.loads(line)["message"] for line in said.splitlines() if line.startswith('{"time":')]
        errors = "\n".join([line for line in said.splitlines() if line.startswith("error:")] + messages)
        names = [path.name for path in self.folder.iterdir()] + NAMES
        return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", errors) for name in names)

    def must(self, right, what, ended=None):
        if not right:
            raise Wrong("\n".join([f"{self.job.name}: {what}", *self.details(ended)]))

    def details(self, ended):
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in self.variables.items() if name != "PATH")
        yield f"  the command: cd {self.folder} && {variables} {shlex.join(self.command())}"
        if hub := self.setting.hubs.commands.get(self.variables.get("HF_ENDPOINT")):
            yield f"  the hub at HF_ENDPOINT: {hub}"
        yield f"  the seed: {self.setting.given.seed}"
        if ended:
            yield f"  it ended with {ended.code} after {ended.seconds:.3f} s and said:"
            yield from (f"    {line}" for line in ended.said.splitlines()[-20:])


def is_unfinished(name):
    return name.rsplit("/", 1)[-1].startswith(".tmp") or name.endswith(".incomplete")


def is_whole_report(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        page, _, checksum = text.rpartition("\n<!-- sha256: ")
        return checksum == f"{hashlib.sha256(page.encode()).hexdigest()} -->\n"
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
