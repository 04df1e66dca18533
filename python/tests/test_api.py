"""What the class Tokenizer gives."""

from __future__ import annotations

import pickle
import re
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tokenmill
from tokenmill import Tokenizer, errors


def test_texts_are_encoded_and_decoded(tokenizer: Tokenizer, texts: list[str]) -> None:
    rows = tokenizer.encode_batch(texts)
    assert rows == [tokenizer.encode(text) for text in texts]
    assert rows == tokenizer.encode_batch([text.encode() for text in texts], threads=3)
    assert tokenizer.decode_batch(rows) == texts
    assert [tokenizer.decode_bytes(row) for row in rows] == [text.encode() for text in texts]
    assert tokenizer.count_batch(iter(texts)) == [len(row) for row in rows] == [tokenizer.count(text) for text in texts]


def test_dropout_leaves_merges_out_by_the_seed(tokenizer: Tokenizer, texts: list[str]) -> None:
    for text in texts[:50]:
        plain = tokenizer.encode(text)
        assert tokenizer.encode(text, dropout=0.0, seed=3) == plain
        assert tokenizer.encode(text, dropout=1.0) == [tokenizer.token_to_id(bytes([byte])) for byte in text.encode()]
        one = tokenizer.encode(text, dropout=0.3, seed=1)
        assert one == tokenizer.encode(text, dropout=0.3, seed=1)
        assert len(one) >= len(plain)
        assert tokenizer.decode(one) == text
    long = " ".join(texts)
    assert tokenizer.encode(long, dropout=0.3, seed=1) != tokenizer.encode(long, dropout=0.3, seed=2)
    # A long text is encoded on several threads, by the same draws.
    short = "the woodchuck could chuck wood " * 60_000
    ids = tokenizer.encode(short, dropout=0.3, seed=1)
    longer = tokenizer.encode(short + short, dropout=0.3, seed=1)
    assert longer[: len(ids) - 10] == ids[:-10]
    for probability in (-0.1, 1.5, float("nan")):
        with pytest.raises(errors.UsageError, match="not a probability"):
            tokenizer.encode("text", dropout=probability)


