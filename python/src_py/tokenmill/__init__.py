"""Trains byte-level BPE tokenizers, and encodes texts and Arrow data into token ids."""

from tokenmill import errors
from tokenmill._core import ArrowStream, Counts, DecodeStream, Tokenizer, __version__, get_encoding
from tokenmill._jobs import encode, merge, plan, run
from tokenmill._train import count, merge_counts, train, train_from_iterator

__all__ = [
    "ArrowStream",
    "Counts",
    "DecodeStream",
    "Tokenizer",
    "__version__",
    "count",
    "encode",
    "errors",
    "get_encoding",
    "merge",
    "merge_counts",
    "plan",
    "run",
    "train",
    "train_from_iterator",
]
