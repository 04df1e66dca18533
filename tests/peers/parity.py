"""Checks that parity-aware merges equal those of Hugging Face's trainer, with all of its options."""

import json
import random
import subprocess
from collections import Counter

import regex

from merges import BYTE_OF_CHARACTER, GPT2
from program import merges

MERGES = 600
# No pair is longer than the trainer there allows, so that its greatest length, in bytes, is ours plus one.
MAX_TOKEN_BYTES = 6

CHARACTER_OF_BYTE = {byte: character for character, byte in BYTE_OF_CHARACTER.items()}


def check(setting):
    if setting.parity_peer is None:
        yield "left out, no program with the trainer is named"
        return
    for name, sources, development in mixtures():
        folder = setting.scratch / f"parity-{name}"
        folder.mkdir()
        files = [written(folder / f"{number}.txt", text) for number, text in enumerate(sources)]
        dev_files = [written(folder / f"{number}.dev.txt", text) for number, text in enumerate(development)]
        developed = [argument for file in dev_files for argument in ("--development", file)]
        ratio = [1 + number / 4 for number in range(len(sources))]
        window = {"window": 25, "alpha": 1.5}
        for options, flags, with_development in [
            ({}, [], False),
            ({}, developed, True),
            ({"ratio": ratio}, ["--ratio", ",".join(map(str, ratio))], False),
            (window, ["--window", 25, "--alpha", 1.5, *developed], True),
            ({**window, "ratio": ratio}, ["--window", 25, "--alpha", 1.5, "--ratio", ",".join(map(str, ratio))], False),
            ({"global_merges": 80}, ["--global-merges", 80], False),
            ({"min_frequency": 4}, ["--min-frequency", 4], False),
            ({"max_token_length": MAX_TOKEN_BYTES + 1}, ["--max-token-bytes", MAX_TOKEN_BYTES], False),
        ]:
            ours = trained(setting, folder / "tokenizer", files, options, flags)
            theirs = by_peer(setting, sources, development if with_development else [], options)
            what = f"{name}, {', '.join([*options, *['development'] * with_development]) or 'defaults'}"
            for place, (our, their) in enumerate(zip(ours, theirs)):
                assert our == their, f"{what}: merge {place} is {our!r}, theirs {their!r}"
            assert len(ours) == len(theirs), f"{what}: {len(ours)} merges, theirs {len(theirs)}"
            yield f"{what}: {len(ours)} merges equal"


def mixtures():
    """Names, texts of the sources, and development texts: scripts of several bytes, of one byte, and long runs."""
    alphabets = ["abcdefgh", "абвгдежз", "日月火水木金土"]
    yield "scripts", *drawn(1, alphabets, [3000, 900, 1800])
    yield "latin", *drawn(2, ["etaoin", "shrdlu", "etaoinshrdlu", "ETAOIN"], [2000, 2500, 400, 1200])
    yield "runs", *drawn(3, ["a", "ab", "aα"], [60, 300, 200])


def drawn(seed, alphabets, sizes):
    chance = random.Random(seed)

    def text(alphabet, size):
        # Few words are frequent, as in languages, and ties are common.
        words = ["".join(chance.choices(alphabet, k=chance.randint(1, 9))) for _ in range(size // 8 + 5)]
        return " ".join(words[int(len(words) * chance.random() ** 3)] for _ in range(size))

    sources = [text(alphabet, size) for alphabet, size in zip(alphabets, sizes)]
    return sources, [text(alphabet, 60) for alphabet in alphabets]


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def trained(setting, folder, files, options, flags):
    setting.run(
        "train", *files, "-o", folder, "--merges", MERGES, "--split", "gpt2", "--parity",
        "--tie-break", "alphabet-greatest", *([] if "min_frequency" in options else ["--min-frequency", 1]), *flags,
    )  # fmt: skip
    return [" ".join(pair) for pair in merges((folder / "tokenizer.json").read_text(encoding="utf-8"))]


def by_peer(setting, sources, development, options):
    job = {"merges": MERGES, "min_frequency": 1, "alpha": 2.0, "global_merges": 0, **options}
    job |= {"sources": list(map(words, sources)), "development": list(map(words, development))}
    done = subprocess.run([setting.parity_peer], input=json.dumps(job), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def words(text):
    spelled = ("".join(CHARACTER_OF_BYTE[byte] for byte in word.encode("utf-8")) for word in regex.findall(GPT2, text))
    return Counter(spelled)
