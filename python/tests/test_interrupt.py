"""Ctrl-C ends what takes long."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SECONDS = 60

TRAINING = """
import itertools, sys
import tokenmill
endless = (f"word{n} and {n * 7919}" for n in itertools.count())
print("begun", flush=True)
tokenmill.train_from_iterator(endless, 300)
"""

ENCODING = """
import sys
import tokenmill
tokenizer = tokenmill.Tokenizer.from_file(sys.argv[1])
texts = ["the quick brown fox " * 50_000] * 64
print("begun", flush=True)
while True:
    tokenizer.count_batch(texts)
"""

PROGRAM = """
import sys
from tokenmill.__main__ import main
print("begun", flush=True)
out = sys.argv[1] + "/out"
sys.argv[1:] = "train demo:verse?lines=900000000 --column line --vocab-size 300 -o".split() + [out]
sys.exit(main())
"""


@pytest.mark.parametrize(("code", "returned"), [(TRAINING, -signal.SIGINT), (ENCODING, -signal.SIGINT), (PROGRAM, 130)])
def test_an_interruption_ends_it(code: str, returned: int, folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
        assert process.returncode == returned, said
        assert ("KeyboardInterrupt" in said) == (returned != 130), said
    finally:
        process.kill()
