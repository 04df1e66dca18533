"""Many varied strings, the same ones in every run."""

import random

from program import SPECIAL

SEED = 20
COUNT = 11_300
CODE_POINTS = [*range(0x0000, 0xD800), *range(0xE000, 0x110000)]

# Strings that are difficult for splitters and encoders.
TRAPS = [
    "", "\0", "\0\0a\0", " ", "  ", "\n", "\r\n", "\r\n\r\n  x", "\t\t", " \u00a0\u3000 ", "\u0085\u2028",
    "a" * 3_000, " " * 3_000, "\n" * 2_000, "ab" * 1_500, "7" * 1_000, "!" * 1_000, " a" * 1_000, "ß" * 700,
    "we'll I'm you'RE it'ſ they'Ve 'tis ''s", "x\u2019s", "3.14159e-10", "1234567890" * 3, "١٢٣٤", "Ⅷ½²",
    "hello   world  \n  indented\n\n\ttabs  ", "trailing   ", "   leading", "a\n \n b", "path/to//file\r\n",
    "e\u0301\u0323 q\u0307\u0323", "\u0301 alone", "Z\u0351\u036b\u0343a\u0321l\u0348g\u031ao",
    "👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇩🇪", "❤️ ☎︎", "日本語のテキスト。中文，標點！", "한국어 문장입니다.", "ภาษาไทยไม่มีช่องว่าง",
    "हिन्दी में लिखा", "Українська мова", "עברית ‏ערבית", "العربية", "\ufeffBOM", "\u200b\u200d\u2060",
    "\U0001d518\U0001d52b\U0001d526", "\uffff\U0010ffff", "camelCaseHTTPRequest", "SCREAMING_SNAKE", "ǅungla ᾼ",
]


def varied(with_specials):
    """Traps, every code point once, and random mixtures. With `with_specials`, some strings contain special tokens."""
    chance = random.Random(SEED)
    strings = TRAPS + code_points() + mixtures(chance, COUNT)
    return [insert_special(chance, text) for text in strings] if with_specials else strings


def code_points():
    size = 128
    return ["".join(map(chr, CODE_POINTS[at : at + size])) for at in range(0, len(CODE_POINTS), size)]


def mixtures(chance, count):
    return ["".join(fragment(chance) for _ in range(chance.randint(1, 12))) for _ in range(count)]


def fragment(chance):
    kind = chance.randrange(10)
    if kind < 4:
        length = chance.randint(1, 9)
        word = "".join(chance.choices("etaoinshrdlucmfwypvbgkjqxz", range(26, 0, -1), k=length))
        return chance.choice(["", " ", " ", "\n", "'"]) + chance.choice([word, word, word.capitalize(), word.upper()])
    if kind == 4:
        return chance.choice(TRAPS)[:40]
    if kind == 5:
        return chance.choice([" ", "\n", "\r\n", "\t", "\u00a0", "\u2003"]) * chance.randint(1, 6)
    if kind == 6:
        return str(chance.randrange(10 ** chance.randint(1, 12)))
    if kind == 7:
        return "".join(chance.choices("!?.,;:-–—'\"()[]{}<|>/\\@#$%^&*_=+~`", k=chance.randint(1, 5)))
    if kind == 8:
        start = chance.choice([0x370, 0x400, 0x590, 0x600, 0x900, 0xE00, 0x3040, 0x4E00, 0xAC00, 0x1F300])
        return "".join(chr(start + chance.randrange(96)) for _ in range(chance.randint(1, 8)))
    return "".join(chr(chance.choice(CODE_POINTS)) for _ in range(chance.randint(1, 4)))


def insert_special(chance, text):
    if chance.random() < 0.4:
        return text
    places = sorted(chance.randint(0, len(text)) for _ in range(chance.randint(1, 3)))
    broken = chance.choice([SPECIAL, SPECIAL, SPECIAL, SPECIAL[:-1], "<" + SPECIAL])
    for place in reversed(places):
        text = text[:place] + broken + text[place:]
    return text
