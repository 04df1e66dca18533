#!/usr/bin/env python3
"""Encodes texts that are hard to encode: how fast, and how time grows when they get four times as long.

For each tokenizer and each text, `tokenmill bench` on one thread over 1 MB and over 4 MB; the least of several
runs counts. The ids are decoded and compared with the text before anything is timed. Prints a Markdown table
and ends with 1 if a text falls short. Needs Python 3.9 and a release build.

    benches/worst.py TOKENIZER... [--program target/release/tokenmill] [--runs 5] [--scratch DIR]
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

MB = 1_000_000
LEAST_RATE = 10.0
MOST_GROWTH = 4.5
CHANCE = random.Random(1)
LETTERS = bytes(range(ord("a"), ord("z") + 1))
TEXTS = {
    "one letter": lambda size: b"a" * size,
    "spaces": lambda size: b" " * size,
    "newlines": lambda size: b"\n" * size,
    "random letters": lambda size: bytes(CHANCE.choices(LETTERS, k=size)),
    "one word": lambda size: (b"tokenizer " * (size // 10 + 1))[:size],
    "an emoji": lambda size: "😀".encode() * (size // 4),
    "random bytes": lambda size: CHANCE.randbytes(size),
}


def bench(program, text, tokenizer, runs):
    """The least seconds of several runs."""
    command = [program, "bench", text, "-t", tokenizer, "--threads", "1", "--json", "--quiet"]
    return min(json.loads(subprocess.check_output(command))["encode_s"] for _ in range(runs))


def check(program, text, tokenizer, scratch):
    """Encodes into a dataset and compares what it decodes to with the text."""
    out = scratch / "check"
    encode = [program, "encode", text, "-t", tokenizer, "-o", out, "--force", "--quiet"]
    subprocess.run(encode, check=True, stdout=subprocess.DEVNULL)
    decode = [program, "decode", out, "-t", tokenizer, "--verify", text, "--quiet"]
    subprocess.run(decode, check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizers", nargs="+", type=Path)
    parser.add_argument("--program", type=Path, default=Path("target/release/tokenmill"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--scratch", type=Path)
    arguments = parser.parse_args()
    short = 0
    if arguments.scratch:
        arguments.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        scratch = Path(folder)
        print("| tokenizer | text | MB/s at 1 MB | MB/s at 4 MB | time × |\n| --- | --- | --: | --: | --: |")
        for name, make in TEXTS.items():
            texts = []
            for size in (MB, 4 * MB):
                texts.append(scratch / f"{size}.txt")
                texts[-1].write_bytes(make(size))
            for tokenizer in arguments.tokenizers:
                check(arguments.program, texts[0], tokenizer, scratch)
                one, four = (bench(arguments.program, text, tokenizer, arguments.runs) for text in texts)
                row = (tokenizer.stem, name, MB / 1e6 / one, 4 * MB / 1e6 / four, four / one)
                fits = row[2] >= LEAST_RATE and row[4] <= MOST_GROWTH
                short += not fits
                print(f"| {row[0]} | {row[1]} | {row[2]:.1f} | {row[3]:.1f} | {row[4]:.2f}{'' if fits else ' !'} |", flush=True)
    if short:
        sys.exit(f"{short} of them are slower than {LEAST_RATE} MB/s or grow by more than {MOST_GROWTH}")


if __name__ == "__main__":
    main()
