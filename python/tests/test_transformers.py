"""Tokenizers of transformers that encode with tokenmill."""

from __future__ import annotations

import copy
import itertools
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import made_texts

from tokenmill import Tokenizer, errors
from tokenmill.compat.hf import accelerate

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

TEMPLATE = "{% for m in messages %}<|end|>{{ m['role'] }}: {{ m['content'] }}{% endfor %}"


def with_template(tok: Any) -> None:
    """A token before and one after each text, and another between the texts of a pair."""
    end = tok.convert_tokens_to_ids("<|end|>")
    tok.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|end|> $A <|end|>", pair="<|end|> $A <|end|> $B:1 <|end|>:1", special_tokens=[("<|end|>", end)]
    )


def with_normalizer(tok: Any) -> None:
    normalizers = tokenizers.normalizers
    tok.backend_tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])


def with_added_tokens(tok: Any) -> None:
    tok.add_tokens(["fox", "quick brown"])
    tok.add_special_tokens({"additional_special_tokens": ["<|user|>"]})


def with_left_sides(tok: Any) -> None:
    tok.padding_side = tok.truncation_side = "left"


def with_types(tok: Any) -> None:
    tok.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    tok.model_max_length = 30


KINDS = [None, with_template, with_normalizer, with_added_tokens, with_left_sides, with_types]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.__name__ if kind else "plain")
def pair(request: pytest.FixtureRequest, folder: Path) -> tuple[Any, Any]:
    """A tokenizer of transformers, and the accelerated one."""
    tok = transformers.PreTrainedTokenizerFast.from_pretrained(folder, pad_token="<|end|>", chat_template=TEMPLATE)
    if request.param:
        request.param(tok)
    return tok, accelerate(copy.deepcopy(tok))


TEXTS = [
    *made_texts(12, seed=3),
    "",
    "a<|end|>b<|user|> fox",
    "The QUICK brown fox",
    "e\u0301 naïve 🦀",
    "\n\n  <|end|>",
]

# Every combination of these is tried.
OPTIONS: dict[str, list[Any]] = {
    "add_special_tokens": [True, False],
    "padding": [False, True, "max_length"],
    "truncation": [False, True, "only_first"],
    "max_length": [None, 1, 9, 40],
    "return_tensors": [None, "np"],
}

# Some of these are added by chance.
MORE: dict[str, list[Any]] = {
    "pad_to_multiple_of": [8],
    "padding_side": ["left", "right"],
    "split_special_tokens": [True],
    "return_token_type_ids": [True, False],
    "return_attention_mask": [True, False],
    "return_offsets_mapping": [True],
    "return_special_tokens_mask": [True],
    "return_length": [True],
    "return_overflowing_tokens": [True],
    "stride": [2],
    "verbose": [False],
    "text_pair": [None],
}


def test_results_are_equal_in_every_combination(pair: tuple[Any, Any]) -> None:
    draw = random.Random(11)
    compared = 0
    for values in itertools.product(*OPTIONS.values()):
        options = dict(zip(OPTIONS, values))
        for name in draw.sample(sorted(MORE), k=draw.choice([0, 0, 1, 2, 3])):
            options[name] = draw.choice(MORE[name])
        texts: Any = draw.choice([TEXTS, draw.sample(TEXTS, k=3), [draw.choice(TEXTS)], draw.choice(TEXTS)])
        if "text_pair" in options:
            options["text_pair"] = texts[::-1] if isinstance(texts, list) else "the other"
        expected, found = (outcome(tok, texts, options) for tok in pair)
        assert found == expected, (texts, options)
        compared += isinstance(expected, dict)
    assert compared > 100


def outcome(tok: Any, texts: Any, options: dict[str, Any]) -> Any:
    """The fields of a result in their order, with arrays as lists, or the class of the exception."""
    try:
        result = tok(texts, **options)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # With a stride that leaves no room, tokenizers panics, and that is no `Exception`.
        return type(error)
    return {name: plain(values) for name, values in result.items()}


