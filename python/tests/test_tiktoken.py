"""The calls of tiktoken, answered by tokenmill."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tokenmill import Tokenizer, train_from_iterator
from tokenmill.compat import tiktoken

original = pytest.importorskip("tiktoken")

SPECIALS = ["<|endoftext|>", "<|end|>"]


@pytest.fixture(scope="module")
def encodings(texts: list[str]) -> tuple[Any, tiktoken.Encoding]:
    """The same encoding, of tiktoken and of tokenmill."""
    tokenizer = train_from_iterator(texts, 400, special_tokens=SPECIALS)
    parts: dict[str, Any] = {
        "pat_str": tokenizer.get_pattern(),
        "mergeable_ranks": dict(tokenizer.get_mergeable_ranks()),
        "special_tokens": tokenizer.special_tokens,
        "explicit_n_vocab": tokenizer.vocab_size,
    }
    return original.Encoding("mine", **parts), tiktoken.Encoding("mine", **parts)


CALLS: list[tuple[str, Callable[[Any], Any]]] = [
    ("ordinary", lambda e: e.encode_ordinary("the quick <|end|> naïve 日本語")),
    ("ordinary batch", lambda e: e.encode_ordinary_batch(["the", "", "fox<|end|>"], num_threads=2)),
    ("half of a surrogate pair", lambda e: e.encode_ordinary("a\ud800b")),
    ("a surrogate pair", lambda e: e.encode_ordinary_batch(["a", "\ud83e\udd80"])),
    ("both of them in encode", lambda e: e.encode("\udfff <|end|>", allowed_special="all")),
    ("array", lambda e: e.encode_to_numpy("the quick").tolist()),
    ("array with special tokens", lambda e: e.encode_to_numpy("<|end|>", allowed_special="all").tolist()),
    ("none", lambda e: (e.encode(""), e.encode_batch([]), e.decode([]), e.encode("", allowed_special="all"))),
    ("not text", lambda e: e.encode(5)),
    ("bytes", lambda e: e.encode(b"abc")),
    ("None", lambda e: e.encode_ordinary(None)),
    ("a batch that is not text", lambda e: e.encode_batch(["a", 3])),
    ("a batch of characters", lambda e: e.encode_batch("abc")),
    ("unknown id", lambda e: e.decode([10**7])),
    ("unknown id of a token", lambda e: e.decode_single_token_bytes(10**7)),
    ("unknown token", lambda e: e.encode_single_token("no such token")),
    ("tokens", lambda e: [e.encode_single_token(token) for token in ("<|end|>", b"<|endoftext|>", b"th", " ")]),
    ("bytes of tokens", lambda e: e.decode_tokens_bytes([1, 97, 300, e.eot_token])),
    ("rows", lambda e: (e.decode_batch([[97], [98]], num_threads=2), e.decode_bytes_batch([[195], []]))),
    ("not whole characters", lambda e: (e.decode([195]), e.decode([195], errors="ignore"))),
    ("strict", lambda e: e.decode([195], errors="strict")),
    ("unknown handler", lambda e: e.decode([195], errors="nope")),
    ("offsets", lambda e: e.decode_with_offsets(e.encode("the naïve 日本語 🦀, fox"))),
    ("offsets of bytes", lambda e: e.decode_with_offsets([97, 195])),
    ("vocabulary", lambda e: (e.n_vocab, e.max_token_value, e.eot_token, e.special_tokens_set, e.token_byte_values())),
    ("special tokens", lambda e: [e.is_special_token(id) for id in range(e.n_vocab)]),
    ("private parts", lambda e: (e._pat_str, e._mergeable_ranks, e._special_tokens)),
    ("unstable", lambda e: [sorted(map(str, part)) for part in e.encode_with_unstable("the qu")]),
    ("name", lambda e: (e.name, repr(e))),
]


@pytest.mark.parametrize("call", [call for _, call in CALLS], ids=[name for name, _ in CALLS])
def test_a_call_gives_the_same(encodings: tuple[Any, tiktoken.Encoding], call: Callable[[Any], Any]) -> None:
    expected, found = (_outcome(call, encoding) for encoding in encodings)
    assert found == expected


def _outcome(call: Callable[[Any], Any], encoding: Any) -> Any:
    """What a call gives, or the class of the exception that it raises."""
    try:
        return call(encoding)
    except Exception as error:
        return type(error)


def _encode(text: str, options: dict[str, Any], encoding: Any) -> list[int]:
    return encoding.encode(text, **options)


def _encode_batch(texts: list[str], options: dict[str, Any], encoding: Any) -> list[list[int]]:
    return encoding.encode_batch(texts, **options)


def test_special_tokens_are_encoded_alike(encodings: tuple[Any, tiktoken.Encoding]) -> None:
    expected, found = encodings
    draw = random.Random(7)
    words = ["the", " quick", "naïve", "日本", "\n", "<|", "|>", "<|endoftext|>", "<|end|>", " "]
    choices: list[Any] = ["all", set(), {"<|end|>"}, {"<|endoftext|>"}, {"<|endoftext|>", "<|end|>"}, {"other"}]
    refused = 0
    for _ in range(3000):
        text = "".join(draw.choices(words, k=draw.randrange(9)))
        options = {"allowed_special": draw.choice(choices), "disallowed_special": draw.choice(choices)}
        for call in [partial(_encode, text, options), partial(_encode_batch, [text, "fox"], options)]:
            outcomes = [_outcome(call, encoding) for encoding in encodings]
            assert outcomes[0] == outcomes[1], (text, options)
        refused += outcomes[0] is ValueError
    assert 100 < refused < 2900
    with pytest.raises(ValueError, match=r"disallowed.*allowed_special=\{'<\|end\|>'\}"):
        found.encode("a<|end|>b")


def test_of_special_tokens_that_begin_alike_the_longest_is_taken() -> None:
    alike = tiktoken.Encoding.from_tokenizer(train_from_iterator(["a"], 258, special_tokens=["<a>", "<a>b"]))
    assert alike.encode("<a>b<a>", allowed_special="all") == [257, 256]
    assert alike.encode("<a>b<a>c", allowed_special={"<a>"}, disallowed_special=()) == [256, 98, 256, 99]


def test_texts_are_encoded_alike(encodings: tuple[Any, tiktoken.Encoding], texts: list[str]) -> None:
    expected, found = encodings
    rows = found.encode_batch(texts)
    assert rows == expected.encode_batch(texts) == [found.encode(text) for text in texts]
    assert found.decode_batch(rows) == texts


def test_encodings_are_converted_and_pickled(encodings: tuple[Any, tiktoken.Encoding], tokenizer: Tokenizer) -> None:
    expected, found = encodings
    again = pickle.loads(pickle.dumps(found))
    assert (again.name, again.encode("the fox")) == ("mine", expected.encode("the fox"))
    assert Tokenizer.from_tiktoken(found).fingerprint == found.tokenizer.fingerprint
    allowing = tiktoken.Encoding.from_tokenizer(tokenizer.with_special("allow"), "own")
    assert (allowing.name, allowing.encode_ordinary("<|end|>")) == ("own", tokenizer.encode("<|end|>"))
    with pytest.raises(ValueError, match="tokens, not 5"):
        tiktoken.Encoding("x", pat_str=".", mergeable_ranks={b"a": 0}, special_tokens={}, explicit_n_vocab=5)


def test_names_are_those_of_tiktoken() -> None:
    assert tiktoken.list_encoding_names() == original.list_encoding_names()
    assert tiktoken.encoding_name_for_model("gpt-4o-mini") == "o200k_base"
    with pytest.raises(KeyError):
        tiktoken.encoding_for_model("no such model")
    with pytest.raises(ValueError, match="no such encoding"):
        tiktoken.get_encoding("no such encoding")


def test_tiktoken_is_not_needed(tokenizer: Tokenizer) -> None:
    code = """
import pickle, sys
sys.modules["tiktoken"] = None
from tokenmill.compat import tiktoken
encoding = tiktoken.Encoding.from_tokenizer(pickle.load(sys.stdin.buffer))
assert encoding.encode("fox<|end|>", allowed_special="all")[-1] == encoding.n_vocab - 1
assert tiktoken.list_encoding_names() == ["gpt2", "r50k_base", "p50k_base", "cl100k_base", "o200k_base"]
"""
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(tokenizer), check=True)
