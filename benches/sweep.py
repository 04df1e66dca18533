#!/usr/bin/env python3
"""The speed of encoding by how often words recur, and by script, beside other programs.

- recurrence: generated words. Each of them occurs 1, 2, 5, 15, 50 or 250 times, in random order, and all texts have the
  same size. At 1 every word is new, at 250 nearly all of them were seen before.
- scripts: the lines of a text in many languages, sorted by the script of most of their letters. A script with less than
  half a megabyte is left out.

For each text, a vocabulary is learned from it with the split of GPT-2, and each program encodes the text on one core,
from memory and for the first time. The programs take turns. The ids of all are compared before anything is timed, and
again in each round; a program with other ids is named, and not shown. The table has the medians in MB/s, and how many
times as fast as the best other program tokenmill is. On a busy machine, `--clock processor` tells more, but some
programs know their processor time to hundredths of a second only: too coarse for the small texts of some scripts.

The other programs are run by a harness, which is not part of the repository: a folder with `encode_peers.py`.

    benches/sweep.py --harness FOLDER [--program target/release/tokenmill] [--text multilingual.txt]
                     [--peers gigatoken,fastokens,hf-rc-rust,tokie] [--only recurrence-5,thai] [--rounds 5] [--mb 20]
                     [--clock wall] [--avx2] [--vocab-size 32768] [--seed 1] [--scratch target/sweep]
                     [--json FILE] [--picture docs/sweep]

`--avx2` hides AVX-512 from all programs, with the library `benches/avx2.c`, which needs Linux and a C compiler.
`--json` keeps all figures. `--read FILE` takes the figures of such a file instead of measuring. `--picture` draws the
recurrence sweep: to the path with `-light.svg` and with `-dark.svg` after it. Texts and tokenizers stay in the folder
`--scratch`.
"""

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import unicodedata
from collections import Counter, defaultdict
from functools import cache
from math import log
from pathlib import Path

MB = 1_000_000
OURS = "tokenmill"
RECURRENCES = [1, 2, 5, 15, 50, 250]
LEAST_MB = 0.5
# What the harness calls the times of encoding, and the least seconds that are believed.
CLOCKS = {"wall": "encode_s", "processor": "encode_cpu_s"}
SHORTEST = 0.005
WORDS_A_PARAGRAPH = 60

# How often letters begin, carry and end the syllables of the generated words, and how many syllables words have: about
# as in Italian.
ONSETS = {"t": 9, "r": 9, "n": 9, "s": 8, "l": 8, "d": 7, "c": 7, "m": 6, "p": 6}
ONSETS |= {"v": 4, "f": 3, "b": 3, "g": 3, "st": 2}
VOWELS = {"a": 11, "e": 11, "i": 10, "o": 9, "u": 4, "ia": 1, "io": 1}
CODAS = {"": 24, "n": 3, "r": 3, "s": 2, "l": 2}
SYLLABLES = {1: 2, 2: 6, 3: 8, 4: 5, 5: 2}

# Scripts whose letters are named after something else than what people call them.
NAMES = {"cjk": "han", "hangul": "korean", "hiragana": "japanese", "katakana": "japanese", "halfwidth": "japanese"}
# A line of Han characters is Japanese if at least this share of its letters is kana.
KANA_SHARE = 0.1


# --- texts -----------------------------------------------------------------------------------------------------------


def draw(chance, weights, count):
    return chance.choices(list(weights), list(weights.values()), k=count)


def new_words(chance):
    """Different words, without end."""
    seen = set()
    while True:
        for syllables in draw(chance, SYLLABLES, 10_000):
            parts = zip(*(draw(chance, part, syllables) for part in (ONSETS, VOWELS, CODAS)))
            word = "".join(map("".join, parts))
            if word not in seen:
                seen.add(word)
                yield word


