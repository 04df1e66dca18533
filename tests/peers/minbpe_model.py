"""Checks that minbpe can load our minbpe files and gives the same ids.

minbpe is not in a package registry, so its loader and its encoder are reproduced here:
`Tokenizer.load` of minbpe/base.py, and the merging of minbpe/basic.py and minbpe/regex.py.
"""

import itertools

import regex

import strings
from program import SPECIAL

VOCAB_SIZE = 1_000
LONGEST = 400


def check(setting):
    texts = [text for text in strings.varied(with_specials=True) if len(text) <= LONGEST][::25]
    for split in ("none", "gpt4"):
        for specials in ([], [SPECIAL]):
            name = f"minbpe-{split}-{len(specials)}"
            flags = itertools.chain.from_iterable(("--special-token", token) for token in specials)
            folder = setting.train(
                name, *setting.texts[0].arguments(), "--vocab-size", VOCAB_SIZE, "--split", split,
                "--tie-break", "first", "--formats", "hf,minbpe", *flags,
            )  # fmt: skip
            pattern, special_tokens, merges = load(next(folder.glob("*.model")))
            learned = VOCAB_SIZE - 256 - len(specials)
            assert len(merges) == learned, f"{len(merges)} merges"
            assert special_tokens == {token: 256 + learned for token in specials}, special_tokens
            ours = setting.encode(f"{name}-ids", texts, folder)
            for text, ids in zip(texts, ours, strict=True):
                chunks = regex.findall(pattern, text) if pattern else [text]
                theirs = [id for chunk in chunks for id in encode_chunk(chunk.encode(), merges)]
                assert ids == theirs, f"split {split}: {text!r}\nours   {ids}\ntheirs {theirs}"
            yield f"split {split}, {len(specials)} special tokens: {learned} merges load, {len(texts)} strings equal"


def load(path):
    special_tokens, merges = {}, {}
    with path.open(encoding="utf-8") as lines:
        assert lines.readline().strip() == "minbpe v1"
        pattern = lines.readline().strip()
        for _ in range(int(lines.readline().strip())):
            special, index = lines.readline().strip().split()
            special_tokens[special] = int(index)
        for index, line in enumerate(lines, start=256):
            left, right = map(int, line.split())
            merges[left, right] = index
    return pattern, special_tokens, merges


def encode_chunk(text, merges):
    ids = list(text)
    while len(ids) >= 2:
        pair = min(zip(ids, ids[1:]), key=lambda pair: merges.get(pair, float("inf")))
        if pair not in merges:
            break
        ids = replaced(ids, pair, merges[pair])
    return ids


def replaced(ids, pair, index):
    merged, at = [], 0
    while at < len(ids):
        here = (ids[at], ids[at + 1]) if at + 1 < len(ids) else None
        merged.append(index if here == pair else ids[at])
        at += 2 if here == pair else 1
    return merged