def test_ids_are_ints_of_python(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the quick brown fox")
    assert type(ids) is list
    assert {type(id) for id in ids} == {int}
    assert all(0 <= id < tokenizer.vocab_size for id in ids)


def test_flat_ids_are_the_rows_end_to_end(tokenizer: Tokenizer, texts: list[str]) -> None:
    ids, offsets = tokenizer.encode_batch_flat(texts)
    assert (ids.dtype, offsets.dtype) == (np.dtype("uint32"), np.dtype("int64"))
    rows = tokenizer.encode_batch(texts)
    assert [ids[start:end].tolist() for start, end in zip(offsets, offsets[1:])] == rows
    assert tokenizer.encode_to_numpy(texts[3]).tolist() == rows[3]
    ids[0] = 7
    assert tokenizer.decode(ids[:1]) == tokenizer.decode([7]) == tokenizer.decode((7,))
    none, offsets = tokenizer.encode_batch_flat([])
    assert (len(none), offsets.tolist()) == (0, [0])


def test_the_token_that_ends_documents_is_added(folder: Path, texts: list[str]) -> None:
    tokenizer = Tokenizer.from_file(folder)
    end = tokenizer.eos_token_id
    assert end == tokenizer.special_tokens["<|end|>"]
    assert tokenizer.encode(texts[1], eos=True) == [*tokenizer.encode(texts[1]), end]
    assert tokenizer.encode_batch(texts, eos=True) == [[*row, end] for row in tokenizer.encode_batch(texts)]
    ids, offsets = tokenizer.encode_batch_flat(texts, eos=True)
    assert {int(id) for id in ids[offsets[1:] - 1]} == {end}
    with pytest.raises(errors.UsageError, match="no bos token"):
        tokenizer.encode("a", bos=True)


def test_special_tokens_in_a_text_follow_the_policy(tokenizer: Tokenizer) -> None:
    end = tokenizer.special_tokens["<|end|>"]
    assert end not in tokenizer.encode("a<|end|>")
    allowing = tokenizer.with_special("allow")
    assert allowing.encode("a<|end|>")[-1] == end
    assert (tokenizer.special, allowing.special) == ("text", "allow")
    with pytest.raises(errors.TokenmillError, match=re.escape("<|end|>")):
        tokenizer.with_special("forbid").encode("a<|end|>")
    assert allowing.decode([end]) == "<|end|>"
    assert allowing.decode([97, end], skip_special_tokens=True) == allowing.decode([97])


def test_tokens_are_looked_up(tokenizer: Tokenizer) -> None:
    vocabulary = tokenizer.get_vocab()
    assert len(vocabulary) == tokenizer.vocab_size == 400
    for token, id in vocabulary.items():
        assert tokenizer.id_to_token(id) == token
        assert tokenizer.token_to_id(token) == id
    assert tokenizer.token_to_id("no such token") is None
    assert tokenizer.id_to_token(400) is None
    pieces = tokenizer.pieces("the quick naïve fox")
    assert b"".join(pieces).decode() == "the quick naïve fox"
    assert [vocabulary[piece] for piece in pieces] == tokenizer.encode("the quick naïve fox")


def test_a_tokenizer_says_what_it_is(tokenizer: Tokenizer) -> None:
    assert repr(tokenizer) == 'Tokenizer(vocab_size=400, split="gpt4", special_tokens=1)'


def test_a_stream_says_its_columns_and_is_read_once(tokenizer: Tokenizer) -> None:
    stream = tokenizer.encode_arrow(pa.table({"text": ["a"], "n": [1]}), keep=["n"])
    columns = pa.schema(stream)
    assert columns == pa.table(stream).schema == pa.schema(stream)
    with pytest.raises(errors.UsageError, match="read already"):
        pa.table(stream)


def test_bytes_that_are_not_text_pass_through(tokenizer: Tokenizer) -> None:
    noise = bytes(range(256))
    ids = tokenizer.encode(noise)
    assert tokenizer.decode_bytes(ids) == noise
    assert tokenizer.encode(bytearray(noise)) == ids
    assert tokenizer.decode(ids) == noise.decode(errors="replace")
    assert tokenizer.decode(ids, errors="ignore") == noise.decode(errors="ignore")
    with pytest.raises(errors.UsageError, match="not whole characters"):
        tokenizer.decode(ids, errors="strict")


def test_a_stream_gives_whole_characters(tokenizer: Tokenizer) -> None:
    stream = tokenizer.decode_stream()
    ids = tokenizer.encode("naïve 日本語 🦀 ÿ".encode()[:-1])
    assert "".join(stream.push(id) for id in ids) + stream.finish() == "naïve 日本語 🦀 \N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("call", "kinds", "message"),
    [
        (lambda t: t.encode("a\ud800b"), (errors.UsageError, ValueError), "half of a surrogate pair at character 1"),
        (lambda t: t.encode_batch(["a", "\udfff"]), (errors.UsageError,), "row 1: the text has half of a surrogate"),
        (lambda t: t.encode_batch(["a", 5]), (TypeError,), "row 1: a text must be str or bytes, not int"),
        (lambda t: t.encode_batch("one text"), (TypeError,), "this is one text"),
        (lambda t: t.encode(None), (TypeError,), "a text must be str or bytes, not NoneType"),
        (lambda t: t.encode_batch(["a"], threads=0), (errors.UsageError,), "threads must be from 1 to 1024"),
        (lambda t: t.decode([400]), (errors.TokenmillError,), "400"),
        (lambda t: t.decode([-1]), (errors.UsageError,), "not whole numbers"),
        (lambda t: t.decode(["a"]), (errors.UsageError,), "not whole numbers"),
        (lambda t: t.decode(5), (errors.UsageError,), "not whole numbers"),
        (lambda t: t.with_special("some"), (errors.UsageError,), 'special="some" is not known'),
        (lambda t: Tokenizer.from_file("/no/such/file"), (errors.NotFoundError, FileNotFoundError), "/no/such/file"),
        (lambda t: Tokenizer.from_str("{"), (errors.TokenmillError,), "tokenizer.json"),
        (lambda t: t.save_pretrained("x", formats=["none"]), (errors.UsageError,), "unknown tokenizer format"),
        (lambda t: tokenmill.train_from_iterator(["a", 1], 300), (TypeError,), "not int"),
        (lambda t: tokenmill.train_from_iterator([], 300, split="("), (errors.UsageError,), r"\("),
        (lambda t: tokenmill.train_from_iterator("one text", 300), (TypeError,), "this is one text"),
        (lambda t: tokenmill.train_from_iterator(["a"], 300, special_tokens="<a>"), (TypeError,), "str"),
        (lambda t: tokenmill.get_encoding("../o200k_base"), (errors.UsageError,), "there is no encoding"),
        (lambda t: tokenmill.get_encoding("/x", path="/dev/null"), (errors.UsageError,), "there is no encoding"),
        (lambda t: Tokenizer.from_pretrained("./no/folder"), (errors.NotFoundError,), "no/folder"),
        (lambda t: Tokenizer.from_pretrained("gpt2", revision="x"), (errors.UsageError,), "revision"),
        (lambda t: t.encode_batch(_Endless()), (TypeError,), "row 0: a text must be str or bytes, not int"),
    ],
)
def test_mistakes_are_clear_errors(tokenizer: Tokenizer, call, kinds, message: str) -> None:
    with pytest.raises(kinds[0]) as raised:
        call(tokenizer)
    assert isinstance(raised.value, kinds)
    assert message in str(raised.value) or re.search(message, str(raised.value))
    if isinstance(raised.value, errors.TokenmillError):
        assert raised.value.exit_code in (1, 2)