def recurring(recurrence, size, seed):
    """A text of about `size` bytes in which each word occurs `recurrence` times."""
    chance = random.Random(f"{seed} {recurrence}")
    words, left = [], size / recurrence
    for word in new_words(chance):
        words.append(word)
        left -= len(word.encode()) + 1
        if left <= 0:
            break
    words *= recurrence
    chance.shuffle(words)
    paragraphs = (words[first : first + WORDS_A_PARAGRAPH] for first in range(0, len(words), WORDS_A_PARAGRAPH))
    return "\n\n".join(map(" ".join, paragraphs))


@cache
def script_of_letter(letter):
    if not letter.isalpha():
        return None
    name = unicodedata.name(letter, "").partition(" ")[0].lower()
    return NAMES.get(name, name)


def script(line):
    """The script of most letters of a line; `None` if it has no letters."""
    counts = Counter(map(script_of_letter, line))
    del counts[None]
    if not counts:
        return None
    if counts["japanese"] >= KANA_SHARE * (counts["japanese"] + counts["han"]) > 0:
        counts["japanese"] += counts.pop("han", 0)
    return counts.most_common(1)[0][0]


def by_script(path, size):
    """The texts of the scripts, each of up to `size` bytes: the lines of each paragraph that are in the script."""
    texts, sizes = defaultdict(list), Counter()
    # Reading it as text makes every line end a single "\n": programs differ in what ends a paragraph otherwise.
    for paragraph in path.read_text(encoding="utf-8", errors="replace").split("\n\n"):
        for name, lines in itertools.groupby(filter(script, paragraph.split("\n")), script):
            text = "\n".join(lines)
            if sizes[name] < size:
                texts[name].append(text)
                sizes[name] += len(text.encode())
    return {name: "\n\n".join(parts) for name, parts in sorted(texts.items()) if sizes[name] >= LEAST_MB * MB}


