#!/usr/bin/env python3
"""What more threads gain, stage by stage: counting, learning without a split, encoding, and a whole command.

For each text, `train --split gpt2` for its counting, `bench` for encoding what memory holds, and `encode` for the
whole way from text to Parquet; for the joined texts, `train --split none`. Thread counts take turns, and the
least of several runs is shown: seconds, and in brackets how many times as fast as the first thread count is.
Prints a Markdown table. Needs Python 3.9 and a release build.

With `--work`, a machine of few cores shows what many would gain. For whole commands, the table has the work, which is
the processor time of all threads together, for each number of threads, and the serial part: the processor time spent
while at most one thread could run. The states of the threads are sampled for that, on Linux, in a run with four
threads: of more, some look for work before they sleep, which looks like work, and of fewer, one often waits for the
other. The time on n cores is predicted as serial + (work of n threads - serial) / n. That leaves out what cores lose to
each other: memory bandwidth, shared caches, and lower clock rates. Training without a split has no place in the table,
because its threads poll for work while one of them merges.

    benches/threads.py [TEXT... --tokenizer FILE] [--joined TEXT...] [--threads 1,2,4,8,16] [--work]
                       [--program target/release/tokenmill] [--runs 3] [--scratch DIR]
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

PARAGRAPHS = ["--documents", "paragraph"]
# Threads of the run in which the serial part is measured.
SAMPLED_THREADS = 4


def said(program, *command):
    """What a command reports, and the seconds it took from its start to its end."""
    start = time.monotonic()
    report = json.loads(subprocess.check_output([program, *command, "--json", "--quiet"]))
    return {**report, "wall_s": time.monotonic() - start}


def work_of(program, *command):
    """The processor seconds of a command, and those of them in which at most one of its threads could run."""
    child = subprocess.Popen([program, *command, "--quiet"], stdout=subprocess.DEVNULL)
    serial = before = 0
    while True:
        used, runnable = sample(child.pid)
        if runnable <= 1:
            serial += used - before
        before = used
        ended, status, usage = os.wait4(child.pid, os.WNOHANG)
        if ended:
            break
        time.sleep(0.002)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise subprocess.CalledProcessError(child.returncode, command)
    return usage.ru_utime + usage.ru_stime, serial


def sample(process):
    """The processor seconds that a process has used, and how many of its threads run or could."""
    folder = Path("/proc") / str(process)
    used, runnable = stat_fields(folder / "stat"), 0
    for path in (folder / "task").glob("*/stat"):
        # A thread that is listed may end before it is read.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            runnable += stat_fields(path)[0] == "R"
    return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK"), runnable


def stat_fields(path):
    """The fields after the name, which may contain spaces: first the state."""
    return path.read_text().rpartition(") ")[2].split()


def counting(text, scratch, _tokenizer):
    return ["train", text, "-o", scratch / "tokenizer", "--vocab-size", "257", "--split", "gpt2"]


def encoding(text, _scratch, tokenizer):
    return ["bench", text, "-t", tokenizer, *PARAGRAPHS]


def count_command(text, scratch, _tokenizer):
    return ["count", text, "-o", scratch / "counts.parquet", "--split", "gpt2", *PARAGRAPHS]


def split_training(text, scratch, _tokenizer):
    return ["train", text, "-o", scratch / "tokenizer", "--vocab-size", "32768", "--split", "gpt2", *PARAGRAPHS]


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


def work(arguments, command, inputs, scratch):
    """The least work for each thread count, and the median of the serial parts."""
    found = {threads: [] for threads in {*arguments.threads, SAMPLED_THREADS}}
    for _ in range(arguments.runs):
        for threads in found:
            shutil.rmtree(scratch / "ids", ignore_errors=True)
            options = [*command(inputs, scratch, arguments.tokenizer), "--threads", str(threads)]
            found[threads].append(work_of(arguments.program, *options))
    serial = statistics.median(serial for _, serial in found[SAMPLED_THREADS])
    return [min(work for work, _ in found[threads]) for threads in arguments.threads], serial


def work_tables(arguments, scratch):
    """Prints the work and the serial part of each command, and the times that follow from them."""
    commands = [(f"{text.stem}, `{name}`", command, text) for text in arguments.texts for name, command in [
        ("count", count_command), ("train", split_training), ("encode", whole_job),
    ]]
    header("processor seconds", arguments.threads, "serial part")
    predicted = []
    for name, command, inputs in commands:
        works, serial = work(arguments, command, inputs, scratch)
        cells = [f"{work:.2f} ({work / works[0]:.2f})" for work in works]
        print(f"| {name} | " + " | ".join(cells) + f" | {serial:.2f} ({serial / works[0]:.1%}) |", flush=True)
        times = [serial + (work - serial) / threads for work, threads in zip(works, arguments.threads)]
        predicted.append((name, times))
    print()
    header("predicted seconds", arguments.threads)
    for name, times in predicted:
        row(name, times)


def header(title, threads, *more):
    """The first two lines of a table."""
    print(f"| {title} | " + " | ".join([*(f"{count} threads" for count in threads), *more]) + " |")
    print("| --- |" + " --: |" * (len(threads) + len(more)))


def row(name, times):
    cells = [f"{time:.3f} ({times[0] / time:.2f})" for time in times]
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="for encoding the texts")
    parser.add_argument("--threads", default="1,2,4,8,16", type=lambda given: [int(count) for count in given.split(",")])
    parser.add_argument("--work", action="store_true", help="processor time, serial parts and predictions of the texts")
    parser.add_argument("--program", default="target/release/tokenmill", type=lambda given: Path(given).resolve())
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--joined", nargs="*", type=Path, default=[], help="texts to learn from as one, without a split")
    parser.add_argument("--scratch", type=Path)
    arguments = parser.parse_args()
    if arguments.texts and not arguments.tokenizer:
        parser.error("texts need a --tokenizer")
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        scratch = Path(folder)
        if arguments.work:
            return work_tables(arguments, scratch)
        header("seconds", arguments.threads)
        for text in arguments.texts:
            for stage, command, figure in [
                ("counting", counting, "count_s"), ("encoding", encoding, "encode_s"), ("whole job", whole_job, "wall_s"),
            ]:
                row(f"{text.stem}, {stage}", seconds(arguments, command, text, figure, scratch))
        for size in ["512", "32000"] if arguments.joined else []:
            row(f"no split, {size} tokens", seconds(arguments, joined(size), arguments.joined, "train_s", scratch))


if __name__ == "__main__":
    main()
