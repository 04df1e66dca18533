"""Checks that the Python package gives the ids of the program in every way that it offers.

The vocabularies and the strings are those on which other checks compare the program with tokenizers and tiktoken.
"""

import json
import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path

import duckdb
import numpy
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import families
import foreign
import strings
import tokenmill
from ids import SPLITS, VOCAB_SIZE, training_strings
from program import SPECIAL
from tokenmill import Tokenizer

STRINGS = 20_000
# All strings for all vocabularies take some minutes: by default every eighth is compared.
EVERY = int(os.environ.get("TOKENMILL_EVERY", "8"))
TYPES = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
# Rows of chunks: they begin at bits of all places in a byte.
CHUNKS = [1, 7, 64, 1, 333, 0, 1001, 13]


def check(setting):
    yield f"tokenmill {tokenmill.__version__} from {Path(tokenmill.__file__).parent}"
    corpus = setting.scratch / "package.jsonl"
    with corpus.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps({"text": text}) + "\n" for text in training_strings(setting))
    # Processes that are forked later have these strings.
    of_ours(), of_others()
    with ProcessPoolExecutor(foreign.PROCESSES) as pool:
        vocabularies = [*trained(setting, corpus), *known(setting, corpus), *published(setting)]
        yield from pool.map(partial(compare, setting), vocabularies)


def trained(setting, corpus):
    for split in SPLITS:
        folder = setting.train(
            f"package-{split}", corpus, "--vocab-size", VOCAB_SIZE, "--split", split, "--special-token", SPECIAL,
        )  # fmt: skip
        yield folder, [SPECIAL], b""


def known(setting, corpus):
    folder = setting.train("package-merges", corpus, "--vocab-size", foreign.VOCAB_SIZE, "--split", "gpt4")
    merges = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    for name, family in families.families():
        path = setting.scratch / f"package-family-{name.replace(' ', '-')}" / "tokenizer.json"
        path.parent.mkdir()
        path.write_text(json.dumps(families.file(merges, family)), encoding="utf-8")
        yield path.parent, [token["content"] for token in family["added"]], family.get("lacks", b"")


def published(setting):
    for ranks in foreign.rank_paths():
        path = setting.scratch / f"package-{ranks.stem}" / ranks.name
        path.parent.mkdir()
        shutil.copyfile(ranks, path)
        yield path, sorted(Tokenizer.from_file(path).special_tokens), b""


@cache
def of_ours():
    return strings.varied(with_specials=True)


@cache
def of_others():
    return foreign.varied()


def compare(setting, vocabulary):
    path, added, lacks = vocabulary
    name = path.parent.name if path.is_file() else path.name
    documents = of_ours() if added == [SPECIAL] else foreign.with_added(of_others(), added)
    # The package has no setting for bytes without a token.
    documents = [text for text in documents if not set(text.encode()) & set(lacks)]
    assert lacks or len(documents) >= STRINGS, len(documents)
    documents = documents[::EVERY]
    count = 0
    for policy in ("text", "allow"):
        folder = setting.encode_to_folder(f"{name}-{policy}", documents, path, "--special", policy)
        expected = pq.read_table(folder / "data")["input_ids"].combine_chunks()
        tokenizer = Tokenizer.from_file(path, special=policy)
        rows = tokenizer.encode_batch(documents)
        equal(f"{name}, specials {policy}, encode_batch", documents, expected, pa.array(rows, expected.type))
        for way, found in lists(tokenizer, documents):
            assert rows == found, f"{name}, specials {policy}: {way} and encode_batch give different ids"
            count += 1
        for way, found, kept in columns_of_ids(tokenizer, documents):
            wanted = expected if kept is None else pc.if_else(kept, expected, None)
            equal(f"{name}, specials {policy}, {way}", documents, wanted, found)
            count += 1
    refused(Tokenizer.from_file(path, special="forbid"), documents, added)
    return f"{name}: {len(documents)} strings equal in {count} ways"


def lists(tokenizer, texts):
    """Yields the name of each way that gives lists, and its lists."""
    data = [text.encode() for text in texts]
    yield "encode of str", list(map(tokenizer.encode, texts))
    yield "encode of bytes", list(map(tokenizer.encode, data))
    yield "encode_batch of bytes", tokenizer.encode_batch(data)
    yield "encode_batch of an iterator", tokenizer.encode_batch(iter(texts), threads=2)


