"""Tokenizers from pickles."""

from __future__ import annotations

from functools import lru_cache

from tokenmill._core import Tokenizer, from_pickle


@lru_cache(maxsize=4)
def restore(json: bytes, settings: str) -> Tokenizer:
    """Makes the tokenizer of a pickle, or gives one that was made in this process from an equal pickle.

    Workers get the same tokenizer with every task, and prepare it once.
    """
    return from_pickle(json, settings)
