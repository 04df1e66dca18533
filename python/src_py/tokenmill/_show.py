"""Tokens in colours, for notebooks."""

from __future__ import annotations

from html import escape
from itertools import cycle
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenmill import Tokenizer

# The text of all tokens is black, so the colours are light.
_COLOURS = ("#cfe8ff", "#ffe1c4", "#d4f4d2", "#f4d3ec", "#fff3b0")

_SAMPLE = "The quick brown fox jumps over 12345 lazy dogs, don't they? naïve café 日本語"


class Pieces(list[bytes]):
    """The bytes of the tokens of a text. A notebook shows them in colours."""

    def _repr_html_(self) -> str:
        spans = (_span(piece, colour) for piece, colour in zip(self, cycle(_COLOURS)))
        return f'<div style="white-space: pre-wrap; font-family: monospace">{"".join(spans)}</div>'


def _span(piece: bytes, colour: str) -> str:
    """A token in a colour. A line break is shown, and bytes that are not whole characters are hexadecimal."""
    try:
        text = escape(piece.decode()).replace("\n", "⏎\n")
    except UnicodeDecodeError:
        text = "".join(f"\\x{byte:02x}" for byte in piece)
    return f'<span style="background: {colour}; color: black" title="{len(piece)} bytes">{text}</span>'


def tokenizer_html(tokenizer: Tokenizer) -> str:
    """A tokenizer, with a line that it has encoded."""
    return f"<div><code>{escape(repr(tokenizer))}</code>{tokenizer.pieces(_SAMPLE)._repr_html_()}</div>"
