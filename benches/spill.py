#!/usr/bin/env python3
"""Counts a generated text whose distinct pre-tokens need more memory than the limit allows.

    python3 benches/spill.py target/release/tokenmill FOLDER [MEMORY]

Writes 2 GB of made-up words into FOLDER, 16 million different ones that each come 14 times far apart, counts
them without a limit and with one of MEMORY (256MB), and compares the two counts files byte by byte. Prints
time, peak memory and the number of sorted runs of both.
"""

import filecmp
import json
import os
import sys
import time

WORDS, ROUNDS = 16_000_000, 14
LETTERS = str.maketrans("0123456789abcdef", "abcdefghijklmnop")


def generate(path):
    """The rounds begin at different places of the same list, so that repetitions meet across runs."""
    words = (f"{(n * 2_654_435_761) % (1 << 32):x} " for n in range(WORDS))
    block = "".join(words).translate(LETTERS).encode()
    with open(path, "wb") as file:
        for number in range(ROUNDS):
            cut = block.index(b" ", len(block) * number // ROUNDS) + 1
            file.write(block[cut:] + block[:cut])


def count(program, text, out, *more):
    """Runs the program, and gives what it says of its result with its time and peak memory."""
    reading, writing = os.pipe()
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        os.execv(program, [program, "count", text, "-o", out, "--split", "gpt2", "--json", "--quiet", *more])
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    _, status, used = os.wait4(child, 0)
    if status:
        sys.exit(f"count {more} ended with {status}")
    result = json.loads(said)
    return result, time.monotonic() - start, used.ru_maxrss / 1024


def main():
    program, folder, memory = (sys.argv[1:] + ["256MB"])[:3]
    text = os.path.join(folder, "words.txt")
    if not os.path.exists(text):
        generate(text)
    print(f"{os.path.getsize(text) / 1e9:.2f} GB of text")
    files = []
    for name, more in [("whole", []), ("spilled", ["--memory", memory])]:
        files.append(os.path.join(folder, name + ".parquet"))
        result, seconds, peak = count(program, text, files[-1], *more)
        print(f"{name}: {result['pretokens']} pre-tokens, {result['spills']} sorted runs, {seconds:.1f} s, {peak:.0f} MiB")
    same = filecmp.cmp(*files, shallow=False)
    print("the same bytes" if same else "THE FILES DIFFER")
    sys.exit(not same)


if __name__ == "__main__":
    main()
