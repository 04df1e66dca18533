#!/usr/bin/env python3
"""Lets each operation on files fail once, the n-th of each kind until there are no more, and looks after each failure
whether anything is wrong, and whether the same command then comes to the files of an undisturbed run.

    benches/faults.py [--program target/release/tokenmill] [--step 1] [--recipe FILE]

After a failure nothing under its final name may differ from what the undisturbed run wrote, the message must name a
place, and a folder with a manifest must be whole. Wants `strace`, which makes the system calls fail. A recipe of one's
own is given with its output folder named `out`; without one, generated verse is used.
"""

import argparse
import collections
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

RECIPE = """
[[source]]
uri = "demo:verse?lines=4000&seed=3"
column = "line"
[[source]]
uri = "text.jsonl"
column = "line"
weight = 0.5
[train]
vocab_size = 500
special_tokens = ["<|endoftext|>"]
formats = ["hf", "tiktoken", "minbpe"]
[encode]
eos = "<|endoftext|>"
[output]
dir = "out"
file_text_bytes = 100_000
[run]
threads = 1
"""
# What is made to fail, and how.
FAULTS = [
    ("write", "ENOSPC"),
    ("write", "EIO"),
    ("pwrite64", "ENOSPC"),
    ("read", "EIO"),
    ("pread64", "EIO"),
    ("fsync", "EIO"),
    ("fdatasync", "EIO"),
    ("ftruncate", "EIO"),
    ("rename", "EIO"),
    ("renameat", "EIO"),
    ("renameat2", "EIO"),
    ("link", "EIO"),
    ("linkat", "EIO"),
    ("unlink", "EIO"),
    ("mkdir", "ENOSPC"),
    ("openat", "EMFILE"),
    ("statx", "EIO"),
    ("lseek", "EIO"),
]
# Files that tell times, and what is no result.
APART = {"report.html", "report.json"}
KNOWN_CODES = {0, 1, 2, 7, 8}


def results(folder):
    """What stands under final names, by hash: data, tokenizer, manifest and card."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith(".tokenmill/") and name not in APART and not path.name.startswith(".tmp"):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


class Loop:
    def __init__(self, program, scratch):
        self.program, self.scratch, self.out = program, scratch, scratch / "out"
        self.figures = collections.Counter()

    def run(self, *prefix):
        command = [*prefix, self.program, "run", "recipe.toml", "-q"]
        return subprocess.run(command, cwd=self.scratch, capture_output=True, timeout=300)

    def fail(self, call, error, number):
        """Runs with the n-th such call failing in each thread; false if there was none."""
        shutil.rmtree(self.out, ignore_errors=True)
        log = self.scratch / "strace.log"
        inject = f"inject={call}:error={error}:when={number}"
        done = self.run("strace", "-f", "--seccomp-bpf", "-o", log, "-e", f"trace={call}", "-e", inject)
        if "INJECTED" not in log.read_text(errors="replace"):
            return False
        self.figures["failed operations"] += 1
        said = done.stderr.decode(errors="replace")
        what = f"{call} {error} {number}: code {done.returncode}: {said[-300:]}"
        # The system's loader fails in its own way before the program begins.
        if done.returncode == 127 and "error while loading" in said:
            self.figures["failures before the program"] += 1
            return True
        assert done.returncode in KNOWN_CODES and "panicked" not in said, what
        self.figures[f"runs that ended with {done.returncode}"] += 1
        # The message itself is written by such a call.
        assert done.returncode == 0 or said.strip() or call == "write", f"{what}: nothing was said"
        self.check(done.returncode == 0, what)
        again = self.run()
        assert again.returncode == 0, f"{what}\nthen: {again.stderr.decode(errors='replace')}"
        self.check(True, f"{what}, after the next run")
        self.figures["runs that went on"] += 1
        return True

    def check(self, whole, what):
        found = results(self.out) if self.out.is_dir() else {}
        for name, digest in found.items():
            assert digest == self.expected.get(name), f"{what}: {name} is wrong"
            self.figures["files compared"] += 1
        if whole or "manifest.json" in found:
            assert found == self.expected, f"{what}: {sorted(self.expected.keys() - found.keys())} are missing"

    def go(self, step):
        assert (done := self.run()).returncode == 0, done.stderr.decode()
        self.expected = results(self.out)
        print(f"undisturbed: {len(self.expected)} files", flush=True)
        for call, error in FAULTS:
            number = 1
            before = self.figures["failed operations"]
            while self.fail(call, error, number):
                number += step
            print(f"{call} {error}: {self.figures['failed operations'] - before} failed", flush=True)
        for what, count in sorted(self.figures.items()):
            print(f"{count:7} {what}")
        print("no wrong file, none missing after the next run")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=pathlib.Path("target/release/tokenmill"))
    parser.add_argument("--step", type=int, default=1, help="try every so many operations only")
    parser.add_argument("--recipe", type=pathlib.Path)
    arguments = parser.parse_args()
    if not shutil.which("strace"):
        sys.exit("strace is not there, which makes system calls fail")
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        (scratch / "recipe.toml").write_text(arguments.recipe.read_text() if arguments.recipe else RECIPE)
        lines = (f'{{"line": "row {n} of {n % 97} and {n * n % 31}"}}\n' for n in range(3000))
        (scratch / "text.jsonl").write_text("".join(lines))
        Loop(arguments.program.resolve(strict=True), scratch).go(arguments.step)


if __name__ == "__main__":
    main()
