r"""tiktoken's calls, answered by tokenmill: ``from tokenmill.compat import tiktoken`` in place of ``import tiktoken``.

``get_encoding``, ``encoding_for_model`` and ``Encoding`` take the same arguments and give the same ids as those of
tiktoken. Also converts between tokenizers and encodings of tiktoken itself.

Example:
    >>> from tokenmill.compat import tiktoken
    >>> encoding = tiktoken.Encoding(
    ...     "tiny",
    ...     pat_str=r"\w+|\W+",
    ...     mergeable_ranks={bytes([byte]): byte for byte in range(256)} | {b"ab": 256},
    ...     special_tokens={"<|endoftext|>": 257},
    ... )
    >>> encoding.encode("abc<|endoftext|>", allowed_special="all")
    [256, 99, 257]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import cache, cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tokenmill._core import Tokenizer
from tokenmill._core import get_encoding as _published
from tokenmill.errors import TokenmillError, UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import tiktoken

__all__ = [
    "Encoding",
    "as_tiktoken",
    "encoding_for_model",
    "encoding_name_for_model",
    "from_tiktoken",
    "get_encoding",
    "list_encoding_names",
]

_Allowed: TypeAlias = Literal["all"] | Set[str]
_Disallowed: TypeAlias = Literal["all"] | Collection[str]

# The encodings that tokenmill loads without tiktoken.
_PUBLISHED = ("gpt2", "r50k_base", "p50k_base", "cl100k_base", "o200k_base")


class Encoding:
    """An encoding with the methods of ``tiktoken.Encoding``, which encodes with tokenmill.

    The ids are the same, unless the pattern leaves out a part of the text, which tiktoken drops. An unknown token or id
    is a ``KeyError``, and a disallowed special token a ``ValueError``, as there. ``num_threads`` is by default the
    ``threads`` of ``Tokenizer.encode_batch``.

    Args:
        name: The name of the encoding.
        pat_str: The regular expression that splits text.
        mergeable_ranks: The bytes of each token with its rank, which is its id.
        special_tokens: The text of each special token with its id.
        explicit_n_vocab: The number of tokens, to be checked.

    Attributes:
        name: The name of the encoding.
    """

    def __init__(
        self,
        name: str,
        *,
        pat_str: str,
        mergeable_ranks: Mapping[bytes, int],
        special_tokens: Mapping[str, int],
        explicit_n_vocab: int | None = None,
    ) -> None:
        count = len(mergeable_ranks) + len(special_tokens)
        if explicit_n_vocab and explicit_n_vocab != count:
            raise UsageError(f"the encoding has {count} tokens, not {explicit_n_vocab}")
        ranks, specials = list(mergeable_ranks.items()), list(special_tokens.items())
        self._set(Tokenizer.from_ranks(pat_str, ranks, specials), name)

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer, name: str = "tokenmill") -> Encoding:
        """Makes an encoding from a tokenizer of tokenmill.

        Args:
            tokenizer: The tokenizer. Ranks need not be able to express it.
            name: The name of the encoding.
        """
        encoding = cls.__new__(cls)
        encoding._set(tokenizer if tokenizer.special == "text" else tokenizer.with_special("text"), name)
        return encoding

    def _set(self, tokenizer: Tokenizer, name: str) -> None:
        """Sets what an encoding has."""
        self.name = name
        self.tokenizer = tokenizer
        self._special_tokens = tokenizer.special_tokens

    def __reduce__(self) -> tuple[Any, tuple[Tokenizer, str]]:
        """What is pickled: the tokenizer and the name."""
        return type(self).from_tokenizer, (self.tokenizer, self.name)

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    def encode(
        self, text: str, *, allowed_special: _Allowed = frozenset(), disallowed_special: _Disallowed = "all"
    ) -> list[int]:
        """Encodes a text.

        Args:
            text: The text. Half of a surrogate pair becomes U+FFFD.
            allowed_special: The special tokens that the text may spell, or ``"all"``.
            disallowed_special: The special tokens that it must not spell; ``"all"`` are those that are not allowed.
                The text of the others is encoded like any other text.

        Raises:
            ValueError: The text spells a disallowed special token.
        """
        allowed = self._allowed([text], allowed_special, disallowed_special)
        if not allowed:
            return self.encode_ordinary(text)
        parts = _any_of(allowed).split(text)
        return self._joined(parts, map(self.encode_ordinary, parts[::2]))

    def encode_ordinary(self, text: str) -> list[int]:
        """Encodes a text. What spells a special token is encoded like any other text."""
        try:
            return self.tokenizer.encode(text)
        except UsageError:
            return self.tokenizer.encode(_repaired(text))

    def encode_to_numpy(
        self, text: str, *, allowed_special: _Allowed = frozenset(), disallowed_special: _Disallowed = "all"
    ) -> npt.NDArray[np.uint32]:
        """Encodes a text to an array of dtype uint32, with the arguments of ``encode``."""
        import numpy as np

        ids = self.encode(text, allowed_special=allowed_special, disallowed_special=disallowed_special)
        return np.array(ids, dtype=np.uint32)

    def encode_ordinary_batch(self, text: Iterable[str], *, num_threads: int | None = None) -> list[list[int]]:
        """Encodes texts on several threads, each as ``encode_ordinary`` does."""
        texts = list(text)
        try:
            return self.tokenizer.encode_batch(texts, threads=num_threads)
        except UsageError:
            return self.tokenizer.encode_batch(map(_repaired, texts), threads=num_threads)

    def encode_batch(
        self,
        text: Iterable[str],
        *,
        num_threads: int | None = None,
        allowed_special: _Allowed = frozenset(),
        disallowed_special: _Disallowed = "all",
    ) -> list[list[int]]:
        """Encodes texts on several threads, each as ``encode`` does."""
        texts = list(text)
        allowed = self._allowed(texts, allowed_special, disallowed_special)
        if not allowed:
            return self.encode_ordinary_batch(texts, num_threads=num_threads)
        parts = [_any_of(allowed).split(one) for one in texts]
        ordinary = chain.from_iterable(of_text[::2] for of_text in parts)
        rows = iter(self.encode_ordinary_batch(ordinary, num_threads=num_threads))
        return [self._joined(of_text, rows) for of_text in parts]

    def _allowed(self, texts: list[str], allowed: _Allowed, disallowed: _Disallowed) -> frozenset[str]:
        """The special tokens that texts may spell, after a check that they spell no disallowed one."""
        allowed = frozenset(self.special_tokens_set if allowed == "all" else allowed)
        disallowed = frozenset(self.special_tokens_set - allowed if disallowed == "all" else disallowed)
        if disallowed:
            for found in filter(None, map(_any_of(disallowed).search, texts)):
                raise ValueError(_disallowed(found.group()))
        return allowed & self.special_tokens_set

    def _joined(self, parts: list[str], rows: Iterator[list[int]]) -> list[int]:
        """The ids of a text whose every second part is a special token: those of the next rows, and those between."""
        ids = next(rows)
        for special in parts[1::2]:
            ids.append(self._special_tokens[special])
            ids += next(rows)
        return ids

    def encode_with_unstable(
        self, text: str, *, allowed_special: _Allowed = frozenset(), disallowed_special: _Disallowed = "all"
    ) -> tuple[list[int], list[list[int]]]:
        """Does what tiktoken does, with tiktoken, which must be installed."""
        allowed = allowed_special if allowed_special == "all" else set(allowed_special)
        stable: tuple[list[int], list[list[int]]] = self._original.encode_with_unstable(
            text, allowed_special=allowed, disallowed_special=disallowed_special
        )
        return stable

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """Looks up the id of a token, which may be a special token.

        Raises:
            KeyError: There is no such token.
        """
        id = self.tokenizer.token_to_id(text_or_bytes)
        if id is None:
            raise KeyError(text_or_bytes)
        return id

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """Decodes ids to text. ``errors`` is as for ``bytes.decode``.

        Raises:
            KeyError: There is no token with such an id.
        """
        return self.decode_bytes(tokens).decode("utf-8", errors=errors)

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """Decodes ids to bytes.

        Raises:
            KeyError: There is no token with such an id.
        """
        try:
            return self.tokenizer.decode_bytes(tokens)
        except UsageError:
            raise
        except TokenmillError as error:
            raise KeyError(error.message) from error

    def decode_single_token_bytes(self, token: int) -> bytes:
        """Looks up the bytes of a token.

        Raises:
            KeyError: There is no token with this id.
        """
        piece = self.tokenizer.id_to_token(token)
        if piece is None:
            raise KeyError(token)
        return piece

    def decode_tokens_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """Looks up the bytes of each token."""
        return [self.decode_single_token_bytes(token) for token in tokens]

    def decode_with_offsets(self, tokens: Sequence[int]) -> tuple[str, list[int]]:
        """Decodes ids to text, with the index of the first character of each token.

        Raises:
            UnicodeDecodeError: The ids are not whole characters.
        """
        pieces = self.decode_tokens_bytes(tokens)
        text, offsets, end = b"".join(pieces).decode(), [], 0
        for piece in pieces:
            continued = 0x80 <= piece[0] < 0xC0
            offsets.append(max(0, end - continued))
            end += sum(not 0x80 <= byte < 0xC0 for byte in piece)
        return text, offsets

    def decode_batch(
        self, batch: Iterable[Sequence[int]], *, errors: str = "replace", num_threads: int | None = None
    ) -> list[str]:
        """Decodes rows of ids to texts. ``num_threads`` is without effect."""
        return [self.decode(tokens, errors) for tokens in batch]

    def decode_bytes_batch(self, batch: Iterable[Sequence[int]], *, num_threads: int | None = None) -> list[bytes]:
        """Decodes rows of ids to bytes. ``num_threads`` is without effect."""
        return [self.decode_bytes(tokens) for tokens in batch]

    def token_byte_values(self) -> list[bytes]:
        """Lists the bytes of all tokens but special ones, in the order of bytes."""
        return sorted(self._mergeable_ranks)

    def is_special_token(self, token: int) -> bool:
        """Says whether this is the id of a special token."""
        return token in self._special_tokens.values()

    @property
    def eot_token(self) -> int:
        """The id of ``<|endoftext|>``; a ``KeyError`` if there is none."""
        return self._special_tokens["<|endoftext|>"]

    @property
    def n_vocab(self) -> int:
        """The highest id plus 1."""
        return self.tokenizer.vocab_size

    @property
    def max_token_value(self) -> int:
        """The highest id."""
        return self.tokenizer.vocab_size - 1

    @cached_property
    def special_tokens_set(self) -> set[str]:
        """The texts of the special tokens."""
        return set(self._special_tokens)

    # Not public in tiktoken, but its documentation makes new encodings from them.

    @cached_property
    def _mergeable_ranks(self) -> dict[bytes, int]:
        return dict(self.tokenizer.get_mergeable_ranks())

    @cached_property
    def _pat_str(self) -> str:
        return self.tokenizer.get_pattern()

    @cached_property
    def _original(self) -> tiktoken.Encoding:
        return as_tiktoken(self.tokenizer, self.name)


@cache
def get_encoding(encoding_name: str) -> Encoding:
    """Loads an encoding by its name, as ``tiktoken.get_encoding`` does. It is made once.

    Its file is downloaded into tiktoken's cache, unless it is there. Encodings of plugins of tiktoken are loaded by
    tiktoken, which must be installed then.

    Args:
        encoding_name: The name, such as ``"cl100k_base"``.

    Raises:
        ValueError: There is no encoding of this name.
    """
    if encoding_name in _PUBLISHED:
        return Encoding.from_tokenizer(_published(encoding_name), encoding_name)
    import tiktoken

    return Encoding.from_tokenizer(from_tiktoken(tiktoken.get_encoding(encoding_name)), encoding_name)


def encoding_for_model(model_name: str) -> Encoding:
    """Loads the encoding of a model of OpenAI by the table of tiktoken, which must be installed.

    Args:
        model_name: The name of the model, such as ``"gpt-4o"``.

    Raises:
        KeyError: The table does not have the model.
    """
    return get_encoding(encoding_name_for_model(model_name))


def encoding_name_for_model(model_name: str) -> str:
    """Looks up the name of the encoding of a model of OpenAI, as ``encoding_for_model`` does.

    Args:
        model_name: The name of the model.

    Example:
        >>> from tokenmill.compat import tiktoken
        >>> tiktoken.encoding_name_for_model("gpt-4o")
        'o200k_base'
    """
    import tiktoken

    name: str = tiktoken.encoding_name_for_model(model_name)
    return name


def list_encoding_names() -> list[str]:
    """Lists the names that tiktoken knows, if it is installed, else those that tokenmill knows."""
    try:
        import tiktoken
    except ImportError:
        return list(_PUBLISHED)
    names: list[str] = tiktoken.list_encoding_names()
    return names


def as_tiktoken(tokenizer: Tokenizer, name: str = "tokenmill") -> tiktoken.Encoding:
    """Makes an encoding of tiktoken that gives the same ids.

    Args:
        tokenizer: The tokenizer.
        name: The name of the encoding.

    Raises:
        TokenmillError: Ranks and one regular expression cannot express what the tokenizer does.
    """
    import tiktoken

    return tiktoken.Encoding(
        name,
        pat_str=tokenizer.get_pattern(),
        mergeable_ranks=dict(tokenizer.get_mergeable_ranks()),
        special_tokens=tokenizer.special_tokens,
    )


def from_tiktoken(
    encoding: tiktoken.Encoding | Encoding, special: Literal["text", "allow", "forbid"] = "text"
) -> Tokenizer:
    """Makes a tokenizer that gives the ids of an encoding of tiktoken.

    Args:
        encoding: The encoding.
        special: What text that spells a special token becomes, as for ``Tokenizer.from_file``.

    Raises:
        TokenmillError: The ranks are not those of byte-level BPE.
    """
    return Tokenizer.from_ranks(
        encoding._pat_str,
        list(encoding._mergeable_ranks.items()),
        list(encoding._special_tokens.items()),
        special=special,
    )


def _repaired(text: str) -> str:
    """A text in which surrogate pairs are characters, and halves of them U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@lru_cache(maxsize=128)
def _any_of(tokens: frozenset[str]) -> re.Pattern[str]:
    """A regular expression that finds any of these special tokens; of several at one place, the longest."""
    return re.compile(f"({'|'.join(re.escape(token) for token in sorted(tokens, key=len, reverse=True))})")


def _disallowed(token: str) -> str:
    """The message for a text that spells this special token."""
    return (
        f"the text spells the special token {token!r}, which is disallowed. "
        f"Pass allowed_special={{{token!r}}} to encode it as that token, or disallowed_special=() to encode it like "
        "any other text."
    )
