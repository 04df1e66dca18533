"""Checks that tokenizers of other programs give the same ids here: files with the structures of known models against
tokenizers, and OpenAI's rank files, if they are available, against tiktoken."""

import json
import random
import shutil
import unicodedata
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import tiktoken
import tiktoken_ext.openai_public as openai
from tiktoken.load import load_tiktoken_bpe
from tokenizers import Tokenizer

import families
import strings
from ids import equal, training_strings

VOCAB_SIZE = 2_000
REAL_BYTES = 1_000_000
RANKS = ["r50k_base", "p50k_base", "cl100k_base", "o200k_base"]
PROCESSES = 2


def check(setting):
    corpus = setting.scratch / "foreign.jsonl"
    with corpus.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps({"text": text}) + "\n" for text in training_strings(setting))
    folder = setting.train("foreign-merges", corpus, "--vocab-size", VOCAB_SIZE, "--split", "gpt4")
    trained = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    texts = varied() + real(setting)
    with ProcessPoolExecutor(PROCESSES) as pool:
        yield from pool.map(partial(compare, setting, trained, texts), families.families())
    yield from rank_files(setting, texts)


def compare(setting, trained, texts, named):
    name, family = named
    path = setting.scratch / f"foreign-{name.replace(' ', '-')}" / "tokenizer.json"
    path.parent.mkdir()
    path.write_text(json.dumps(families.file(trained, family)), encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(path))
    documents = with_added(texts, [token["content"] for token in family["added"]])
    lacks = family.get("lacks", b"")
    missing = ["--missing-bytes", "hf"] if lacks else []
    for policy in ("text", "allow"):
        ours = setting.encode(f"{path.parent.name}-{policy}", documents, path.parent, "--special", policy, *missing)
        tokenizer.encode_special_tokens = policy == "text"
        theirs = [encoding.ids for encoding in tokenizer.encode_batch(documents, add_special_tokens=False)]
        equal(f"{name}, specials {policy}", documents, ours, theirs)
    if lacks:
        # Strings that have a token for every byte are encoded without the flag for missing bytes.
        places = [at for at, text in enumerate(documents) if not set(text.encode()) & set(lacks)]
        whole = [documents[at] for at in places]
        ours = setting.encode(f"{path.parent.name}-whole", whole, path.parent, "--special", "allow")
        equal(f"{name}, bytes with tokens", whole, ours, [theirs[at] for at in places])
        without = f", {len(documents) - len(whole)} of them with bytes that have no token"
    else:
        without = ""
    return f"{name}: {len(documents)} strings equal in tokenizers, special tokens as text and found{without}"


def varied():
    """Varied strings, some of them decomposed or with combining marks inserted, so that normalization changes them."""
    chance = random.Random(strings.SEED)
    marks = [chr(code) for code in strings.CODE_POINTS if unicodedata.combining(chr(code))]
    # Marks added after Unicode 9, parts of Korean syllables, and letters that normalize to other letters.
    marks += list("\u1df6\u1df9\u0898\u10efd\u1161\u11a8\u1100\u212b\u2126\u0958\ufb2a\u0344\uf900")

    def changed(text):
        if chance.random() < 0.3:
            text = unicodedata.normalize("NFD", text)
        for _ in range(chance.choice([0, 0, 0, 1, 3])):
            place = chance.randint(0, len(text))
            text = text[:place] + "".join(chance.choices(marks, k=chance.randint(1, 4))) + text[place:]
        return text

    return [changed(text) for text in strings.varied(with_specials=False)]


def real(setting):
    if setting.corpora is None:
        return []
    text = next(setting.texts[0].documents())[:REAL_BYTES]
    return [text[at : at + 10_000] for at in range(0, len(text), 10_000)]


def with_added(texts, tokens):
    """Inserts added tokens and fragments of them into most texts, with and without white space around them."""
    chance = random.Random(strings.SEED)

    def inserted():
        token = chance.choice(tokens)
        if chance.random() < 0.2:
            token = token[chance.randrange(len(token)) :] or token[:-1]
        return chance.choice(["", "", " ", "\n", "\u00a0 ", "a"]) + token + chance.choice(["", "", " ", "  \n", "é", "_"])

    def changed(text):
        for _ in range(chance.choice([0, 1, 1, 2, 4])):
            place = chance.randint(0, len(text))
            text = text[:place] + inserted() + text[place:]
        return text

    return [changed(text) for text in texts]


def rank_files(setting, texts):
    paths = rank_paths()
    if not paths:
        yield "OpenAI's rank files: left out, no crate tiktoken-rs is unpacked in cargo's registry"
        return
    openai.load_tiktoken_bpe = lambda url, **_: load_tiktoken_bpe(str(paths[0].with_name(url.rsplit("/", 1)[-1])))
    for known in paths:
        name, path = known.stem, setting.scratch / f"foreign-{known.stem}" / known.name
        path.parent.mkdir()
        shutil.copyfile(known, path)
        encoding = tiktoken.Encoding(**getattr(openai, name)())
        documents = with_added(texts, sorted(encoding.special_tokens_set))
        for policy in ("text", "allow"):
            ours = setting.encode(f"foreign-{name}-{policy}", documents, path, "--special", policy)
            encode = encoding.encode_ordinary if policy == "text" else lambda text: encoding.encode(text, allowed_special="all")
            equal(f"{name}, specials {policy}", documents, ours, map(encode, documents))
        yield f"{name}: {len(documents)} strings equal in tiktoken, special tokens as text and found"


def rank_paths():
    """OpenAI's rank files, if cargo has unpacked a crate that contains them."""
    assets = sorted(Path.home().glob(".cargo/registry/src/*/tiktoken-rs-*/assets"))
    return [assets[-1] / f"{name}.tiktoken" for name in RANKS] if assets else []
