"""Checks training in two stages: merges against a plain implementation of the definition of SuperBPE (arXiv
2503.13423), and ids against Hugging Face's tokenizers."""

import heapq
import json
from collections import Counter

import numpy
import regex
from tokenizers import Tokenizer

import strings
from program import GPT4, byte_of_character, merges

SUPERWORD = r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)"
# Of 20 MB, the reference takes ten minutes.
MAX_BYTES = 1_200_000
FIRST, SECOND = 4_000, 6_000
MAX_WORDS = 4
MIN_FREQUENCY = 2
SEPARATOR = -1
BYTE_OF_CHARACTER = byte_of_character()


def check(setting):
    for text in setting.texts:
        documents = limited(text.documents())
        path = setting.scratch / f"superwords-{text.path.stem}.jsonl"
        with path.open("w", encoding="utf-8") as lines:
            lines.writelines(json.dumps({"text": document}) + "\n" for document in documents)
        stages = ("--stage", f"gpt4:{FIRST}", "--stage", f"superword:{SECOND}:{MAX_WORDS}")
        folder = setting.train(f"superwords-{text.path.stem}", path, *stages)
        ours = [tuple(map(key, pair)) for pair in merges((folder / "tokenizer.json").read_text(encoding="utf-8"))]
        theirs = in_two_stages(documents)
        for place, (our, their) in enumerate(zip(ours, theirs)):
            assert our == their, f"{text.name}, superwords: merge {place} is {our!r}, theirs {their!r}"
        assert len(ours) == len(theirs), f"{text.name}, superwords: {len(ours)} merges, theirs {len(theirs)}"
        superwords = sum(b" " in (left + right)[1:] for left, right in ours)
        assert superwords > 100, f"{text.name}: only {superwords} superwords"
        yield f"{text.name}: {len(ours)} merges of two stages equal, {superwords} superwords"
        yield extended_alike(setting, path, folder, text)
        samples = strings.varied(with_specials=False) + [document[:400] for document in documents[:2_000]]
        found = setting.encode(f"superwords-{text.path.stem}-ids", samples, folder)
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        expected = [encoding.ids for encoding in tokenizer.encode_batch(samples)]
        for sample, our, their in zip(samples, found, expected, strict=True):
            assert our == their, f"superwords: {sample!r} is {our}, in tokenizers {their}"
        yield f"{text.name}: {len(samples)} strings equal in tokenizers"


def extended_alike(setting, path, folder, text):
    """Extending the tokenizer of a first stage gives the same file as two stages at once."""
    first = setting.train(f"superwords-{text.path.stem}-first", path, "--vocab-size", SECOND, "--split", "gpt4")
    second = setting.train(
        f"superwords-{text.path.stem}-second", path, "--extend", first, "--keep-merges", FIRST - 256,
        "--split", "superword", "--vocab-size", SECOND,
    )  # fmt: skip
    ours, theirs = ((place / "tokenizer.json").read_bytes() for place in (second, folder))
    assert ours == theirs, f"{text.name}: --extend --keep-merges gives another tokenizer than two stages"
    return f"{text.name}: the same file by --extend --keep-merges"


def limited(documents):
    taken, size = [], 0
    for document in documents:
        size += len(document.encode())
        if size > MAX_BYTES:
            break
        taken.append(document)
    return taken


def key(token):
    return bytes(BYTE_OF_CHARACTER[character] for character in token)


def in_two_stages(documents):
    """The merges as pairs of byte strings: the first with words, the others with superwords."""
    tokens = [bytes([byte]) for byte in range(256)]
    words = Counter(word for document in documents for word in pretokens(GPT4, document))
    found = learn(words, tokens, [], FIRST - 256, lambda token: True)
    superwords = Counter(words for document in documents for words in pretokens(SUPERWORD, document))
    found = learn(superwords, tokens, found, SECOND - 256, is_allowed)
    return [(tokens[left], tokens[right]) for left, right in found]


def is_allowed(token):
    return b": " not in token and sum(word != b"" for word in token.split(b" ")) <= MAX_WORDS


def pretokens(pattern, text):
    """The matches, and the text between two matches."""
    start = 0
    for match in regex.finditer(pattern, text):
        yield from (part.encode() for part in (text[start : match.start()], match.group()) if part)
        start = match.end()
    if start < len(text):
        yield text[start:].encode()


def learn(weighted, tokens, given, count, allowed):
    """Applies the given merges one after another, then merges the most frequent pair, until there are `count`. Of
    pairs that are equally frequent, the one with the lowest ids is merged."""
    parts = [numpy.frombuffer(pretoken, numpy.uint8) for pretoken in weighted]
    gap = numpy.array([SEPARATOR])
    text = numpy.concatenate([gap, *(part for pretoken in parts for part in (pretoken, gap))]).astype(numpy.int64)
    lengths = [len(pretoken) + 1 for pretoken in parts]
    weights = numpy.concatenate([[0], numpy.repeat(list(weighted.values()), lengths)])
    counts = Counter(pairs_at(text, weights, numpy.arange(len(text) - 1)))
    queue = [(-times, pair) for pair, times in counts.items()]
    heapq.heapify(queue)
    found = []
    while len(found) < count:
        if len(found) < len(given):
            pair = given[len(found)]
        elif queue:
            times, pair = heapq.heappop(queue)
            if -times != counts[pair] or -times < MIN_FREQUENCY:
                continue
            if not allowed(tokens[pair[0]] + tokens[pair[1]]):
                continue
        else:
            break
        token = 256 + len(found)
        if len(tokens) <= token:
            tokens.append(tokens[pair[0]] + tokens[pair[1]])
        found.append(pair)
        text, weights, changed = replaced(text, weights, pair, token, counts)
        for other in changed:
            heapq.heappush(queue, (-counts[other], other))
    return found


def pairs_at(text, weights, places):
    """The pairs at some places with their weighted numbers."""
    left, right = text[places], text[places + 1]
    inside = (left != SEPARATOR) & (right != SEPARATOR)
    pairs = (left << 32 | right)[inside]
    distinct, inverse = numpy.unique(pairs, return_inverse=True)
    sums = numpy.bincount(inverse, weights[places][inside], len(distinct)).astype(numpy.int64)
    return {(int(pair >> 32), int(pair & 0xFFFFFFFF)): int(times) for pair, times in zip(distinct, sums)}


def replaced(text, weights, pair, token, counts):
    """Replaces a pair from left to right without overlap. Returns the text, its weights, and the pairs whose counts
    have changed."""
    sites = numpy.flatnonzero((text[:-1] == pair[0]) & (text[1:] == pair[1]))
    if pair[0] == pair[1]:
        kept, last = [], -2
        for site in sites.tolist():
            if site > last + 1:
                kept.append(site)
                last = site
        sites = numpy.array(kept, numpy.int64)
    before = pairs_at(text, weights, numpy.unique(numpy.concatenate([sites - 1, sites, sites + 1])))
    text = text.copy()
    text[sites] = token
    stays = numpy.ones(len(text), bool)
    stays[sites + 1] = False
    text, weights = text[stays], weights[stays]
    places = sites - numpy.arange(len(sites))
    after = pairs_at(text, weights, numpy.unique(numpy.concatenate([places - 1, places])))
    for sign, changed in ((-1, before), (1, after)):
        for other, times in changed.items():
            counts[other] = counts.get(other, 0) + sign * times
    return text, weights, before.keys() | after.keys()
