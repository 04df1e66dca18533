"""Ctrl-C ends what takes long."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROUNDS, SECONDS

BEGIN = """
import itertools, os, signal, sys
# While numpy is imported, it makes another exception of an interruption.
import numpy, pyarrow
import tokenmill
# A shell that starts a program in the background may have it ignore this signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
tokenizer = tokenmill.Tokenizer.from_file(sys.argv[1])
texts = ["the quick brown fox " * 50_000] * 64
short = ["the quick brown fox"] * 1_000_000
out = sys.argv[1] + f"/out-{os.getpid()}"
verse = "demo:verse?lines=900000000"

def endless():
    return (f"word{n} and {n * 7919}" for n in itertools.count())

def forever(call):
    while True:
        call()

def stream():
    batches = pyarrow.table({"text": ["the quick brown fox"] * 1000})
    try:
        for _ in pyarrow.RecordBatchReader.from_stream(tokenizer.encode_arrow(batches)):
            pass
    except pyarrow.ArrowInvalid as error:
        # Between the libraries, an exception is a text.
        raise KeyboardInterrupt if "KeyboardInterrupt" in str(error) else error

def run():
    tokenmill.run({
        "source": {"uri": verse, "column": "line"},
        "train": {"split": "gpt4", "vocab_size": 300},
        "output": {"dir": out},
    })

def program():
    from tokenmill.__main__ import main
    sys.argv[1:] = f"train {verse} --column line --vocab-size 300 -o".split() + [out]
    sys.exit(main())

print("begun", flush=True)
"""

# The calls that are interrupted. Each lasts long, or is repeated.
CALLS = {
    "training": "tokenmill.train_from_iterator(endless(), 300)",
    "training on a list": "tokenmill.train_from_iterator(texts * 2000, 300)",
    "training on sources": "tokenmill.train(verse, column='line', vocab_size=300)",
    "counting": "tokenmill.count(endless())",
    "encoding sources": "tokenmill.encode(verse, column='line', tokenizer=tokenizer, out=out)",
    "a recipe": "run()",
    "a batch of long texts": "forever(lambda: tokenizer.encode_batch(texts))",
    "a batch of short texts": "forever(lambda: tokenizer.encode_batch(short))",
    "a batch without an end": "tokenizer.encode_batch(endless())",
    "flat ids": "forever(lambda: tokenizer.encode_batch_flat(texts))",
    "counting ids": "tokenizer.count_batch(texts * 2000)",
    "Arrow data": "forever(stream)",
    "loading": "forever(lambda: tokenmill.Tokenizer.from_file(sys.argv[1]))",
}


def interrupt(code: str, folder: Path, wait: float) -> tuple[int, str]:
    """Interrupts a program, and returns its exit code and what it said."""
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + code, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(wait)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
        return process.returncode, said
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_interruption_ends_it(call: str, folder: Path) -> None:
    for number in range(ROUNDS):
        returned, said = interrupt(call, folder, 0.2 + number % 10 / 10)
        assert returned == -signal.SIGINT, said
        assert "KeyboardInterrupt" in said


def test_an_interruption_ends_the_program(folder: Path) -> None:
    for number in range(ROUNDS):
        returned, said = interrupt("program()", folder, 1 + number % 10 / 10)
        assert returned == 130, said
        assert "KeyboardInterrupt" not in said
