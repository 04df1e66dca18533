"""Many short calls leave no memory behind. TOKENMILL_CALLS sets their number."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CALLS = int(os.environ.get("TOKENMILL_CALLS", "300000"))

# A process of its own for each group of calls, so that what the others left does not matter.
PROGRAM = """
import gc, itertools, pickle, sys
import numpy, pyarrow
import tokenmill
from tokenmill import Tokenizer

folder, group, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
tokenizer = Tokenizer.from_file(folder)
forbidding = tokenizer.with_special("forbid")
text = "the quick brown fox, naïve 日本語 " * 3
data, noise = text.encode(), bytes(range(128, 160))
ids = tokenizer.encode(text)
array = numpy.array(ids)
pickled = pickle.dumps(tokenizer)
table = pyarrow.table({"text": [text, None, ""]})
batches = pyarrow.Table.from_batches(table.to_batches() * 3)

def refused(call):
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("no exception")

def read_one():
    return pyarrow.RecordBatchReader.from_stream(tokenizer.encode_arrow(batches)).read_next_batch()

def trained():
    return tokenmill.train_from_iterator([text], 260, threads=1)

def failing():
    yield text
    raise LookupError

def stream():
    decoding = tokenizer.decode_stream()
    return [decoding.push(id) for id in ids[:3]], decoding.finish()

GROUPS = {
    # The calls of each group, and how many calls fit into the time of one short call.
    "encode": (1, [
        lambda: tokenizer.encode(text), lambda: tokenizer.encode(data), lambda: tokenizer.encode(noise),
        lambda: tokenizer.encode(bytearray(data)), lambda: tokenizer.encode(""), lambda: tokenizer.count(text),
        lambda: tokenizer.encode_to_numpy(text), lambda: tokenizer.pieces(text),
    ]),
    "decode": (1, [
        lambda: tokenizer.decode(ids), lambda: tokenizer.decode(array), lambda: tokenizer.decode_bytes(ids),
        lambda: tokenizer.decode_batch([ids, []]), lambda: tokenizer.decode([255]), stream,
        lambda: tokenizer.decode(ids, skip_special_tokens=True), lambda: tokenizer.token_to_id("the"),
        lambda: tokenizer.token_to_id(b"\\xff"), lambda: tokenizer.id_to_token(300), lambda: tokenizer.special_tokens,
        lambda: (tokenizer.vocab_size, tokenizer.eos_token_id, tokenizer.special, tokenizer.fingerprint),
        lambda: repr(tokenizer),
    ]),
    "batch": (4, [
        lambda: tokenizer.encode_batch([text, data, ""]), lambda: tokenizer.encode_batch(iter([text])),
        lambda: tokenizer.encode_batch_flat([text, text]), lambda: tokenizer.count_batch([text]),
        lambda: tokenizer.encode_batch([text], eos=True), lambda: tokenizer.encode_batch([], threads=2),
    ]),
    "errors": (4, [
        lambda: refused(lambda: tokenizer.encode("\\ud800")), lambda: refused(lambda: tokenizer.encode(5)),
        lambda: refused(lambda: tokenizer.encode_batch([text, 5])),
        lambda: refused(lambda: tokenizer.decode([1 << 40])), lambda: refused(lambda: tokenizer.decode([10**6])),
        lambda: refused(lambda: tokenizer.encode_batch(failing())),
        lambda: refused(lambda: forbidding.encode("<|end|>")),
        lambda: refused(lambda: forbidding.encode_batch([text, "<|end|>"])),
        lambda: refused(lambda: tokenizer.encode_arrow(table, column="none")),
        lambda: refused(lambda: tokenizer.encode_arrow(5)),
        lambda: refused(lambda: Tokenizer.from_str("{")), lambda: refused(lambda: tokenizer.encode(text, bos=True)),
    ]),
    "arrow": (20, [
        lambda: tokenizer.encode_arrow(table), lambda: tokenizer.encode_arrow(table).__arrow_c_stream__(),
        lambda: pyarrow.table(tokenizer.encode_arrow(batches)), read_one,
        lambda: refused(lambda: pyarrow.table(forbidding.encode_arrow(pyarrow.table({"text": ["<|end|>"]})))),
    ]),
    "tokenizers": (2000, [
        lambda: pickle.loads(pickle.dumps(tokenizer)), lambda: tokenizer.with_special("allow").encode(text),
        lambda: tokenizer.__reduce__()[0].__wrapped__(*tokenizer.__reduce__()[1]), lambda: tokenizer.to_str(),
        lambda: Tokenizer.from_file(folder).encode(text), lambda: tokenizer.get_vocab(), trained,
        lambda: refused(lambda: tokenmill.train_from_iterator(failing(), 260, threads=1)),
        lambda: tokenizer.get_mergeable_ranks(),
    ]),
}

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

cost, calls_of_group = GROUPS[group]
rounds = max(calls // cost // len(calls_of_group), 20)
sizes = {}
for number in range(rounds + 1):
    for call in calls_of_group:
        call()
    for percent in (10, 50, 100):
        if number == rounds * percent // 100:
            sizes[percent] = resident()
print(rounds * len(calls_of_group), *(sizes[percent] for percent in (10, 50, 100)))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the size of a process is in /proc")
@pytest.mark.parametrize("group", ["encode", "decode", "batch", "errors", "arrow", "tokenizers"])
def test_calls_leave_no_memory_behind(group: str, folder: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(folder), group, str(CALLS)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    calls, early, half, late = map(int, said.split())
    print(f"{group}: {calls} calls; {early >> 10}, {half >> 10}, {late >> 10} KiB after 10 %, 50 % and all of them")
    # A byte for each call would show with the number of calls of a long run, 16 bytes with that of a short one. A
    # tokenizer takes much more, and threads that build its tables at once take memory that they keep.
    limit = (4 if group == "tokenizers" else 1) << 20
    assert late - half < limit, said
    assert late - early < 2 * limit, said
