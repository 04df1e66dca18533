"""Tokenizers of transformers from those of tokenmill, and those of transformers that encode with tokenmill."""

from __future__ import annotations

import copy
from functools import lru_cache
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tokenmill._core import Tokenizer
from tokenmill.errors import TokenmillError, UsageError

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedTokenizerFast


def to_transformers(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """Makes a tokenizer of transformers with the same ids and settings.

    Args:
        tokenizer: The tokenizer.

    Raises:
        TokenmillError: A ``tokenizer.json`` cannot express the tokenizer.
    """
    from transformers import PreTrainedTokenizerFast

    with TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        made: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder)
    return made


def accelerate(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """Makes a copy of a tokenizer of transformers that encodes plain texts with tokenmill.

    The results are equal. Pairs, offsets, overflowing tokens and the like are encoded as before, and so is a text whose
    ``encodings`` are asked for, which the methods of a result on tokens, words and characters need. A result that was
    pickled has none.

    Args:
        tokenizer: A fast tokenizer of transformers. It stays as it is. The copy has the same class, in a subclass, and
            can be pickled, saved and extended as the original can.

    Raises:
        TokenmillError: The tokenizer has a part that tokenmill does not reproduce.

    Example:
        >>> from tokenmill.compat import hf
        >>> original = tokenizer.to_transformers()
        >>> hf.accelerate(original)("a woodchuck").input_ids
        [97, 268]
    """
    base = type(tokenizer)
    if issubclass(base, _Accelerated):
        return tokenizer
    made = copy.deepcopy(tokenizer)
    made.__class__ = type(base.__name__, (_Accelerated, base), {"__module__": base.__module__})
    made._prepare_tokenmill()
    return made


def ids_around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The ids that a tokenizer of the library tokenizers puts before and after those of a text.

    Args:
        tokenizer: The tokenizer.

    Raises:
        TokenmillError: It also changes the ids of the text.
    """
    plain = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    starts = (at for at in range(len(whole)) if whole[at : at + len(plain)] == plain)
    start = next(starts, None)
    if start is None:
        raise TokenmillError("the tokenizer changes the ids of a text when it adds special tokens")
    return whole[:start], whole[start + len(plain) :]


class _Accelerated:
    """What the copy does in its own way. It comes before the class of the tokenizer."""

    # Options that only the original handles.
    _ORIGINAL_ONLY = (
        "text_pair",
        "is_split_into_words",
        "return_overflowing_tokens",
        "return_special_tokens_mask",
        "return_offsets_mapping",
        "return_length",
        "sanitize_control_tokens",
        "stride",
    )

    _tokenizer: Any
    split_special_tokens: bool
    truncation_side: str
    model_input_names: list[str]

    def _prepare_tokenmill(self) -> None:
        """Makes the tokenizers that encode, and finds the tokens that are added around a text."""
        # An earlier call may have left these set. Every call of the original sets them as it needs them.
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenmill_size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        allowing = Tokenizer.from_str(self._tokenizer.to_str(), special="allow")
        self._tokenmill = {False: allowing, True: allowing.with_special("text")}
        self._tokenmill_around = ids_around(self._tokenizer)

    def __reduce__(self) -> Any:
        """Pickles the original, since this class is made while the program runs."""
        base: Any = type(self).__mro__[2]
        original = base.__new__(base)
        own = ("_tokenmill", "_tokenmill_size", "_tokenmill_around")
        original.__dict__.update((name, value) for name, value in self.__dict__.items() if name not in own)
        return accelerate, (original,)

    def _encode_plus(self, text: Any, *arguments: Any, **options: Any) -> BatchEncoding:
        """Encodes with tokenmill, or as before."""
        if arguments or any(options.get(name) for name in self._ORIGINAL_ONLY) or not _is_plain(text):
            return self._as_before(text, *arguments, **options)
        before, after = self._tokenmill_around if options.get("add_special_tokens", True) else ([], [])
        room = self._room(options, len(before) + len(after))
        if room is None:
            return self._as_before(text, **options)
        if self._tokenizer.get_vocab_size(with_added_tokens=True) != self._tokenmill_size:
            self._prepare_tokenmill()
        split = options.get("split_special_tokens")
        tokenizer = self._tokenmill[bool(self.split_special_tokens if split is None else split)]
        is_batch = isinstance(text, (list, tuple))
        try:
            rows = tokenizer.encode_batch(text) if is_batch else [tokenizer.encode(text)]
        except UsageError:
            # Half of a surrogate pair: the error should be that of the original.
            return self._as_before(text, **options)
        if before or after or room >= 0:
            rows = [before + (row[:room] if room >= 0 else row) + after for row in rows]
        result = self._as_result(rows, is_batch, options)
        result._encode = lambda: self._as_before(text, **options).encodings
        return result

    def _as_before(self, *arguments: Any, **options: Any) -> BatchEncoding:
        """Encodes as the original does."""
        result: BatchEncoding = super()._encode_plus(*arguments, **options)  # type: ignore[misc]
        return result

    def _room(self, options: dict[str, Any], around: int) -> int | None:
        """The most ids of a text without those around it, -1 for no limit; ``None`` if only the original can say."""
        strategy = getattr(options.get("truncation_strategy"), "value", "do_not_truncate")
        max_length = options.get("max_length")
        if strategy == "do_not_truncate" or max_length is None:
            return -1
        is_simple = strategy in ("longest_first", "only_first") and self.truncation_side == "right"
        return max_length - around if is_simple and max_length > around else None

    def _as_result(self, rows: list[list[int]], is_batch: bool, options: dict[str, Any]) -> Any:
        """The result as transformers gives it: with masks, padded, and as tensors if that is asked for."""
        me: Any = self
        data: dict[str, Any] = {"input_ids": rows}
        if _wanted(options, "token_type_ids", self.model_input_names):
            data["token_type_ids"] = [[0] * len(row) for row in rows]
        if _wanted(options, "attention_mask", self.model_input_names):
            data["attention_mask"] = [[1] * len(row) for row in rows]
        for row in rows:
            me._eventual_warn_about_too_long_sequence(row, options.get("max_length"), options.get("verbose", True))
        padding = getattr(options.get("padding_strategy"), "value", "do_not_pad")
        if padding != "do_not_pad":
            names = ("max_length", "pad_to_multiple_of", "padding_side", "return_attention_mask")
            data = me.pad(data, padding=padding, **{name: options.get(name) for name in names}).data
        tensors = options.get("return_tensors")
        if not is_batch and tensors is None:
            data = {name: values[0] for name, values in data.items()}
        return _result_class()(data, tensor_type=tensors, n_sequences=1)


@lru_cache(maxsize=1)
def _result_class() -> Any:
    """The class of results. It is made when it is needed, since importing transformers takes seconds."""
    from transformers import BatchEncoding

    class Result(BatchEncoding):
        """A result whose encodings are made by the original when they are asked for."""

        _encode: Any = None
        _made: Any = None

        @property
        def _encodings(self) -> Any:
            if self._made is None and self._encode is not None:
                self._made = self._encode()
            return self._made

        @_encodings.setter
        def _encodings(self, encodings: Any) -> None:
            self._made = encodings

        @property
        def is_fast(self) -> bool:
            return True

        def __reduce__(self) -> Any:
            return BatchEncoding, (self.data,)

    return Result


def _is_plain(text: Any) -> bool:
    """Whether this is a text, or a list of texts that is not empty."""
    if isinstance(text, (list, tuple)):
        return len(text) > 0 and all(isinstance(one, str) for one in text)
    return isinstance(text, str)


def _wanted(options: dict[str, Any], name: str, names: list[str]) -> bool:
    """Whether the result should have this field."""
    wanted = options.get(f"return_{name}")
    return name in names if wanted is None else bool(wanted)
