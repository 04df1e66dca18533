"""Checks tokenizers that `convert` made smaller: they have the tokens and merges that the obvious way leaves, and give
the same ids in tokenizers."""

import json
import random

from tokenizers import Tokenizer

import strings
from foreign import rank_paths
from ids import equal, training_strings
from program import SPECIAL, byte_of_character, merges

VOCAB_SIZE = 4_000
DROPPED = 60
OPENAI = ["r50k_base", "cl100k_base"]


def check(setting):
    documents = strings.varied(with_specials=True)[::2]
    for name, tokenizer in tokenizers(setting):
        whole = folder(setting, f"edited-{name}", tokenizer)
        size = len(model(whole)["vocab"]) * 2 // 3
        chosen = chosen_tokens(whole)
        (setting.scratch / f"edited-{name}.txt").write_bytes("".join(lines(whole, chosen)).encode())
        edits = {
            "shortened": (["--vocab-size", size], first_merges(whole, size)),
            "without tokens": (["--drop-tokens", f"edited-{name}.txt"], without(whole, chosen)),
        }
        for edit, (flags, expected) in edits.items():
            for ids in ("keep", "dense"):
                made = folder(setting, f"edited-{name}-{edit.replace(' ', '-')}-{ids}", whole, *flags, "--ids", ids)
                assert_same(whole, made, expected, ids)
                ours = setting.encode(f"{made.name}-ids", documents, made, "--special", "allow")
                theirs = Tokenizer.from_file(str(made / "tokenizer.json"))
                theirs = [encoding.ids for encoding in theirs.encode_batch(documents, add_special_tokens=False)]
                equal(f"{name} {edit}, ids {ids}", documents, ours, theirs)
            left = len(expected[0])
            yield f"{name} {edit}, {left} tokens left, ids kept and dense: {len(documents)} strings equal in tokenizers"


def tokenizers(setting):
    """An own tokenizer, and OpenAI's rank files if cargo has unpacked a crate with them."""
    corpus = setting.scratch / "edited.jsonl"
    with corpus.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in training_strings(setting))
    yield "own", setting.train("edited-trained", corpus, "--vocab-size", VOCAB_SIZE, "--special-token", SPECIAL)
    for path in rank_paths():
        if path.stem in OPENAI:
            yield path.stem, path


def folder(setting, name, tokenizer, *flags):
    made = setting.scratch / name
    setting.run("convert", tokenizer, "--to", "hf", "-o", made, "--quiet", *flags)
    return made


def model(tokenizer):
    return json.loads((tokenizer / "tokenizer.json").read_text(encoding="utf-8"))["model"]


def pairs(tokenizer):
    return merges((tokenizer / "tokenizer.json").read_bytes())


def first_merges(tokenizer, size):
    """The tokens and merges that are left of the first merges."""
    made = {left + right for left, right in pairs(tokenizer)}
    stay = set(model(tokenizer)["vocab"]) - made
    kept = pairs(tokenizer)[: size - len(stay)]
    return stay | {left + right for left, right in kept}, kept


def without(tokenizer, dropped):
    """The tokens and merges that are left without some tokens: again and again, merges go that lack a token, and tokens
    that lack a merge."""
    tokens, kept = set(model(tokenizer)["vocab"]) - set(dropped), pairs(tokenizer)
    while True:
        left = [(one, other) for one, other in kept if {one, other, one + other} <= tokens]
        lost = {one + other for one, other in kept} - {one + other for one, other in left}
        if len(left) == len(kept):
            return tokens, kept
        tokens, kept = tokens - lost, left


def chosen_tokens(tokenizer):
    made = sorted({left + right for left, right in pairs(tokenizer)})
    return random.Random(strings.SEED).sample(made, DROPPED)


def lines(tokenizer, tokens):
    """The lines of a list for `--drop-tokens`: ids, texts, and JSON strings."""
    vocab, byte_of = model(tokenizer)["vocab"], byte_of_character()
    for number, token in enumerate(tokens):
        data = bytes(byte_of[character] for character in token)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = None
        if text is None or number % 3 == 0:
            yield f"{vocab[token]}\n"
        elif number % 3 == 1 or text.isdigit() or text.startswith('"') or "\n" in text or "\r" in text:
            yield json.dumps(text) + "\r\n"
        else:
            yield f"{text}\n"


def assert_same(whole, made, expected, ids):
    before, after = model(whole)["vocab"], model(made)["vocab"]
    tokens, kept = expected
    assert set(after) == tokens, f"{made}: {sorted(set(after) ^ tokens)[:10]}"
    assert pairs(made) == kept, f"{made}: other merges"
    order = sorted(tokens, key=before.get)
    numbers = {token: before[token] if ids == "keep" else at for at, token in enumerate(order)}
    assert after == numbers, f"{made}: other ids"