def columns_of_ids(tokenizer, texts):
    """Yields the name of each other way, its ids as an Arrow column, and which rows are not null (``None``: all)."""
    data = [text.encode() for text in texts]
    rows = [tokenizer.encode_to_numpy(text) for text in texts]
    offsets = numpy.cumsum([0, *map(len, rows)])
    yield "encode_to_numpy", pa.LargeListArray.from_arrays(offsets, numpy.concatenate(rows)), None
    for kind, batch in (("str", texts), ("bytes", data)):
        ids, offsets = tokenizer.encode_batch_flat(batch, threads=2)
        yield f"encode_batch_flat of {kind}", pa.LargeListArray.from_arrays(offsets, ids), None
    for kind, column, kept in columns(texts):
        yield f"encode_arrow of {kind}", pa.table(tokenizer.encode_arrow(column))["input_ids"].combine_chunks(), kept
    table = pa.table({"text": texts})
    frame = polars.DataFrame(tokenizer.encode_arrow(table))
    yield "encode_arrow into polars", frame.to_arrow()["input_ids"].combine_chunks(), None
    stream = tokenizer.encode_arrow(table, dtype="uint32")  # noqa: F841  duckdb finds it by its name
    yield "encode_arrow into duckdb", duckdb.sql("SELECT input_ids FROM stream").to_arrow_table()["input_ids"].combine_chunks(), None


def columns(texts):
    """Yields Arrow data with the texts in each form, and which rows are not null (``None``: all)."""
    plain = pa.array(texts)
    for kind in TYPES:
        yield kind, pa.table({"text": plain.cast(pa.binary()).cast(kind)}), None
    yield "dictionary", pa.table({"text": plain.dictionary_encode()}), None
    yield "a single array", plain, None
    for kind in (pa.string(), pa.string_view(), pa.large_binary()):
        nulls = pa.array([row % 5 != 3 for row in range(len(texts))])
        chunks = sliced(pc.if_else(nulls, plain, None).cast(pa.binary()).cast(kind))
        yield f"chunks of {kind}, sliced, with nulls", pa.table({"text": pa.chunked_array(chunks)}), nulls
    yield "a series of polars", polars.Series(texts), None
    yield "a frame of polars", polars.DataFrame({"n": range(len(texts)), "text": texts}), None
    documents = pa.table({"text": plain})  # noqa: F841  duckdb finds it by its name
    yield "a result of duckdb", duckdb.sql("SELECT text FROM documents"), None


def sliced(array):
    """The array in chunks, each a slice of a longer one."""
    at, turn, chunks = 0, 0, []
    while at < len(array):
        rows = CHUNKS[turn % len(CHUNKS)]
        around = pa.array(["before", None, "é"][: turn % 4]).cast(array.type)
        chunks.append(pa.concat_arrays([around, array[at : at + rows], around])[len(around) :][: len(array[at : at + rows])])
        at, turn = at + rows, turn + 1
    return chunks


def equal(way, texts, expected, found):
    same = len(expected) == len(found) and expected.is_null().equals(found.is_null())
    lengths = [pc.cast(pc.list_value_length(column), pa.int64()) for column in (expected, found)]
    ids = [pc.cast(pc.list_flatten(column), pa.int64()) for column in (expected, found)]
    if same and lengths[0].equals(lengths[1]) and ids[0].equals(ids[1]):
        return
    assert len(expected) == len(found), f"{way}: {len(found)} rows for {len(expected)} strings"
    for text, ours, theirs in zip(texts, expected.to_pylist(), found.to_pylist()):
        assert ours == theirs, f"{way}: {text[:200]!r}\nprogram {ours and ours[:50]}\npackage {theirs and theirs[:50]}"


def refused(tokenizer, texts, added):
    """Requires that exactly the texts with a special token are refused."""
    if added != [SPECIAL]:
        return
    for text in texts:
        try:
            tokenizer.encode(text)
        except tokenmill.errors.TokenmillError as error:
            assert SPECIAL in text and SPECIAL in error.message, (text[:200], error)
        else:
            assert SPECIAL not in text, text[:200]
