#!/usr/bin/env python3
"""Disturbs the program from outside and checks each time that no wrong file is left, and that the same command then
gives the files of an undisturbed run. Stops at the first violation with exit code 1 and keeps the files.

    tests/faults/run.py [--program target/release/tokenmill] [--kills 200] [--step N] [--quick] [CHECK ...]

    operations  each operation on files fails once (or every --step-th), and the job is killed before each that writes,
                by strace
    kills       SIGKILL at random moments
    disk        limits on file sizes, and full file systems where this user may mount one
    interrupt   SIGINT and SIGTERM at random moments
    memory      jobs that do not fit into --memory
    writers     two processes on one output folder

The jobs are a recipe that trains and encodes, `train`, `count` with sorted runs on disk, and a download from a local
hub. Random choices depend on --seed, but the instruction at which a signal arrives depends on the machine. This needs
Linux, Python 3.11, the release program, and the example `fake_hub`, which is built if it is missing.
"""

import argparse
import importlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from hub import Hubs
from scene import Setting, Wrong

CHECKS = ["operations", "kills", "disk", "interrupt", "memory", "writers"]
# Number of disturbances by default, and with --quick. `step` is the distance between operations that are disturbed.
FULL = {"kills": 200, "interrupts": 20, "writers": 10, "step": 1}
QUICK = {"kills": 12, "interrupts": 4, "writers": 1, "step": 40}
# Findings that would have ended the checks. The summary lists them with zero.
NOTHING = ["wrong files", "lost or doubled rows"]
ROOT = Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/tokenmill")
    parser.add_argument("--kills", type=int, help="in all, dealt out over the jobs (200)")
    parser.add_argument("--interrupts", type=int, help="likewise (20)")
    parser.add_argument("--writers", type=int, help="pairs for each job (10)")
    parser.add_argument("--step", type=int, help="disturb one of so many operations (1: every one)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="smaller jobs, and a little of everything")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"of {', '.join(CHECKS)} (default: all)")
    given = parser.parse_args()
    if unknown := set(given.checks) - set(CHECKS):
        parser.error(f"there is no check {', '.join(sorted(unknown))}")
    for name, amount in (QUICK if given.quick else FULL).items():
        if getattr(given, name) is None:
            setattr(given, name, amount)
    return given


def fake_hub():
    program = ROOT / "target/release/examples/fake_hub"
    if not program.exists():
        subprocess.run(["cargo", "build", "--release", "--example", "fake_hub"], cwd=ROOT, check=True)
    return program


def main():
    given = arguments()
    scratch = Path(tempfile.mkdtemp(prefix="tokenmill-faults-"))
    # A copy, because the program may be rebuilt while the checks run.
    program = Path(shutil.copy2(given.program.resolve(strict=True), scratch / "tokenmill"))
    hubs = Hubs(fake_hub())
    setting = Setting(program, scratch, hubs, given)
    try:
        for name in given.checks or CHECKS:
            go(name, setting)
    except Wrong as wrong:
        sys.exit(f"WRONG: {wrong}\n  its files are kept in {scratch}")
    finally:
        hubs.end()
    shutil.rmtree(scratch)
    tell(sum((scene.figures for scene in setting.scenes), Counter()))


def go(name, setting):
    started = time.monotonic()
    for line in importlib.import_module(name).check(setting):
        print(f"  {name}: {line} ({time.monotonic() - started:.1f} s)", flush=True)
        started = time.monotonic()


def tell(figures):
    width = max(len(f"{count:,}") for count in figures.values())
    for what in [*sorted(figures), *NOTHING]:
        print(f"{figures[what]:{width},} {what}")


if __name__ == "__main__":
    main()
