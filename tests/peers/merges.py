"""Checks that merges equal those of other trainers for the same text, split and tie rule."""

import contextlib
import os

import gigatoken
import regex
import rustbpe
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from program import GPT4, byte_of_character, merges

# Smaller vocabularies need no check of their own: their merges are the first of these.
SIZE = 32_000
MIN_FREQUENCY = 2
# Slightly more than Swann's Way has merges for. Beyond that, gigatoken slowly adds pairs that no longer occur.
SIZE_FOR_GIGATOKEN = 26_000

GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def check(setting):
    for text in setting.texts:
        yield against(setting, text, SIZE, "tokenizers", "gpt2", "hf", MIN_FREQUENCY, huggingface)
        yield against(setting, text, SIZE, "rustbpe", "gpt4", "ids", 1, rust_bpe)
        yield against(setting, text, SIZE_FOR_GIGATOKEN, "gigatoken", "gpt2", "ids", 1, giga_token)


def against(setting, text, size, peer, split, tie_break, min_frequency, learn):
    """Compares merge by merge. For peers without a minimum frequency, ours is 1."""
    folder = setting.train(
        f"merges-{peer}-{text.path.stem}-{size}", *text.arguments(), "--vocab-size", size,
        "--split", split, "--tie-break", tie_break, "--min-frequency", min_frequency,
    )  # fmt: skip
    ours = merges((folder / "tokenizer.json").read_text(encoding="utf-8"))
    theirs = learn(text, size)
    if not isinstance(theirs[0], tuple):
        ours = list(map(joined_bytes, ours))
    what = f"{text.name}, vocabulary {size}, split {split}, ties {tie_break}: {peer}"
    for place, (our, their) in enumerate(zip(ours, theirs)):
        assert our == their, f"{what}: merge {place} is {our!r}, theirs {their!r}"
    # gigatoken may have further merges, of pairs that no longer occur. Then our encoding must have no pair left.
    beyond = learn is giga_token and len(theirs) > len(ours)
    alike = nothing_left(setting, text, folder) if beyond else len(ours) == len(theirs)
    assert alike, f"{what}: {len(ours)} merges, theirs {len(theirs)}"
    return f"{what}: {len(ours)} merges equal" + (", then no pair is left" if beyond else "")


BYTE_OF_CHARACTER = byte_of_character()


def joined_bytes(pair):
    return bytes(BYTE_OF_CHARACTER[character] for character in "".join(pair))


def nothing_left(setting, text, folder):
    """Whether each pre-token of the text is encoded as a single token."""
    documents = list(text.documents())
    ids = setting.encode(f"{folder.name}-ids", documents, folder)
    return [len(regex.findall(GPT2, document)) for document in documents] == list(map(len, ids))


def huggingface(text, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, min_frequency=MIN_FREQUENCY, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(text.documents(), trainer)
    return merges(tokenizer.to_str())


def rust_bpe(text, size):
    tokenizer = rustbpe.Tokenizer()
    tokenizer.train_from_iterator(text.documents(), vocab_size=size, pattern=GPT4)
    ranks = sorted(tokenizer.get_mergeable_ranks(), key=lambda entry: entry[1])
    return [bytes(token) for token, _ in ranks[256:]]


def giga_token(text, size):
    if text.column is None:
        separator = {"separator": b"\n\n"} if text.paragraphs else {}
        source = gigatoken.TextFileSource([str(text.path)], **separator)
    else:
        source = gigatoken.ParquetFileSource([str(text.path)], column=text.column)
    with silence():
        _, pairs = gigatoken.train_bpe(source, size, [], tie_breaking="raw_token_ids")
    return [left + right for left, right in pairs]


@contextlib.contextmanager
def silence():
    """Silences gigatoken, which prints its progress without going through Python's streams."""
    kept, nowhere = [os.dup(1), os.dup(2)], os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        for number, stream in enumerate(kept, start=1):
            os.dup2(stream, number)
            os.close(stream)
        os.close(nowhere)
