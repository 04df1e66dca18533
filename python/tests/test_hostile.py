"""Objects that do not do what they should: a clear error, or the right result."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tokenmill
from tokenmill import Tokenizer, errors


class Words(str):
    """A str that says other things about itself."""

    def __len__(self) -> int:
        return 1 << 40

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("iterated over")

    def encode(self, *arguments: Any) -> bytes:
        raise AssertionError("encoded")


class Data(bytes):
    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("read")


class Lying:
    """A sequence that declares a length and raises or gives something else."""

    def __init__(self, length: int, items: list[Any]) -> None:
        self.length, self.items = length, items

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


def test_subclasses_of_texts_are_taken_by_their_content(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the quick")
    assert tokenizer.encode(Words("the quick")) == tokenizer.encode(Data(b"the quick")) == ids
    assert tokenizer.encode_batch([Words("the quick"), Data(b"the quick")]) == [ids, ids]
    assert tokenizer.decode_bytes(tokenizer.encode(Words("\0"))) == b"\0"


@pytest.mark.parametrize("length", [0, 1, 3, 1 << 60, -1])
def test_a_declared_length_does_not_matter(tokenizer: Tokenizer, length: int) -> None:
    assert tokenizer.encode_batch(Lying(length, ["the", "fox"])) == tokenizer.encode_batch(["the", "fox"])


@pytest.mark.parametrize("text", [memoryview(b"the"), np.array(["the"]), np.str_, ["the"], 3.5, object()])
def test_other_objects_are_no_text(tokenizer: Tokenizer, text: object) -> None:
    with pytest.raises(TypeError, match="a text must be str or bytes"):
        tokenizer.encode(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ids",
    [
        [-1], [1 << 32], [1 << 200], [1.0], [None], ["1"], "12", 12, None, object(), {1: 2}.items(), [[1]],
        np.array([1.5]), np.array([-1]), np.array([1 << 40]), np.array(3), np.array([[1]]), Lying(1 << 60, [-1]),
    ],
)  # fmt: skip
def test_other_objects_are_no_ids(tokenizer: Tokenizer, ids: object) -> None:
    calls: list[Callable[[Any], object]] = [
        tokenizer.decode,
        tokenizer.decode_bytes,
        lambda ids: tokenizer.decode_batch([ids]),
    ]
    for call in calls:
        with pytest.raises((errors.UsageError, TypeError)):
            call(ids)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.uint32, np.int8, bool])
def test_whole_numbers_of_any_type_are_ids(tokenizer: Tokenizer, kind: Any) -> None:
    assert tokenizer.decode_bytes([kind(1)]) == tokenizer.decode_bytes([1])
    assert tokenizer.decode_bytes(np.array([1, 0], dtype=kind)) == tokenizer.decode_bytes([1, 0])


SURROGATE = "the row with \ud800"


@pytest.mark.parametrize(
    "call",
    [
        lambda t, texts: t.encode_batch(texts),
        lambda t, texts: t.encode_batch(iter(texts), threads=2),
        lambda t, texts: t.encode_batch_flat(texts),
        lambda t, texts: t.count_batch(texts),
    ],
)
@pytest.mark.parametrize("row", [0, 7, 5000])
def test_the_row_of_half_a_surrogate_pair_is_named(tokenizer: Tokenizer, call: Any, row: int) -> None:
    texts = ["the quick brown fox"] * 6000
    texts[row] = SURROGATE
    with pytest.raises(errors.UsageError, match=rf"row {row}: the text has half of a surrogate pair at character 13"):
        call(tokenizer, texts)


def test_half_a_surrogate_pair_is_an_error_of_every_call(tokenizer: Tokenizer) -> None:
    for call in (tokenizer.encode, tokenizer.encode_to_numpy, tokenizer.count, tokenizer.pieces, tokenizer.token_to_id):
        with pytest.raises(errors.UsageError, match="half of a surrogate pair at character 13"):
            call(SURROGATE)
    with pytest.raises(errors.UsageError, match="half of a surrogate pair at character 13"):
        tokenmill.train_from_iterator(["a", SURROGATE], 300)


class Stream:
    """Arrow data whose stream is what a function gives."""

    def __init__(self, stream: Callable[[], object]) -> None:
        self.stream = stream

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.stream()


def capsule(data: Any) -> object:
    return data.__arrow_c_stream__()


def spent() -> object:
    """A capsule whose stream was read already."""
    read = capsule(pa.table({"text": ["the"]}))
    pa.RecordBatchReader._import_from_c_capsule(read).read_all()
    return read


def other_capsule() -> object:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(1, b"something_else", None)


def raising() -> object:
    raise LookupError("mine")


@pytest.mark.parametrize("stream", [spent, other_capsule, raising, lambda: None, lambda: 5, lambda: pa.table({})])
def test_what_is_no_stream_is_an_error(tokenizer: Tokenizer, stream: Callable[[], object]) -> None:
    with pytest.raises((ValueError, TypeError, LookupError, pa.ArrowException)):
        pa.table(tokenizer.encode_arrow(Stream(stream)))


def test_streams_without_rows_or_columns(tokenizer: Tokenizer) -> None:
    schema = pa.schema({"text": pa.string()})
    for data in [
        schema.empty_table(),
        pa.table({"text": pa.chunked_array([], pa.string())}),
        schema.empty_table().to_batches(),
    ]:
        source = data if isinstance(data, pa.Table) else pa.RecordBatchReader.from_batches(schema, data)
        encoded = pa.table(tokenizer.encode_arrow(source))
        assert (encoded.num_rows, encoded.column_names) == (0, ["input_ids"])
    with pytest.raises(errors.UsageError, match="no column"):
        tokenizer.encode_arrow(Stream(lambda: capsule(pa.table({}))))
    nulls = pa.table({"text": pa.array([None] * 9, pa.string())})
    assert pa.table(tokenizer.encode_arrow(nulls)).column("input_ids").null_count == 9
    with pytest.raises(errors.UsageError, match="not text"):
        tokenizer.encode_arrow(pa.table({"text": pa.nulls(3)}))


@pytest.mark.parametrize("other", [{"text": [1]}, {"text": ["the"], "more": [1]}])
def test_a_stream_may_break_its_word(tokenizer: Tokenizer, other: dict[str, Any]) -> None:
    """It gives batches with other columns than it said, which pyarrow does not check."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"text": ["the"]})
        yield pa.record_batch(other)

    source = pa.RecordBatchReader.from_batches(pa.schema({"text": pa.string()}), batches())
    with pytest.raises(Exception, match="other columns than its stream declares"):
        pa.table(tokenizer.encode_arrow(source))


def test_a_stream_that_nobody_reads_to_its_end(tokenizer: Tokenizer) -> None:
    table = pa.table({"text": ["the"] * 1000})
    batches = pa.Table.from_batches(table.to_batches(max_chunksize=10))
    tokenizer.encode_arrow(batches)
    taken = tokenizer.encode_arrow(batches).__arrow_c_stream__()
    del taken
    reader = pa.RecordBatchReader.from_stream(tokenizer.encode_arrow(batches))
    reader.read_next_batch()
    del reader
    stream = tokenizer.encode_arrow(batches)
    del batches
    assert pa.table(stream).num_rows == 1000