def plain(values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        return [plain(value) for value in values]
    return (str(values.dtype), plain(values.tolist())) if hasattr(values, "tolist") else values


def test_other_calls_are_equal(pair: tuple[Any, Any]) -> None:
    tok, fast = pair
    text = "The quick<|end|> naïve fox"
    chat = [{"role": "user", "content": "the fox?"}, {"role": "assistant", "content": "a quick <|end|> fox"}]
    for call in [
        lambda t: t.encode(text),
        lambda t: t.encode(text, add_special_tokens=False),
        lambda t: t.tokenize(text),
        lambda t: (t(TEXTS).is_fast, t(TEXTS).n_sequences, t(TEXTS).tokens(1), t(TEXTS).word_ids(2)),
        lambda t: t(text, padding="max_length", max_length=40, truncation=True).char_to_token(5),
        lambda t: [encoding.offsets for encoding in t(TEXTS).encodings],
        lambda t: pickle.loads(pickle.dumps(t(TEXTS))).data,
        lambda t: t.decode(t.encode(text), skip_special_tokens=True),
        lambda t: t.batch_decode(t(TEXTS).input_ids),
        lambda t: t(text="fox", text_target="the fox").data,
        lambda t: t(["the", "fox"], is_split_into_words=True).data,
        lambda t: t([["the", "fox"], ["a"]], is_split_into_words=True).word_ids(0),
        lambda t: t([("the", "fox"), ("a", "b")]).data,
        lambda t: t([]).data,
        lambda t: t(5),
        lambda t: t(["a", None]),
        lambda t: t("a\ud800"),
        lambda t: t.pad(t(["a", "the fox"]), padding=True).data,
        lambda t: dict(t.apply_chat_template(chat, tokenize=True, return_dict=True)),
        lambda t: t.apply_chat_template(chat, tokenize=False),
        lambda t: dict(t.apply_chat_template([chat, chat[:1]], padding=True, truncation=True, max_length=12)),
        lambda t: (len(t), t.vocab_size, t.get_vocab(), t.all_special_ids),
        lambda t: t.num_special_tokens_to_add(),
    ]:
        expected, found = (result(call, t) for t in (tok, fast))
        assert found == expected


def result(call: Any, tok: Any) -> Any:
    try:
        return call(tok)
    except Exception as error:
        return type(error)


def test_it_is_saved_pickled_and_copied(pair: tuple[Any, Any], tmp_path: Path) -> None:
    tok, fast = pair
    expected = tok(TEXTS).data
    fast.save_pretrained(tmp_path / "fast")
    tok.save_pretrained(tmp_path / "tok")
    for file in (tmp_path / "tok").iterdir():
        assert (tmp_path / "fast" / file.name).read_bytes() == file.read_bytes(), file.name
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "fast")(TEXTS).input_ids == expected["input_ids"]
    for again in [pickle.loads(pickle.dumps(fast)), copy.deepcopy(fast), copy.copy(fast)]:
        assert again(TEXTS).data == expected
        assert isinstance(again, type(fast).__mro__[2])


def test_workers_of_datasets_map_give_the_same(pair: tuple[Any, Any], tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    rows = datasets.Dataset.from_dict({"text": TEXTS * 3})
    tok, fast = pair
    made = [
        rows.map(
            lambda batch, t=t: t(batch["text"], truncation=True, max_length=20),
            batched=True,
            batch_size=7,
            num_proc=workers,
            cache_file_name=str(tmp_path / f"{workers}.arrow"),
            new_fingerprint=f"rows{workers}",
        )
        for t, workers in [(tok, None), (fast, 2)]
    ]
    assert made[0]["input_ids"] == made[1]["input_ids"]
    assert made[0].features == made[1].features


def test_tokens_added_later_are_found(folder: Path) -> None:
    tok = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    fast = accelerate(tok)
    assert accelerate(fast) is fast
    for t in (tok, fast):
        t.add_tokens(["fox"])
    assert fast(TEXTS).data == tok(TEXTS).data


def test_what_tokenmill_does_not_reproduce_is_refused(tmp_path: Path) -> None:
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    with pytest.raises(errors.TokenmillError):
        accelerate(transformers.PreTrainedTokenizerFast(tokenizer_object=words))


def test_a_tokenizer_becomes_one_of_transformers(tokenizer: Tokenizer) -> None:
    assert accelerate(tokenizer.to_transformers())(TEXTS).input_ids == tokenizer.with_special("allow").encode_batch(
        TEXTS
    )
