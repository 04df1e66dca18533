"""Programs that use transformers or tiktoken, with one line changed.

Run: pip install transformers, then python drop_in.py
"""

from __future__ import annotations

import tempfile

from transformers import AutoTokenizer

import tokenmill
from tokenmill.compat import hf, tiktoken  # for tiktoken, this is the line: it was `import tiktoken`

TEXTS = ["how much wood would a woodchuck chuck", "if a woodchuck could chuck wood?"]


def with_transformers(folder: str) -> list[list[int]]:
    """Encodes with a tokenizer of transformers: a name on the hub, or a folder."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer = hf.accelerate(tokenizer)  # the new line
    ids: list[list[int]] = tokenizer(TEXTS, truncation=True, max_length=6)["input_ids"]
    return ids


def with_tiktoken(encoding: tiktoken.Encoding) -> list[int]:
    """Encodes with an encoding: ``tiktoken.get_encoding("o200k_base")``, ``tiktoken.Encoding(…)``, or an own one."""
    return encoding.encode("a woodchuck<|endoftext|>", allowed_special={"<|endoftext|>"})


def main() -> None:
    """Runs both with a small tokenizer."""
    tokenizer = tokenmill.train_from_iterator(TEXTS, 270, special_tokens=["<|endoftext|>"])
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        print(with_transformers(folder))
    print(with_tiktoken(tiktoken.Encoding.from_tokenizer(tokenizer)))


if __name__ == "__main__":
    main()
