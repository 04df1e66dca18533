"""nanochat's tokenizer, trained and used with tokenmill instead of rustbpe and tiktoken.

In ``nanochat/tokenizer.py``, replace ``import tiktoken`` by ``from tokenmill.compat import tiktoken`` and
``import rustbpe`` by ``import tokenmill``. In ``RustBPETokenizer.train_from_iterator``, make the encoding by ``train``
below. Everything else stays as it is, and so does ``scripts/tok_train.py``. The ids are the same.

Run: python nanochat.py
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path

import tokenmill
from tokenmill.compat import tiktoken

SPECIAL_TOKENS = [
    "<|bos|>",
    *("<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>"),
    *("<|python_start|>", "<|python_end|>", "<|output_start|>", "<|output_end|>"),
]


def train(texts: Iterable[str], vocab_size: int) -> tiktoken.Encoding:
    """Trains with nanochat's split pattern. The special tokens get the last ids, as nanochat numbers them."""
    tokenizer = tokenmill.train_from_iterator(texts, vocab_size, split="nanochat", special_tokens=SPECIAL_TOKENS)
    return tiktoken.Encoding.from_tokenizer(tokenizer, "nanochat")


def train_as_before(texts: Iterable[str], vocab_size: int) -> tiktoken.Encoding:
    """Trains with the calls that nanochat has, if you would rather change only the names of the packages."""
    learned = tokenmill.train_from_iterator(texts, vocab_size - len(SPECIAL_TOKENS), split="nanochat")
    ranks = dict(learned.get_mergeable_ranks())
    specials = {text: len(ranks) + at for at, text in enumerate(SPECIAL_TOKENS)}
    return tiktoken.Encoding("nanochat", pat_str=learned.get_pattern(), mergeable_ranks=ranks, special_tokens=specials)


def save(encoding: tiktoken.Encoding, folder: Path) -> None:
    """Writes the file that nanochat loads, and the number of bytes of each token, 0 for special tokens.

    nanochat wants the numbers as a tensor: ``torch.save(torch.tensor(sizes, dtype=torch.int32), path)``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.pkl").write_bytes(pickle.dumps(encoding))
    ids = range(encoding.n_vocab)
    sizes = [0 if encoding.is_special_token(id) else len(encoding.decode_single_token_bytes(id)) for id in ids]
    (folder / "token_bytes.pkl").write_bytes(pickle.dumps(sizes))


def load(folder: Path) -> tiktoken.Encoding:
    """Loads what ``save`` has written."""
    encoding: tiktoken.Encoding = pickle.loads((folder / "tokenizer.pkl").read_bytes())
    return encoding


def documents() -> Iterator[str]:
    """Stands for nanochat's texts, which it reads from Parquet files in batches."""
    for number in range(2000):
        yield f"Document {number}: {number * 7919} people say that it's true, and {number % 13} that it isn't.\n"


def main() -> None:
    """Trains, saves, loads and encodes."""
    encoding = train(documents(), 400)
    assert encoding.encode_ordinary("people say") == train_as_before(documents(), 400).encode_ordinary("people say")
    save(encoding, Path("tokenizer"))
    loaded = load(Path("tokenizer"))
    bos = loaded.encode_single_token("<|bos|>")
    rows = loaded.encode_ordinary_batch(["It's true.", "13 people"], num_threads=2)
    print([[bos, *row] for row in rows])
    print(loaded.decode([bos, *rows[1]]))


if __name__ == "__main__":
    main()
