#!/usr/bin/env python3
"""Kills a run with SIGKILL at random moments, runs it again each time, and compares the files with those of a run
that was left alone.

    benches/kill.py [--program target/release/tokenmill] [--kills 100] [--seed 1] [--recipe FILE]

A recipe of one's own is given with its output folder named `out`; without one, generated verse is used.
"""

import argparse
import hashlib
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RECIPE = """
[source]
uri = "demo:verse?lines=1500000&seed=3"
column = "line"
[sample]
take = 20000
[train]
vocab_size = 600
special_tokens = ["<|endoftext|>"]
[encode]
documents = "all"
columns = ["gutenberg_id"]
eos = "<|endoftext|>"
[output]
dir = "out"
file_text_bytes = 25_000_000
"""


def files(folder):
    """The hash of every file but the report, which tells times, and the state."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith((".tokenmill/", "report.")):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def start(program, folder):
    command = [program, "run", "--quiet", "recipe.toml"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def to_the_end(program, folder):
    """Runs to the end; gives the seconds that took."""
    begin = time.monotonic()
    process = start(program, folder)
    said = process.communicate()[1]
    if process.returncode != 0:
        sys.exit(f"a run ended with code {process.returncode}:\n{said}")
    return time.monotonic() - begin


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="target/release/tokenmill")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recipe")
    given = parser.parse_args()
    program = str(pathlib.Path(given.program).resolve())
    text = pathlib.Path(given.recipe).read_text(encoding="utf-8") if given.recipe else RECIPE
    draws = random.Random(given.seed)

    with tempfile.TemporaryDirectory() as scratch:
        alone, killed = pathlib.Path(scratch, "alone"), pathlib.Path(scratch, "killed")
        for folder in (alone, killed):
            folder.mkdir()
            (folder / "recipe.toml").write_text(text, encoding="utf-8")
        seconds = to_the_end(program, alone)
        undisturbed = processor_seconds()
        expected = files(alone / "out")
        if "manifest.json" not in expected:
            sys.exit("the recipe does not write into out")
        size = sum(path.stat().st_size for path in (alone / "out").rglob("*") if path.is_file())
        print(f"undisturbed: {seconds:.2f} s, {undisturbed:.2f} s of processor time, {size / 1e6:.0f} MB")

        outputs = kills = unkilled = 0
        while kills < given.kills or (killed / "out").exists():
            if kills < given.kills:
                process = start(program, killed)
                try:
                    # A little longer than a whole run, so that its last moments are met as well.
                    process.communicate(timeout=draws.uniform(0, 1.05 * seconds))
                    unkilled += 1
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.communicate()
                    kills += 1
            else:
                to_the_end(program, killed)
            if not (killed / "out" / "manifest.json").exists():
                continue
            # Killed after the manifest was written, or ended by itself.
            to_the_end(program, killed)
            found = files(killed / "out")
            if found != expected:
                differ = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
                sys.exit(f"after {kills} kills: {', '.join(differ)} differ from those of the undisturbed run")
            outputs += 1
            shutil.rmtree(killed / "out")
        took = processor_seconds() - undisturbed
    print(f"{kills} kills, {outputs} outputs, each the same in all {len(expected)} files")
    print(f"{took / outputs:.2f} s of processor time an output, with {kills / outputs:.1f} kills on the way "
          f"({took / outputs / undisturbed:.2f} times that of the undisturbed run)")


if __name__ == "__main__":
    main()