def kept(path, make):
    """The path of a text, which is made unless it is there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(make(), encoding="utf-8", newline="")
        part.rename(path)
    return path


def texts(options):
    """The texts to measure: sweep, name and path of each."""
    size = int(options.mb * MB)
    folder = options.scratch / f"{options.mb:g}-mb"
    for recurrence in RECURRENCES:
        path = folder / f"seed-{options.seed}" / f"recurrence-{recurrence}.txt"
        if wanted(options, path.stem):
            yield "recurrence", str(recurrence), kept(path, lambda: recurring(recurrence, size, options.seed))
    if options.text:
        folder = folder / options.text.stem
        if not folder.exists():
            for name, text in by_script(options.text, size).items():
                kept(folder / f"{name}.txt", lambda: text)
        yield from (("script", path.stem, path) for path in sorted(folder.glob("*.txt")) if wanted(options, path.stem))


def wanted(options, name):
    return not options.only or name in options.only


# --- measuring -------------------------------------------------------------------------------------------------------


def learn(options, path):
    """The `tokenizer.json` that is learned from a text, which is made unless it is there."""
    folder = path.with_name(f"{path.stem}-{options.vocab_size}")
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.exists():
        command = [options.program, "train", path, "-o", folder, "--vocab-size", str(options.vocab_size)]
        command += ["--documents", "paragraph", "--split", "gpt2", "--quiet"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return tokenizer


def environment(options):
    """The environment of all programs."""
    ours = {**os.environ, "TOKENMILL": str(options.program.resolve())}
    if not options.avx2:
        return ours
    library = (options.scratch / "avx2.so").resolve()
    if not library.exists():
        source = Path(__file__).with_name("avx2.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    # The C library chooses its functions before others are loaded.
    hidden = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW"
    return {**ours, "LD_PRELOAD": str(library), "GLIBC_TUNABLES": hidden}


def encode_round(options, path, tokenizer, peers):
    """What the harness says about each program, which it runs in turn."""
    command = [sys.executable, options.harness / "encode_peers.py", "--input", path, "--tokenizer", tokenizer]
    command += ["--split", "gpt2", "--peers", ",".join(peers), "--threads", "1", "--runs", "1", "--json"]
    said = subprocess.run(command, env=environment(options), check=True, capture_output=True, text=True).stdout
    return {row["peer"]: row for row in map(json.loads, said.splitlines())}


def measure(options, sweep, name, path):
    """The figures of one text."""
    tokenizer = learn(options, path)
    found = encode_round(options, path, tokenizer, [OURS, *options.peers])
    ours = found[OURS]
    if "error" in ours:
        sys.exit(f"{name}: {ours['error']}")
    wrong = {peer: row.get("error", "other ids") for peer, row in found.items() if row.get("digest") != ours["digest"]}
    peers = [peer for peer in found if peer not in wrong]
    figures = {"sweep": sweep, "name": name, "bytes": ours["text_bytes"], "tokens": ours["tokens"], "left_out": wrong}
    figures["mb_s"] = {peer: [] for peer in peers}
    for _ in range(options.rounds):
        for peer, row in encode_round(options, path, tokenizer, peers).items():
            if row.get("digest") != ours["digest"]:
                sys.exit(f"{name}, {peer}: {row.get('error', 'other ids than before')}")
            seconds = max(row[CLOCKS[options.clock]], SHORTEST)
            figures["mb_s"][peer].append(round(row["text_bytes"] / MB / seconds, 2))
    return figures


def medians(figures):
    return {peer: statistics.median(runs) for peer, runs in figures["mb_s"].items()}


# --- output ----------------------------------------------------------------------------------------------------------


def print_heading(sweep, peers):
    print(f"\n| {sweep} | MB | tokens | {' | '.join([OURS, *peers])} | times the best |")
    print("| --- " + "| --: " * (len(peers) + 4) + "|")


def print_row(figures, peers):
    found = medians(figures)
    best = max((rate for peer, rate in found.items() if peer != OURS), default=None)
    rates = [f"{found[peer]:.1f}" if peer in found else figures["left_out"].get(peer, "") for peer in [OURS, *peers]]
    times = f"{found[OURS] / best:.2f}" if best else ""
    cells = [figures["name"], f"{figures['bytes'] / MB:.1f}", str(figures["tokens"]), *rates, times]
    print(f"| {' | '.join(cells)} |", flush=True)


# Width and height of the picture, and the space around the drawing for numbers and names.
WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 56, 130, 40, 56
THEMES = {
    "light": {"paper": "#ffffff", "ink": "#1f2328", "faint": "#d1d9e0"},
    "dark": {"paper": "#0d1117", "ink": "#e6edf3", "faint": "#3d444d"},
}
LINES = {"light": ["#0969da", "#bc4c00", "#1a7f37", "#8250df"], "dark": ["#4493f8", "#f0883e", "#3fb950", "#ab7df8"]}
LINE_HEIGHT = 17
# Names of programs in the picture, where the harness has others.
LABELS = {"hf-rc-rust": "tokenizers 1.0-rc", "gigatoken-file": "gigatoken, from files"}


def fastest(sweep):
    """tokenmill, and the programs that are fastest in the geometric mean, of those that encode every text right."""
    everywhere = set.intersection(*(set(figures["mb_s"]) for figures in sweep)) - {OURS}
    mean = lambda peer: sum(log(medians(figures)[peer]) for figures in sweep)
    return [OURS, *sorted(everywhere, key=mean, reverse=True)[: len(LINES["light"]) - 1]]


def spread(heights):
    """Heights of names, moved apart so that none covers another."""
    placed = {}
    for name, height in sorted(heights.items(), key=lambda item: item[1]):
        placed[name] = max(height, max(placed.values(), default=-LINE_HEIGHT) + LINE_HEIGHT)
    return placed


def draw_picture(sweep, theme):
    """The recurrence sweep as SVG, both scales logarithmic."""
    peers, colours = fastest(sweep), THEMES[theme]
    numbers = [int(figures["name"]) for figures in sweep]
    rates = {peer: [medians(figures)[peer] for figures in sweep] for peer in peers}
    lowest, highest = min(map(min, rates.values())), max(map(max, rates.values()))
    steps = [factor * 10**power for power in range(5) for factor in (1, 2, 5)]
    bottom, top = max(filter(lowest.__ge__, steps)), min(filter(highest.__le__, steps))
    x = lambda number: LEFT + (WIDTH - LEFT - RIGHT) * log(number / numbers[0]) / log(numbers[-1] / numbers[0])
    y = lambda rate: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * log(rate / bottom) / log(top / bottom)
    text = lambda x, y, what, more="": f'<text x="{x:.1f}" y="{y:.1f}" {more}>{what}</text>'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{colours["ink"]}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{colours["paper"]}"/>',
        text(12, 22, "Encoding on one core: MB/s", 'font-weight="600"'),
        text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "occurrences of each word", 'text-anchor="middle"'),
    ]
    for rate in (step for step in steps if bottom <= step <= top):
        parts.append(f'<path d="M{LEFT} {y(rate):.1f}H{WIDTH - RIGHT}" stroke="{colours["faint"]}"/>')
        parts.append(text(LEFT - 8, y(rate) + 4, rate, 'text-anchor="end"'))
    parts += [text(x(number), HEIGHT - BOTTOM + 20, number, 'text-anchor="middle"') for number in numbers]
    places = spread({peer: y(rates[peer][-1]) + 4 for peer in peers})
    for peer, colour in zip(peers, LINES[theme]):
        width = 3 if peer == OURS else 2
        points = [(x(number), y(rate)) for number, rate in zip(numbers, rates[peer])]
        path = "L".join(f"{across:.1f} {down:.1f}" for across, down in points)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        parts += [f'<circle cx="{across:.1f}" cy="{down:.1f}" r="{width}" fill="{colour}"/>' for across, down in points]
        weight = ' font-weight="600"' if peer == OURS else ""
        parts.append(text(WIDTH - RIGHT + 10, places[peer], LABELS.get(peer, peer), f'fill="{colour}"{weight}'))
    return "\n".join([*parts, "</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda given: given.split(",")
    parser.add_argument("--harness", type=Path, help="the folder with encode_peers.py")
    parser.add_argument("--program", type=Path, default=Path("target/release/tokenmill"))
    parser.add_argument("--text", type=Path, help="a text in many languages, UTF-8")
    parser.add_argument("--peers", type=names, default=names("gigatoken,fastokens,hf-rc-rust,tokie"))
    parser.add_argument("--only", type=names, help="the texts to measure: recurrence-1, …, or a script")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mb", type=float, default=20, help="megabytes of each text; of a script at most")
    parser.add_argument("--vocab-size", type=int, default=32768)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--avx2", action="store_true", help="hide AVX-512 from all programs")
    parser.add_argument("--scratch", type=Path, default=Path("target/sweep"))
    parser.add_argument("--json", type=Path, help="keep all figures in this file")
    parser.add_argument("--read", type=Path, help="take the figures of this file instead of measuring")
    parser.add_argument("--picture", type=Path, help="draw the recurrence sweep: the path up to -light.svg")
    options = parser.parse_args()
    if options.read:
        measured = json.loads(options.read.read_text())
        peers = list(dict.fromkeys(peer for figures in measured for peer in figures["mb_s"] if peer != OURS))
    elif options.harness and (options.harness / "encode_peers.py").is_file():
        peers = options.peers
        command = [options.program, "--version", "--verbose"]
        print(subprocess.run(command, env=environment(options), check=True, capture_output=True, text=True).stdout)
        measured = (measure(options, *text) for text in texts(options))
    else:
        parser.error("--harness must name the folder with encode_peers.py, which runs the other programs")
    all_figures = []
    for sweep, group in itertools.groupby(measured, lambda figures: figures["sweep"]):
        print_heading(sweep, peers)
        for figures in group:
            print_row(figures, peers)
            all_figures.append(figures)
            if options.json:
                options.json.write_text(json.dumps(all_figures, indent=1) + "\n")
    recurrence = [figures for figures in all_figures if figures["sweep"] == "recurrence"]
    if options.picture and len(recurrence) > 1:
        for theme in THEMES:
            Path(f"{options.picture}-{theme}.svg").write_text(draw_picture(recurrence, theme), encoding="utf-8")


if __name__ == "__main__":
    main()
