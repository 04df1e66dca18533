"""Tokens in colours, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenmill import Tokenizer

# Tokens take these in turn. Text and background are both set, so dark notebooks show the same.
_COLOURS = ("#cfe3ff", "#ffe0bd", "#cdf3d3", "#f6d5ee", "#fff2a8")
_TEXT = "#111"
_SPECIAL = "#3b3f46"
_SPECIAL_TEXT = "#fff"

# More tokens would make a notebook slow to open.
_SHOWN = 2000

_SAMPLE = "The quick brown fox jumps over 12345 lazy dogs, don't they? naïve café 日本語 🦀"


class Pieces(list[bytes]):
    """The bytes of the tokens of a text. A notebook shows them in colours.

    Attributes:
        ids: The id of each token.
        special_tokens: The texts of the tokenizer's special tokens, with their ids.
    """

    def __init__(self, pieces: Sequence[bytes], ids: Sequence[int], special_tokens: Mapping[str, int]) -> None:
        super().__init__(pieces)
        self.ids = list(ids)
        self.special_tokens = dict(special_tokens)

    def __reduce__(self) -> tuple[type[Pieces], tuple[list[bytes], list[int], dict[str, int]]]:
        """What is pickled: the arguments."""
        return type(self), (list(self), self.ids, self.special_tokens)

    def _repr_html_(self) -> str:
        shown = "".join(self._spans())
        more = len(self) - _SHOWN
        if more > 0:
            shown += f'<span style="opacity: 0.7"> … {more:,} more tokens</span>'
        size = sum(map(len, self))
        return (
            '<div style="white-space: pre-wrap; overflow-wrap: anywhere; font-family: monospace; line-height: 1.7">'
            f'{shown}</div><div style="opacity: 0.7; font-size: 85%">{len(self):,} tokens, {size:,} bytes</div>'
        )

    def _spans(self) -> Iterator[str]:
        """The tokens as HTML, at most as many as are shown."""
        specials = set(self.special_tokens.values())
        for at, (piece, id) in enumerate(zip(self[:_SHOWN], self.ids)):
            is_special = id in specials
            colour, text = (_SPECIAL, _SPECIAL_TEXT) if is_special else (_COLOURS[at % len(_COLOURS)], _TEXT)
            title = f"{'special token' if is_special else 'id'} {id}: {_literal(piece)}"
            style = f"background: {colour}; color: {text}; padding: 2px 0; border-radius: 3px; unicode-bidi: isolate"
            yield f'<span style="{style}" title="{escape(title)}">{_visible(piece)}</span>'


def _literal(piece: bytes) -> str:
    """A token as text in quotes if it is text, else its bytes as numbers."""
    try:
        return repr(piece.decode())
    except UnicodeDecodeError:
        return f"{piece.hex(' ')} (hexadecimal)"


def _visible(piece: bytes) -> str:
    """A token as HTML. Bytes that are not whole characters, line breaks and invisible characters are made visible."""
    return "".join(map(_visible_character, piece.decode(errors="surrogateescape")))


def _visible_character(character: str) -> str:
    """A character as HTML, or a byte that decoding has escaped as a surrogate."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return _mark(f"\\x{code - 0xDC00:02x}")
    if character == "\n":
        return _mark("⏎") + character
    if character == "\t":
        return _mark("⇥") + character
    return escape(character) if character.isprintable() else _mark(repr(character)[1:-1])


def _mark(text: str) -> str:
    """Something that the text does not have as such, so it is not copied with it."""
    return f'<span style="opacity: 0.7; user-select: none">{text}</span>'


def tokenizer_html(tokenizer: Tokenizer) -> str:
    """A tokenizer, with a line that it has encoded."""
    return f"<div><code>{escape(repr(tokenizer))}</code>{tokenizer.pieces(_SAMPLE)._repr_html_()}</div>"
