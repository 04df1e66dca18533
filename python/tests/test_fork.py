"""Forked processes. Each test runs in a process of its own, which is killed if it hangs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROUNDS, SECONDS, run_program

from tokenmill import Tokenizer

# Forks a process that does some work, and requires that it ends well.
FORKED = """
import os

def forked(work):
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    return child

def ended(child):
    assert os.waitpid(child, 0)[1] == 0
"""

BEGIN = (
    FORKED
    + """
import faulthandler, multiprocessing, os, sys, threading, time
import tokenmill
tokenizer = tokenmill.Tokenizer.from_file(sys.argv[1])
texts = [f"the quick brown fox {n} " * 20 for n in range(3000)]
expected = tokenizer.encode_batch(texts)

def check(tokenizer, rows=3000):
    assert tokenizer.encode_batch(texts[:rows]) == expected[:rows]
    assert tokenizer.encode(texts[7]) == expected[7]
    assert tokenizer.encode_batch(texts[:rows], threads=3) == expected[:rows]

def threads():
    return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else None

"""
)


def run(code: str, folder: Path) -> None:
    run_program(BEGIN + code, folder)


def test_a_fork_by_a_library_that_does_not_tell_python(folder: Path) -> None:
    """The C library renews the id of the process, whoever forks it."""
    run(
        """
import ctypes
child = ctypes.PyDLL(None).fork()
if child == 0:
    check(tokenizer)
    os._exit(0)
ended(child)
""",
        folder,
    )


def test_a_fork_after_the_pool_was_used(folder: Path) -> None:
    run("ended(forked(lambda: check(tokenizer))); check(tokenizer)", folder)


def test_a_fork_of_a_fork(folder: Path) -> None:
    run("ended(forked(lambda: (check(tokenizer), ended(forked(lambda: check(tokenizer))), check(tokenizer))))", folder)


def test_a_forked_process_has_one_thread_unless_it_asks(folder: Path) -> None:
    code = """
def work():
    assert tokenizer.encode_batch(texts) == expected
    assert threads() in (None, 2), threads()  # its own, and one of the pool
    assert tokenizer.encode_batch(texts, threads=3) == expected
    assert threads() in (None, 5), threads()
ended(forked(work))
"""
    run(code, folder)


def test_forks_while_other_threads_encode(folder: Path) -> None:
    code = """
other = tokenizer.with_special("allow")
stop = threading.Event()
def encode():
    while not stop.is_set():
        tokenizer.encode_batch(texts[:200])
        tokenizer.encode(texts[1])
busy = [threading.Thread(target=encode) for _ in range(3)]
for thread in busy: thread.start()
for _ in range(20):
    time.sleep(0.01)
    ended(forked(lambda: (check(tokenizer, 200), check(other, 200))))
stop.set()
for thread in busy: thread.join()
"""
    run(code, folder)


def test_loading_in_a_forked_process(folder: Path) -> None:
    run("ended(forked(lambda: check(tokenmill.Tokenizer.from_file(sys.argv[1]))))", folder)


def test_training_in_a_forked_process(folder: Path) -> None:
    code = """
def work():
    assert tokenmill.train_from_iterator(texts, 300).fingerprint == trained
    assert tokenmill.train_from_iterator(texts, 300, threads=3).fingerprint == trained
trained = tokenmill.train_from_iterator(texts, 300).fingerprint
ended(forked(work))
"""
    run(code, folder)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(method: str, folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"""
import multiprocessing, os, sys
import tokenmill

def work(job):
    tokenizer, texts = job
    rows = tokenizer.encode_batch(texts)
    threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0
    return rows, threads

if __name__ == "__main__":
    tokenizer = tokenmill.Tokenizer.from_file(sys.argv[1])
    texts = [f"the quick brown fox {{n}}" for n in range(2000)]
    expected = tokenizer.encode_batch(texts)
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        for rows, threads in pool.map(work, [(tokenizer, texts)] * 4):
            assert rows == expected
            assert threads <= 3, threads
    assert tokenizer.encode_batch(texts) == expected
"""
    )
    for _ in range(ROUNDS):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(script), str(folder)],
            timeout=SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_workers_of_a_data_loader(folder: Path) -> None:
    pytest.importorskip("torch")
    code = """
import torch.utils.data
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return len(texts)
    def __getitem__(self, row):
        return tokenizer.encode(texts[row])
    def __getitems__(self, rows):
        return tokenizer.encode_batch([texts[row] for row in rows])
for epoch in range(2):
    loader = torch.utils.data.DataLoader(Rows(), batch_size=100, num_workers=4, collate_fn=list)
    assert [row for batch in loader for row in batch] == expected
    assert tokenizer.encode_batch(texts) == expected
"""
    run(code, folder)


# A process that has not encoded yet, so that everything that is prepared at first use is not.
FRESH = (
    FORKED
    + """
