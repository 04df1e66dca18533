"""The same ids as other packages."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from tokenmill import Tokenizer, errors


def test_tiktoken_gives_the_same_ids(tokenizer: Tokenizer, texts: list[str]) -> None:
    pytest.importorskip("tiktoken")
    encoding = tokenizer.as_tiktoken("mine")
    assert encoding.name == "mine"
    assert encoding.encode_ordinary_batch(texts) == tokenizer.encode_batch(texts)
    allowing = tokenizer.with_special("allow")
    assert encoding.encode("a<|end|>b", allowed_special="all") == allowing.encode("a<|end|>b")
    again = Tokenizer.from_tiktoken(encoding, special="allow")
    assert again.fingerprint == tokenizer.fingerprint
    assert again.special == "allow"


def test_tokenizers_gives_the_same_ids(tokenizer: Tokenizer, texts: list[str]) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    other = tokenizers.Tokenizer.from_str(tokenizer.to_str())
    assert [encoded.ids for encoded in other.encode_batch(texts)] == tokenizer.encode_batch(texts)


def test_transformers_gives_the_same_ids(tokenizer: Tokenizer, texts: list[str]) -> None:
    pytest.importorskip("transformers")
    other = tokenizer.to_transformers()
    assert other(texts)["input_ids"] == tokenizer.encode_batch(texts)
    assert other.decode(tokenizer.encode(texts[3])) == texts[3]


def test_what_ranks_cannot_express_is_an_error(tokenizer: Tokenizer) -> None:
    pytest.importorskip("tiktoken")
    parts = json.loads(tokenizer.to_str())
    normalizing = Tokenizer.from_str(json.dumps({**parts, "normalizer": {"type": "NFC"}}))
    assert normalizing.encode("e\u0301") == tokenizer.encode("\u00e9")
    with pytest.raises(errors.TokenmillError, match="tiktoken"):
        normalizing.as_tiktoken()


def test_an_accelerated_tokenizer_gives_the_same_results(folder: Path, texts: list[str]) -> None:
    transformers = pytest.importorskip("transformers")
    from tokenmill.compat.hf import accelerate

    original = transformers.PreTrainedTokenizerFast.from_pretrained(folder, pad_token="<|end|>")
    backend = original.backend_tokenizer
    end = backend.token_to_id("<|end|>")
    from tokenizers.processors import TemplateProcessing

    backend.post_processor = TemplateProcessing(single="<|end|> $A <|end|>", special_tokens=[("<|end|>", end)])
    # This leaves padding and truncation set in the backend.
    original(texts, padding="max_length", max_length=40, truncation=True)
    fast = accelerate(original)
    assert accelerate(fast) is fast
    assert isinstance(fast, type(original))
    texts = [*texts, "a<|end|>b"]
    for options in [
        {},
        {"add_special_tokens": False},
        {"padding": True},
        {"padding": "max_length", "max_length": 40, "truncation": True},
        {"truncation": True, "max_length": 9},
        {"truncation": True, "max_length": 1},
        {"padding": True, "pad_to_multiple_of": 8, "padding_side": "left"},
        {"split_special_tokens": True},
        {"return_token_type_ids": True, "return_attention_mask": False},
        {"return_tensors": "np", "padding": True},
        {"return_offsets_mapping": True},
        {"return_special_tokens_mask": True},
        {"text_pair": texts[::-1]},
    ]:
        expected, found = original(texts, **options), fast(texts, **options)
        assert _plain(expected) == _plain(found), options
        if "text_pair" not in options:
            assert _plain(original(texts[2], **options)) == _plain(fast(texts[2], **options)), options
    again = pickle.loads(pickle.dumps(fast))
    assert again(texts).data == fast(texts).data
    fast.add_tokens(["fox"])
    original.add_tokens(["fox"])
    assert fast(texts).data == original(texts).data
    assert fast.decode(fast.encode("the fox")) == original.decode(original.encode("the fox"))


def _plain(result: Any) -> dict[str, Any]:
    """The fields of a result, with arrays as lists."""
    return {name: getattr(values, "tolist", lambda values=values: values)() for name, values in result.items()}
