"""Threads, exceptions of callbacks, and the end of the interpreter. Each program runs in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import run_program

BEGIN = """
import itertools, os, signal, sys, threading, time
import tokenmill
tokenizer = tokenmill.Tokenizer.from_file(sys.argv[1])
texts = [f"the quick brown fox {n} " * 20 for n in range(3000)]
endless = (f"word{n} and {n * 7919}" for n in itertools.count())
recipe = {
    "source": {"uri": "demo:verse?lines=900000000", "column": "line"},
    "train": {"split": "gpt4", "vocab_size": 300},
    "output": {"dir": sys.argv[1] + f"/out-{os.getpid()}"},
}
CALLS = {
    "train_from_iterator": lambda **more: tokenmill.train_from_iterator(endless, 300, **more),
    "run": lambda **more: tokenmill.run(recipe, **more),
}

def in_background(work, **more):
    thread = threading.Thread(target=work, **more)
    thread.start()
    return thread
"""


def test_threads_share_a_tokenizer(folder: Path) -> None:
    code = """
expected = tokenizer.encode_batch(texts)
ids, offsets = tokenizer.encode_batch_flat(texts)
def work():
    for _ in range(3):
        assert tokenizer.encode_batch(texts) == expected
        assert tokenizer.encode_batch_flat(texts)[0].tolist() == ids.tolist()
        assert [tokenizer.encode(text) for text in texts[:100]] == expected[:100]
        assert tokenizer.decode_batch(expected[:100]) == texts[:100]
        assert tokenmill.Tokenizer.from_file(sys.argv[1]).fingerprint == tokenizer.fingerprint
    done.append(True)
done = []
for thread in [in_background(work) for _ in range(6)]: thread.join()
assert done == [True] * 6
"""
    run_program(BEGIN + code, folder)


def test_a_list_may_change_while_it_is_encoded(folder: Path) -> None:
    code = """
stop = threading.Event()
changing, growing = list(texts), bytearray(b"abc" * 1000)
def change():
    while not stop.is_set():
        changing.append("more"); changing.pop(0); changing.clear(); changing.extend(texts[:100])
        growing.extend(b"more" * 100); del growing[:400]
        time.sleep(0.001)
thread = in_background(change)
for _ in range(10):
    rows = tokenizer.encode_batch(changing)
    assert all(tokenizer.decode(row) in {"more", *texts} for row in rows[:20])
    tokenizer.decode(tokenizer.encode(growing)).encode()
    tokenizer.encode_batch([growing, growing])
stop.set()
thread.join()
"""
    run_program(BEGIN + code, folder)


@pytest.mark.parametrize("call", ["train_from_iterator", "run"])
def test_the_interpreter_ends_while_daemon_threads_work(call: str, folder: Path) -> None:
    code = f"""
def encode():
    while True:
        tokenizer.encode_batch(texts)
def arrow():
    import pyarrow
    while True:
        pyarrow.table(tokenizer.encode_arrow(pyarrow.table({{"text": texts}})))
# Not a generator: before Python 3.14, the interpreter aborts if it ends within Python code that tokenmill runs.
endless = itertools.cycle(texts)
for work in (encode, encode, arrow, CALLS[{call!r}]):
    in_background(work, daemon=True)
time.sleep(0.3)
"""
    run_program(BEGIN + code, folder)


@pytest.mark.parametrize("call", ["train_from_iterator", "run"])
@pytest.mark.parametrize(
    ("raised", "returned"),
    [("sys.exit(7)", 7), ("raise KeyboardInterrupt", -2), ("raise ArithmeticError('mine')", 1)],
)
def test_a_report_of_progress_may_raise(call: str, raised: str, returned: int, folder: Path) -> None:
    code = f"""
def report(*values):
    {raised}
CALLS[{call!r}](progress=report)
"""
    run_program(BEGIN + code, folder, returned=returned)


@pytest.mark.parametrize("call", ["train_from_iterator", "run"])
def test_a_signal_does_not_stop_another_thread(call: str, folder: Path) -> None:
    """Only the main thread handles signals, and other threads go on."""
    code = f"""
signal.signal(signal.SIGINT, signal.default_int_handler)
recipe["source"]["uri"] = "demo:verse?lines=300000"
endless = itertools.islice(endless, 300_000)
found = []
thread = in_background(lambda: found.append(CALLS[{call!r}]()))
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    time.sleep(60)
except KeyboardInterrupt:
    pass
thread.join()
assert len(found) == 1
"""
    run_program(BEGIN + code, folder)


def test_a_generator_may_raise(folder: Path) -> None:
    code = """
import pyarrow
def failing(number):
    yield from texts[:number]
    raise LookupError("mine")
def batches(number):
    for text in failing(number):
        yield pyarrow.record_batch({"text": [text]})
schema = pyarrow.schema({"text": pyarrow.string()})
for number in (0, 1, 3000):
    for call in [
        lambda: tokenmill.train_from_iterator(failing(number), 300),
        lambda: tokenizer.encode_batch(failing(number)),
        lambda: tokenizer.encode_batch_flat(failing(number)),
        lambda: tokenizer.count_batch(failing(number)),
        lambda: tokenizer.decode_batch(row for row in failing(0)),
        lambda: pyarrow.table(tokenizer.encode_arrow(pyarrow.RecordBatchReader.from_batches(schema, batches(number)))),
    ]:
        try:
            call()
        except Exception as error:
            assert "mine" in str(error), error
        else:
            raise AssertionError("no exception")
"""
    run_program(BEGIN + code, folder)
