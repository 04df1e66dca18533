#!/usr/bin/env python3
"""How time and memory of training grow with the text, and what a second thread gains.

Trains on the first 25, 50, 100, 200 and 400 MB of a mixture of texts (paragraphs of each in turn, by their
share), and of generated text, with and without a split; one process a run, the least of several. Prints
Markdown tables. Needs Python 3.9 and a release build.

    benches/growth.py TEXT... [--program target/release/tokenmill] [--runs 2] [--scratch DIR]
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MB = 1_000_000
SIZES = [25, 50, 100, 200, 400]
HUGE = 100_000
# Of generated verse.
LINES_A_MB = 24_000
MODES = {
    "gpt2 split": ["--split", "gpt2"],
    "no split, joined": ["--split", "none", "--boundary", "join"],
}


def paragraphs_of(path):
    """The paragraphs of a text; its lines where a paragraph is huge."""
    for paragraph in path.read_bytes().split(b"\n\n"):
        yield from [paragraph] if len(paragraph) < HUGE else paragraph.split(b"\n")


def mix(texts, target, out):
    """Writes paragraphs of all texts in turn, so that each has its share in every prefix."""
    paragraphs = [(path.stat().st_size, list(paragraphs_of(path))) for path in texts]
    places, written, total = [0] * len(texts), 0, sum(size for size, _ in paragraphs)
    taken = [0] * len(texts)
    with open(out, "wb") as file:
        while written < target:
            # The text that lags most behind its share is next.
            left = [n for n, (_, parts) in enumerate(paragraphs) if places[n] < len(parts)]
            if not left:
                break
            text = min(left, key=lambda n: taken[n] / paragraphs[n][0])
            part = paragraphs[text][1][places[text]] + b"\n\n"
            places[text] += 1
            taken[text] += len(part)
            written += file.write(part)
    print(f"mixed {written} of {total} bytes", file=sys.stderr)


def prefix(path, size, scratch):
    """The first bytes of a file."""
    out = scratch / f"{path.stem}-{size // MB}.txt"
    with open(path, "rb") as file, open(out, "wb") as prefix:
        while (left := size - file.tell()) > 0 and (text := file.read(min(MB, left))):
            prefix.write(text)
    return out


def train(program, text, options, scratch, runs):
    """The run with the least wall time: seconds in all, seconds of learning, peak MB, and what was said."""
    best = None
    for _ in range(runs):
        command = [program, "train", *text, "-o", scratch / "tokenizer", "--json", "--quiet", *options]
        start = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        said = json.load(child.stdout)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - start
        if status != 0:
            sys.exit(f"{command} failed")
        run = (seconds, said["train_s"], usage.ru_maxrss * 1024 / MB, said)
        best = min(best or run, run, key=lambda run: run[0])
    return best


def table(title, rows):
    print(f"\n### {title}\n")
    print("| MB | distinct pre-tokens | total s | × | learning s | × | peak MB | × |")
    print("| --: | --: | --: | --: | --: | --: | --: | --: |")
    before = None
    for size, (seconds, learning, memory, said) in rows:
        times = ["", "", ""] if before is None else [f"{a / b:.2f}" for a, b in zip((seconds, learning, memory), before)]
        print(f"| {size} | {said['distinct_pretokens']} | {seconds:.2f} | {times[0]} | {learning:.2f} | {times[1]} | {memory:.0f} | {times[2]} |")
        before = (seconds, learning, memory)
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--program", type=Path, default=Path("target/release/tokenmill"))
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--vocab-size", default="32768")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        scratch = Path(folder)
        mixed = scratch / "mixed.txt"
        # In a process of its own: what this one holds would count as the least that its children take.
        mixing = multiprocessing.Process(target=mix, args=(arguments.texts, max(SIZES) * MB, mixed))
        mixing.start()
        mixing.join()
        texts = {
            "mixed": [[prefix(mixed, size * MB, scratch)] for size in SIZES],
            "generated": [[f"demo:verse?lines={size * LINES_A_MB}&seed=7", "--column", "line"] for size in SIZES],
        }
        for name, inputs in texts.items():
            for mode, options in MODES.items():
                options = [*options, "--vocab-size", arguments.vocab_size]
                if name == "mixed" and "gpt2" in options:
                    options += ["--documents", "paragraph"]
                run = lambda text, *extra: train(arguments.program, text, [*options, *extra], scratch, arguments.runs)
                table(f"{name}, {mode}", [(size, run(text)) for size, text in zip(SIZES, inputs)])
                one, two = run(inputs[-1], "--threads", "1"), run(inputs[-1], "--threads", "2")
                print(f"\n{SIZES[-1]} MB on one thread {one[0]:.2f} s (learning {one[1]:.2f}), on two {two[0]:.2f} s "
                      f"(learning {two[1]:.2f}): {one[0] / two[0]:.2f} and {one[1] / two[1]:.2f} times as fast")


if __name__ == "__main__":
    main()
