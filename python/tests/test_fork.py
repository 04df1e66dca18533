"""Forked processes. Each test runs in a process of its own, which is killed if it hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 60

BEGIN = """
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


def run(code: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEGIN + code, str(folder)],
        timeout=SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


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
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(folder)],
        timeout=2 * SECONDS,
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
loader = torch.utils.data.DataLoader(Rows(), batch_size=100, num_workers=2, collate_fn=list)
assert [row for batch in loader for row in batch] == expected
"""
    run(code, folder)
