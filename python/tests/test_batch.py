"""Batches: the same ids in portions, on several threads, in lists, arrays and Arrow data."""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import tokenmill
from tokenmill import Tokenizer, errors

# More than a portion of the greatest size, and than the text that gives one batch of Arrow data.
LARGE = 9 << 20


def long_texts(texts: list[str]) -> list[str]:
    """Short texts, and texts that several threads share, in a random order of sizes."""
    words = " ".join(texts)
    long = words * (1 + (5 << 20) // len(words))
    return [*texts, long, *texts[:50], "", long[: LARGE // 2], *texts[50:90]]


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_portions_do_not_change_the_ids(tokenizer: Tokenizer, texts: list[str], threads: int | None) -> None:
    texts = long_texts(texts) + texts * 20
    expected = [tokenizer.encode(text) for text in texts]
    rows = tokenizer.encode_batch(iter(texts), threads=threads)
    assert rows == expected
    ids, offsets = tokenizer.encode_batch_flat(texts, threads=threads)
    assert [ids[start:end].tolist() for start, end in zip(offsets, offsets[1:])] == expected
    assert tokenizer.count_batch(tuple(texts), threads=threads) == list(map(len, expected))
    table = pa.table({"text": texts, "row": range(len(texts))})
    encoded = pa.table(tokenizer.encode_arrow(table, keep=["row"], threads=threads))
    assert encoded["input_ids"].to_pylist() == expected
    assert encoded["row"].to_pylist() == list(range(len(texts)))
    assert encoded["input_ids"].num_chunks > 1


def test_a_long_text_is_the_same_as_its_bytes_in_a_batch(tokenizer: Tokenizer) -> None:
    text = "the quick brown fox, naïve cafés. " * (LARGE // 34)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode_to_numpy(text.encode()).tolist() == ids


def test_the_first_error_of_a_batch_is_raised(tokenizer: Tokenizer) -> None:
    forbidding = tokenizer.with_special("forbid")
    texts: list[object] = ["fox " * 1000] * 3000
    texts[1700], texts[2900] = "<|end|>", 5
    with pytest.raises(errors.TokenmillError, match="the batch: row 1700: "):
        forbidding.encode_batch(texts)
    with pytest.raises(TypeError, match="the batch: row 2900: "):
        tokenizer.encode_batch(texts)

    def failing() -> Iterator[str]:
        yield from ["fox " * 1000] * 3000
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        tokenizer.encode_batch(failing())


def test_the_garbage_collector_is_left_as_it_was(tokenizer: Tokenizer, texts: list[str]) -> None:
    assert gc.isenabled()
    tokenizer.encode_batch(texts)
    with pytest.raises(TypeError):
        tokenizer.encode_batch([*texts, 5])
    assert gc.isenabled()
    gc.disable()
    try:
        tokenizer.encode_batch(texts)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_arrays_own_their_memory(tokenizer: Tokenizer, texts: list[str]) -> None:
    again = tokenmill.Tokenizer.from_str(tokenizer.to_str())
    expected = again.encode("fox") + again.encode("quick")
    ids, offsets = again.encode_batch_flat(["fox", "quick"])
    del again
    gc.collect()
    assert ids.tolist() == expected
    assert (ids.dtype, offsets.dtype) == (np.uint32, np.int64)
    ids[0] = 7
    offsets += 1
    assert (ids[0], offsets[0]) == (7, 1)
    assert tokenizer.encode_to_numpy("").shape == (0,)


@pytest.mark.parametrize("keys", [pa.int8(), pa.uint16(), pa.int64()])
@pytest.mark.parametrize("values", [pa.string(), pa.large_string(), pa.binary()])
def test_dictionaries_are_encoded(tokenizer: Tokenizer, keys: pa.DataType, values: pa.DataType) -> None:
    dictionary = pa.array(["not used", "the quick", None, "naïve 日本語", ""]).cast(values)
    column = pa.DictionaryArray.from_arrays(pa.array([1, 3, None, 1, 2, 4, 3], keys), dictionary)
    expected = [
        None if text is None else tokenizer.encode(text)
        for text in ["the quick", "naïve 日本語", None, "the quick", None, "", "naïve 日本語"]
    ]
    table = pa.table({"text": column, "row": range(7)})
    for first, rows in [(0, 7), (2, 4), (2, 1), (3, 0)]:
        encoded = pa.table(tokenizer.encode_arrow(table[first : first + rows], keep=["row"]))
        assert encoded["input_ids"].to_pylist() == expected[first : first + rows]
        assert encoded["row"].to_pylist() == list(range(first, first + rows))


def test_a_dictionary_without_values_is_encoded(tokenizer: Tokenizer) -> None:
    column = pa.array([None, None], pa.string()).dictionary_encode()
    assert pa.table(tokenizer.encode_arrow(pa.table({"text": column})))["input_ids"].to_pylist() == [None, None]


def test_a_dictionary_with_many_ids_gives_several_batches(tokenizer: Tokenizer) -> None:
    text = "a" * 1000
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 40_000, pa.int32()), pa.array([text]))
    encoded = pa.table(tokenizer.encode_arrow(pa.table({"text": column, "row": range(40_000)}), keep=["row"]))
    row = tokenizer.encode(text)
    assert encoded["input_ids"].num_chunks == -(-40_000 // -(-(16 << 20) // len(row))) > 1
    assert encoded["row"].to_pylist() == list(range(40_000))
    assert encoded["input_ids"].combine_chunks().flatten().to_numpy().reshape(40_000, -1).tolist()[::9999] == [row] * 5


@pytest.mark.parametrize("method", ["encode", "encode_batch", "encode_batch_flat", "count_batch"])
def test_a_signal_stops_the_encoding_of_a_few_long_texts(tokenizer: Tokenizer, method: str) -> None:
    class Alarm(Exception):
        pass

    def ring(*_: object) -> None:
        raise Alarm

    text = "the quick brown fox jumps over a naïve 🦀 " * 3_000_000
    argument: object = text if method == "encode" else [text] * 20
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        begun = time.monotonic()
        with pytest.raises(Alarm):
            getattr(tokenizer, method)(argument)
        assert time.monotonic() - begun < 5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
