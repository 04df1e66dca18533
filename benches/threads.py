#!/usr/bin/env python3
"""What more threads gain, stage by stage: counting, learning without a split, encoding, and a whole command.

For each text, `train --split gpt2` for its counting, `bench` for encoding what memory holds, and `encode` for the
whole way from text to Parquet; for the joined texts, `train --split none`. Thread counts take turns, and the
least of several runs is shown: seconds, and in brackets how many times as fast as the first thread count is.
Prints a Markdown table. Needs Python 3.9 and a release build.

    benches/threads.py [TEXT... --tokenizer FILE] [--joined TEXT...] [--threads 1,2,4,8,16]
                       [--program target/release/tokenmill] [--runs 3] [--scratch DIR]
"""

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

PARAGRAPHS = ["--documents", "paragraph"]


def said(program, *command):
    """What a command reports, and the seconds it took from its start to its end."""
    start = time.monotonic()
    report = json.loads(subprocess.check_output([program, *command, "--json", "--quiet"]))
    return {**report, "wall_s": time.monotonic() - start}


def counting(text, scratch, _tokenizer):
    return ["train", text, "-o", scratch / "tokenizer", "--vocab-size", "257", "--split", "gpt2"]


def encoding(text, _scratch, tokenizer):
    return ["bench", text, "-t", tokenizer, *PARAGRAPHS]


def whole_job(text, scratch, tokenizer):
    return ["encode", text, "-t", tokenizer, "-o", scratch / "ids", *PARAGRAPHS]


def joined(size):
    """Learning so many tokens from all texts as one."""
    def command(texts, scratch, _tokenizer):
        return ["train", *texts, "-o", scratch / "tokenizer", "--vocab-size", size, "--split", "none", "--boundary", "join"]
    return command


def seconds(arguments, command, inputs, figure, scratch):
    """The least of a figure for each thread count."""
    found = {threads: [] for threads in arguments.threads}
    for _ in range(arguments.runs):
        for threads in arguments.threads:
            # What is finished would not be encoded again.
            shutil.rmtree(scratch / "ids", ignore_errors=True)
            options = [*command(inputs, scratch, arguments.tokenizer), "--threads", str(threads)]
            found[threads].append(said(arguments.program, *options)[figure])
    return [min(runs) for runs in found.values()]


def row(name, times):
    cells = [f"{time:.3f} ({times[0] / time:.2f})" for time in times]
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="for encoding the texts")
    parser.add_argument("--threads", default="1,2,4,8,16", type=lambda given: [int(count) for count in given.split(",")])
    parser.add_argument("--program", default="target/release/tokenmill", type=lambda given: Path(given).resolve())
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--joined", nargs="*", type=Path, default=[], help="texts to learn from as one, without a split")
    parser.add_argument("--scratch", type=Path)
    arguments = parser.parse_args()
    if arguments.texts and not arguments.tokenizer:
        parser.error("texts need a --tokenizer")
    print("| seconds | " + " | ".join(f"{count} threads" for count in arguments.threads) + " |")
    print("| --- |" + " --: |" * len(arguments.threads))
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        scratch = Path(folder)
        for text in arguments.texts:
            for stage, command, figure in [
                ("counting", counting, "count_s"), ("encoding", encoding, "encode_s"), ("whole job", whole_job, "wall_s"),
            ]:
                row(f"{text.stem}, {stage}", seconds(arguments, command, text, figure, scratch))
        for size in ["512", "32000"] if arguments.joined else []:
            row(f"no split, {size} tokens", seconds(arguments, joined(size), arguments.joined, "train_s", scratch))


if __name__ == "__main__":
    main()
