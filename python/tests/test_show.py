"""Tokens in colours."""

from __future__ import annotations

import copy
import pickle
import re
from html.parser import HTMLParser

import pytest

from tokenmill import Tokenizer, _show


class Spans(HTMLParser):
    """The text of each token, without what is only shown, and its title. Fails if tags are not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tokens: list[tuple[str, str]] = []
        self.marks: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in ("div", "span", "code")
        values = dict(attributes)
        is_token = "title" in values
        kind = "token" if is_token else "mark" if "user-select: none" in (values.get("style") or "") else tag
        self._open.append(kind)
        if is_token:
            self.tokens.append(("", values["title"] or ""))

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["mark"]:
            self.marks.append(data)
        elif "token" in self._open:
            text, title = self.tokens.pop()
            self.tokens.append((text + data, title))


def shown(tokenizer: Tokenizer, text: str | bytes) -> Spans:
    return Spans(tokenizer.pieces(text)._repr_html_())


def test_a_token_has_its_text_and_its_id(tokenizer: Tokenizer) -> None:
    text = "the quick brown fox"
    tokens = shown(tokenizer, text).tokens
    assert "".join(token for token, _ in tokens) == text
    ids = tokenizer.encode(text)
    assert [title for _, title in tokens] == [f"id {id}: {(tokenizer.id_to_token(id) or b'').decode()!r}" for id in ids]
    assert tokenizer.pieces(text).ids == ids


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", '"><b onmouseover="x">', "&lt; & &amp;", "</span></div>"]
)
def test_text_is_never_html(tokenizer: Tokenizer, text: str) -> None:
    assert "".join(token for token, _ in shown(tokenizer, text).tokens) == text
    assert "<script" not in tokenizer.pieces(text)._repr_html_()
    specials = {text: 7}
    assert Spans(_show.Pieces([text.encode()], [7], specials)._repr_html_()).tokens == [
        (text, f"special token 7: {text!r}")
    ]


def test_what_cannot_be_seen_has_a_mark() -> None:
    pieces = _show.Pieces([b"a\n", b"b\tc", b"\r\x00", "\u200b".encode(), b"\xff"], range(5), {})
    spans = Spans(pieces._repr_html_())
    assert spans.marks == ["⏎", "⇥", "\\r", "\\x00", "\\u200b", "\\xff"]
    assert [token for token, _ in spans.tokens] == ["a\n", "b\tc", "", "", ""]
    # A character that is cut over several tokens.
    bytes_only = _show.Pieces([b" \xf0\x9f", b"\xa6\x80"], [1, 2], {})
    assert Spans(bytes_only._repr_html_()).marks == ["\\xf0", "\\x9f", "\\xa6", "\\x80"]
    assert Spans(bytes_only._repr_html_()).tokens == [
        (" ", "id 1: 20 f0 9f (hexadecimal)"),
        ("", "id 2: a6 80 (hexadecimal)"),
    ]


def test_special_tokens_look_different(tokenizer: Tokenizer) -> None:
    allowing = tokenizer.with_special("allow")
    end = tokenizer.special_tokens["<|end|>"]
    assert shown(allowing, "fox<|end|>").tokens[-1] == ("<|end|>", f"special token {end}: '<|end|>'")
    assert "special token" not in tokenizer.pieces("fox<|end|>")._repr_html_()


def test_a_long_text_is_cut(tokenizer: Tokenizer) -> None:
    pieces = tokenizer.pieces("the quick brown fox\n" * 10_000)
    html = pieces._repr_html_()
    assert len(Spans(html).tokens) == 2000
    assert f"{len(pieces) - 2000:,} more tokens" in html
    assert f"{len(pieces):,} tokens, 200,000 bytes" in html
    assert len(html) < 1 << 20


def test_colours_have_contrast() -> None:
    def light(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    pairs = [(colour, _show._TEXT) for colour in _show._COLOURS] + [(_show._SPECIAL_TEXT, _show._SPECIAL)]
    for lighter, darker in pairs:
        # 7 : 1 is the level AAA of the guidelines for web content. Marks are paler.
        assert (light(lighter) + 0.05) / (light(darker) + 0.05) > 10, (lighter, darker)


def test_pieces_are_a_list_that_can_be_copied(tokenizer: Tokenizer) -> None:
    pieces = tokenizer.pieces("the fox")
    assert isinstance(pieces, list)
    for again in [pickle.loads(pickle.dumps(pieces)), copy.copy(pieces), copy.deepcopy(pieces)]:
        assert (again, again.ids, again._repr_html_()) == (pieces, pieces.ids, pieces._repr_html_())


def test_a_tokenizer_shows_a_sample(tokenizer: Tokenizer) -> None:
    html = tokenizer._repr_html_()
    assert html.startswith("<div><code>Tokenizer(vocab_size=400, split=&quot;gpt4&quot;, special_tokens=1)</code>")
    assert len(Spans(html).tokens) == len(tokenizer.encode(_show._SAMPLE))
    assert re.search(r"\d+ tokens, \d+ bytes", html)