import json, os, random, sys, threading, time
import tokenmill
from tokenmill import Tokenizer

folder, texts, expected = sys.argv[1], *json.load(open(sys.argv[2]))

def in_background(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread

def check():
    tokenizer = Tokenizer.from_file(folder)
    assert tokenizer.encode_batch(texts) == expected
    assert tokenizer.encode_batch(texts, threads=3) == expected
"""
)


def run_fresh(code: str, folder: Path, tmp_path: Path) -> None:
    texts = [f"the quick brown fox {n}" for n in range(100)]
    known = tmp_path / "known.json"
    known.write_text(json.dumps([texts, Tokenizer.from_file(folder).encode_batch(texts)]))
    run_program(FRESH + code, folder, known)


def test_forks_while_the_first_tokenizer_is_loaded(folder: Path, tmp_path: Path) -> None:
    code = """
thread = in_background(check)
time.sleep(random.random() * 0.03)
children = [forked(check) for _ in range(3)]
for child in children: ended(child)
thread.join()
"""
    run_fresh(code, folder, tmp_path)


def test_forks_while_others_train(folder: Path, tmp_path: Path) -> None:
    code = """
def train():
    return tokenmill.train_from_iterator(texts * 20, 300, split=r"(?i:the)|[a-z]+|[^a-z]+").fingerprint
found = []
thread = in_background(lambda: found.append(train()))
time.sleep(random.random() * 0.03)
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        try:
            check()
            print(train(), file=open(sys.argv[2] + str(os.getpid()), "w"))
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    children.append(child)
for child in children: ended(child)
thread.join()
for child in children:
    assert open(sys.argv[2] + str(child)).read().strip() == found[0]
"""
    run_fresh(code, folder, tmp_path)


def test_recipes_run_in_a_forked_process(folder: Path, tmp_path: Path) -> None:
    """Both processes write at the same time."""
    code = """
def job(out):
    return tokenmill.run({
        "source": {"uri": "demo:verse?lines=3000", "column": "line"},
        "train": {"split": "gpt4", "vocab_size": 300},
        "encode": {"eos": False},
        "output": {"dir": f"{sys.argv[2]}-{out}"},
    })["tokenizer"]
import shutil
for out in ("child", "parent"): shutil.rmtree(f"{sys.argv[2]}-{out}", ignore_errors=True)
thread = in_background(lambda: job("parent"))
time.sleep(random.random() * 0.03)
child = forked(lambda: job("child"))
ended(child)
thread.join()
assert job("parent") == job("child")
"""
    run_fresh(code, folder, tmp_path)


# What a forked process does when it comes back to a call that its parent made.
LEFT_BEHIND = """
import itertools
tokenizer = tokenmill.Tokenizer.from_file(sys.argv[1])
def came_back(call):
    global parent
    parent = os.getpid()
    try:
        result = call()
    except tokenmill.errors.UsageError as error:
        assert os.getpid() != parent and "forked" in str(error), error
        os._exit(0)
    except KeyError as error:
        assert os.getpid() != parent and error.args == ("mine",), error
        os._exit(0)
    if os.getpid() != parent:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return result
def forks_once(*report):
    global child
    if child is None:
        child = os.fork()
        return child == 0
child = None
def forking(raises):
    yield from texts * 100
    if forks_once() and raises:
        raise KeyError("mine")
    yield from texts * 100
"""


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("call", ["train_from_iterator(forking({}), 300, threads=2).fingerprint", "encode_batch"])
def test_an_iterator_may_fork(call: str, raises: bool, folder: Path, tmp_path: Path) -> None:
    if call == "encode_batch":
        code = f"""
rows = came_back(lambda: tokenizer.encode_batch(forking({raises})))
assert rows == expected * 200
"""
    else:
        code = f"""
found = came_back(lambda: tokenmill.{call.format(raises)})
assert found == tokenmill.train_from_iterator(texts * 200, 300).fingerprint
"""
    run_fresh(LEFT_BEHIND + code, folder, tmp_path)


def test_a_report_of_progress_may_fork(folder: Path, tmp_path: Path) -> None:
    code = """
slow = (time.sleep(0.01) or text for text in texts[:50])
came_back(lambda: tokenmill.train_from_iterator(itertools.chain(slow, texts * 2000), 2000, progress=forks_once))
"""
    run_fresh(LEFT_BEHIND + code, folder, tmp_path)


def test_a_signal_handler_may_fork(folder: Path, tmp_path: Path) -> None:
    code = """
import signal
signal.signal(signal.SIGALRM, forks_once)
signal.setitimer(signal.ITIMER_REAL, 0.05)
def long():
    while child is None:
        rows = tokenizer.encode_batch(texts * 300)
    return rows
assert came_back(long) == expected * 300
"""
    run_fresh(LEFT_BEHIND + code, folder, tmp_path)