class _Endless:
    """Declares more items than any memory holds."""

    def __len__(self) -> int:
        return 1 << 60

    def __getitem__(self, index: int) -> int:
        return index


def test_errors_have_help_and_an_exit_code(tokenizer: Tokenizer) -> None:
    with pytest.raises(errors.UsageError) as raised:
        tokenizer.encode("\ud800")
    assert raised.value.exit_code == 2
    assert raised.value.help is not None
    assert str(raised.value) == f"{raised.value.message}\n  help: {raised.value.help}"


def test_help_names_arguments_instead_of_flags(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(errors.TokenmillError) as raised:
        tokenizer.with_special("forbid").encode("<|end|>")
    assert "`special=allow`" in str(raised.value.help)
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(b'{"text": "a"}\n{"text": \n')
    with pytest.raises(errors.TokenmillError) as raised:
        tokenmill.count(bad)
    assert "`on_bad_input` skip" in str(raised.value.help)
    assert "--" not in str(raised.value.help)


def test_errors_are_also_those_of_python() -> None:
    for name in errors.__all__:
        error = getattr(errors, name)("what is wrong", "the remedy")
        again = pickle.loads(pickle.dumps(error))
        assert (again.message, again.help, str(again)) == (error.message, error.help, str(error))
        if isinstance(error, OSError):
            assert (again.errno, again.strerror) == (error.errno, error.strerror) == (None, None)


def test_the_row_of_an_error_counts_from_the_first_text(tokenizer: Tokenizer) -> None:
    """Texts are encoded in portions of 32 MiB, and the row is not that in the portion."""
    texts = ["a" * (20 << 20), "b" * (20 << 20), "c", "<|end|>"]
    with pytest.raises(errors.TokenmillError, match="row 3"):
        tokenizer.with_special("forbid").encode_batch(texts)


def test_files_keep_the_tokenizer(tokenizer: Tokenizer, folder: Path, texts: list[str], tmp_path: Path) -> None:
    rows = tokenizer.encode_batch(texts)
    for again in [
        Tokenizer.from_file(folder),
        Tokenizer.from_pretrained(str(folder)),
        Tokenizer.from_file(folder / "tokenizer.tiktoken"),
        Tokenizer.from_str(tokenizer.to_str()),
        Tokenizer.from_str(tokenizer.to_str().encode()),
        Tokenizer.from_ranks(
            tokenizer.get_pattern(), tokenizer.get_mergeable_ranks(), list(tokenizer.special_tokens.items())
        ),
    ]:
        assert again.fingerprint == tokenizer.fingerprint
        assert again.encode_batch(texts) == rows
    written = tokenizer.save_pretrained(tmp_path, formats=["minbpe", "tiktoken"])
    assert {Path(path).name for path in written} >= {"tokenizer.model", "tokenizer.tiktoken"}
    other = tokenmill.train_from_iterator(["ab"], 257)
    other.save_pretrained(tmp_path / "other")
    with pytest.raises(errors.UsageError):
        tokenizer.save_pretrained(tmp_path / "other")


def test_one_tokenizer_serves_many_threads(tokenizer: Tokenizer, texts: list[str]) -> None:
    expected = tokenizer.encode_batch(texts)
    found: list[list[list[int]]] = []
    threads = [threading.Thread(target=lambda: found.append(tokenizer.encode_batch(texts))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


def test_training_does_not_depend_on_how_texts_arrive(texts: list[str]) -> None:
    one = tokenmill.train_from_iterator(texts, 350, threads=1)
    assert (
        tokenmill.train_from_iterator((text.encode() for text in texts), 350, threads=3).fingerprint == one.fingerprint
    )
    other = tokenmill.train_from_iterator(texts, 350, split=r"\w+|\W+", special_tokens=["<a>", "<b>"])
    assert other.get_pattern() == r"\w+|\W+"
    assert other.special_tokens == {"<a>": 348, "<b>": 349}


def test_training_reports_progress(texts: list[str]) -> None:
    reports: list[tuple[str, int, int | None]] = []
    tokenmill.train_from_iterator(texts, 350, progress=lambda *report: reports.append(report))
    stage, done, total = reports[-1]
    assert (stage, done) == ("train", total)
    tokenmill.train_from_iterator(texts, 300, progress=True)


def test_an_exception_of_the_caller_ends_training(texts: list[str]) -> None:
    def failing():
        yield from texts
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        tokenmill.train_from_iterator(failing(), 350)

    def refuse(*report: object) -> None:
        raise ArithmeticError("enough")

    with pytest.raises(ArithmeticError, match="enough"):
        tokenmill.train_from_iterator(texts * 50, 2000, progress=refuse)


def test_tokens_with_ids_are_pairs_or_a_dictionary(tokenizer: Tokenizer, tmp_path: Path) -> None:
    pattern, ranks, specials = tokenizer.get_pattern(), tokenizer.get_mergeable_ranks(), tokenizer.special_tokens
    expected = tokenizer.encode("the quick brown fox")
    for given in [(ranks, specials), (dict(ranks), list(specials.items()))]:
        assert Tokenizer.from_ranks(pattern, *given).encode("the quick brown fox") == expected
    (path,) = [path for path in tokenizer.save_pretrained(tmp_path, formats=["tiktoken"]) if path.suffix == ".tiktoken"]
    loaded = Tokenizer.from_file(path, split="gpt4", special_tokens=specials)
    assert loaded.encode("the quick brown fox") == expected
    with pytest.raises(errors.UsageError, match="gtp4"):
        Tokenizer.from_file(path, split="gtp4")


def test_an_iterator_may_use_the_threads_that_read_it(tokenizer: Tokenizer, texts: list[str]) -> None:
    """Training waits for the texts on threads of its own."""
    long = (text for text in texts if tokenizer.count_batch([text], threads=1)[0] > 3)
    trained = tokenmill.train_from_iterator(long, 300, threads=1)
    assert trained.vocab_size == 300


def test_a_long_text_alone_has_no_row(tokenizer: Tokenizer) -> None:
    text = "the quick " * 300_000 + "<|end|>"
    with pytest.raises(errors.TokenmillError) as raised:
        tokenizer.with_special("forbid").encode(text)
    assert "row" not in str(raised.value)
    assert tokenizer.count(text) == len(tokenizer.encode(text))
