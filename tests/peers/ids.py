"""Checks that other programs, with our tokenizer files, give the same ids as our encoder."""

import json

import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tokenizers import Tokenizer
from transformers import AutoTokenizer

import strings
from program import SPECIAL

SPLITS = [
    "none", "gpt2", "gpt4", "cl100k", "o200k", "nanochat", "qwen2", "deepseek-v3",
    "gpt4-digits-rtl", "o200k-digits-rtl", "o200k-digit", "superword",
]  # fmt: skip
VOCAB_SIZE = 3_000


def check(setting):
    corpus = setting.scratch / "varied.jsonl"
    with corpus.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps({"text": text}) + "\n" for text in training_strings(setting))
    for split in SPLITS:
        folder = setting.train(
            f"ids-{split}", corpus, "--vocab-size", VOCAB_SIZE, "--split", split,
            "--special-token", SPECIAL, "--formats", "hf,tiktoken",
        )  # fmt: skip
        for special in (False, True):
            documents = strings.varied(with_specials=True)
            policy = "allow" if special else "text"
            ours = setting.encode(f"ids-{split}-{policy}", documents, folder, "--special", policy)
            assert len(ours) == len(documents), f"{len(ours)} rows for {len(documents)} documents"
            for peer, theirs in peers(folder, documents, special):
                equal(f"split {split}, specials {policy}, {peer}", documents, ours, theirs)
                yield f"split {split}, special tokens as {policy}: {len(ours)} strings equal in {peer}"


def training_strings(setting):
    """Mixed strings and some real text, so that both words and rare scripts get merges."""
    text = next(setting.texts[0].documents())[:300_000]
    return strings.varied(with_specials=False) + text.splitlines(keepends=True)


def peers(folder, documents, special):
    yield "tokenizers", huggingface(folder, documents, special)
    yield "transformers", auto_tokenizer(folder, documents, special)
    yield "tiktoken", tik_token(folder, documents, special)


def huggingface(folder, documents, special):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = not special
    return [encoding.ids for encoding in tokenizer.encode_batch(documents, add_special_tokens=False)]


def auto_tokenizer(folder, documents, special):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(documents, add_special_tokens=False, split_special_tokens=not special)
    return encoded["input_ids"]


def tik_token(folder, documents, special):
    path = next(folder.glob("*.tiktoken"))
    sidecar = json.loads(path.with_name(path.name + ".json").read_text(encoding="utf-8"))
    encoding = tiktoken.Encoding(mergeable_ranks=load_tiktoken_bpe(str(path)), **sidecar)
    if special:
        return [encoding.encode(text, allowed_special="all") for text in documents]
    return [encoding.encode_ordinary(text) for text in documents]


def equal(what, documents, ours, theirs):
    for text, our, their in zip(documents, ours, theirs, strict=True):
        assert our == list(their), f"{what}: {text[:200]!r}\nours   {our[:50]}\ntheirs {their[:50]}"
