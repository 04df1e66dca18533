"""tiktoken's encodings from tokenizers, and the reverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tokenmill._core import Tokenizer

if TYPE_CHECKING:
    import tiktoken


def as_tiktoken(tokenizer: Tokenizer, name: str = "tokenmill") -> tiktoken.Encoding:
    """Makes an encoding of tiktoken that gives the same ids.

    Raises:
        UsageError: Ranks and one regular expression cannot express what the tokenizer does.
    """
    import tiktoken

    return tiktoken.Encoding(
        name,
        pat_str=tokenizer.get_pattern(),
        mergeable_ranks=dict(tokenizer.get_mergeable_ranks()),
        special_tokens=tokenizer.special_tokens,
    )


def from_tiktoken(encoding: tiktoken.Encoding, special: Literal["text", "allow", "forbid"] = "text") -> Tokenizer:
    """Makes a tokenizer that gives the ids of an encoding of tiktoken."""
    return Tokenizer.from_ranks(
        encoding._pat_str,
        list(encoding._mergeable_ranks.items()),
        list(encoding._special_tokens.items()),
        special=special,
    )
