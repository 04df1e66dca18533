#!/usr/bin/env python3
"""Latency, decoding and loading of the Python package beside other packages, on one core.

Each measurement is a process of its own, and the packages take turns. All ids and texts are checked to be equal; a
package with others is named, and not shown. The tables have medians of processor time, on which other work on the
machine has less influence.

- call: nanoseconds of encoding and of counting a text of 1, 20, 200 or 2 000 bytes, in a loop over 1 000 different
  texts from the given one. A package that cannot count encodes.
- decode: megabytes of text per second in one call with the ids of all documents, as lists of `int`, or in one call for
  each if the package has no such call.
- load: seconds from a file to the first id, and megabytes of memory afterwards and at the highest, above those of the
  process before.

A vocabulary is a `.tiktoken` file of OpenAI with its own name, `cl100k_base` or `o200k_base`. The program converts it
to a `tokenizer.json` without special tokens, and with a pattern that all packages know. A text is a UTF-8 file; its
documents are what lies between two empty lines.

    benches/latency.py books.txt --vocabulary cl100k_base.tiktoken --vocabulary o200k_base.tiktoken
                       --python venv/bin/python [--peers peers/bin/python] [--rc rc/bin/python]
                       [--program target/release/tokenmill] [--only call,decode,load] [--rounds 5] [--limit-mb 20]
                       [--scratch DIR]

`--python` is the interpreter with tokenmill, `--peers` one with fastokens, gigatoken, tiktoken and tokie, and `--rc`
one with tokenizers 1.0-rc.
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MB = 1_000_000
SIZES = [1, 20, 200, 2000]
TEXTS = 1000
# Seconds for which the calls of one size are repeated.
LONG_ENOUGH = 0.3

# For each vocabulary the split that its `tokenizer.json` gets. Files of Hugging Face's hub have the same.
SPLITS = {"cl100k_base": "gpt4", "o200k_base": "o200k"}

# Each package with the option that names its environment, tokenmill's first.
PACKAGES = {
    "tokenmill": "python",
    "fastokens": "peers",
    "gigatoken": "peers",
    "tiktoken": "peers",
    "tokie": "peers",
    "tokenizers 1.0-rc": "rc",
}
# The files that a package can load.
FORMATS = {
    "tokenmill": ["tiktoken", "json"],
    "fastokens": ["tiktoken", "json"],
    "gigatoken": ["json"],
    "tiktoken": ["tiktoken"],
    "tokie": ["json"],
    "tokenizers 1.0-rc": ["json"],
}


# --- packages: how each loads a file, and its functions that encode, count, and decode several -----------------------


def tokenmill(path):
    """tokenmill, prepared by nothing but loading."""
    import tokenmill

    loaded = tokenmill.Tokenizer.from_file(path)
    return loaded.encode, loaded.count, loaded.decode_batch


def fastokens(path):
    """Fastokens, which decodes a list of lists."""
    from fastokens import Tokenizer

    is_json = path.endswith(".json")
    loaded = Tokenizer.from_file(path) if is_json else Tokenizer.from_tiktoken(path, encoding=Path(path).stem)
    encode = lambda text: loaded.encode_ordinary(text).ids
    return encode, lambda text: len(encode(text)), loaded.decode_batch


def gigatoken(path):
    """Gigatoken, which decodes one text at a time, to bytes."""
    from gigatoken import Tokenizer

    loaded = Tokenizer(path)
    encode = lambda text: loaded.encode_batch_list([text])[0]
    decode = loaded.decode
    return encode, lambda text: len(encode(text)), lambda rows: [decode(row) for row in rows]


def tiktoken(path):
    """Tiktoken, with the pattern of the `tokenizer.json` beside the file."""
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    pattern = Path(path).with_suffix(".pattern").read_text()
    ranks = load_tiktoken_bpe(path)
    encoding = tiktoken.Encoding("peer", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    encode = encoding.encode_ordinary
    return encode, lambda text: len(encode(text)), lambda rows: encoding.decode_batch(rows, num_threads=1)


def tokie(path):
    """Tokie."""
    from tokie import Tokenizer

    loaded = Tokenizer.from_json(path)
    return lambda text: loaded.encode(text, False).ids, loaded.count_tokens, loaded.decode_batch


def tokenizers(path):
    """Tokenizers 1.0-rc, which decodes one text at a time."""
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(path)
    encode = lambda text: loaded.encode(text, add_special_tokens=False).ids
    decode = loaded.decode
    return encode, lambda text: len(encode(text)), lambda rows: [decode(row, skip_special_tokens=False) for row in rows]


def load(package, path):
    """The functions of a package with a tokenizer."""
    return globals()[package.partition(" ")[0]](path)


# --- measurements, each in a process of its own ----------------------------------------------------------------------


def digest(parts):
    """A hash of all parts, each with its length."""
    found = hashlib.sha256()
    for part in parts:
        found.update(b"%d " % len(part))
        found.update(part)
    return found.hexdigest()


def ids_digest(rows):
    """A hash of all ids."""
    return digest(json.dumps(list(row)).encode() for row in rows)


def pieces(text, size):
    """Pieces of a text, from places all over it, of about `size` bytes and of whole words."""
    places = range(0, len(text) - 2 * size - 100, len(text) // TEXTS)
    for place in places:
        begin = text.index(b" ", place)
        yield text[begin : begin + size].decode(errors="ignore")


def call(package, path, text):
    """Nanoseconds of a call that encodes, and of one that counts, for each size."""
    encode, count, _ = load(package, path)
    text = Path(text).read_bytes().replace(b"\n", b" ")
    figures, results = {}, []
    for size in SIZES:
        texts = list(pieces(text, size))
        rows = [encode(one) for one in texts]
        assert [len(row) for row in rows] == [count(one) for one in texts]
        results.append(ids_digest(rows))
        for name, function in (("encode", encode), ("count", count)):
            figures[f"{name} {size}"] = nanoseconds(function, texts)
    return figures, results


def nanoseconds(function, texts):
    """Nanoseconds of a call, the median of passes over all texts."""
    passes, until = [], time.process_time() + LONG_ENOUGH
    while len(passes) < 3 or time.process_time() < until:
        start = time.process_time_ns()
        for one in texts:
            function(one)
        passes.append((time.process_time_ns() - start) / len(texts))
    return statistics.median(passes)


def encode(package, path, text):
    """Writes the ids of all documents for `decode`."""
    encode, *_ = load(package, path)
    rows = [encode(one) for one in documents(text)]
    Path(text).with_suffix(".ids").write_text(json.dumps(rows))


def documents(text):
    """The documents of a text."""
    return Path(text).read_text(encoding="utf-8").split("\n\n")


def decode(package, path, text):
    """Megabytes per second of decoding."""
    *_, decode_batch = load(package, path)
    rows = json.loads(Path(text).with_suffix(".ids").read_text())
    decode_batch(rows[:1])
    start = time.process_time()
    decoded = decode_batch(rows)
    seconds = time.process_time() - start
    decoded = [one if isinstance(one, bytes) else one.encode() for one in decoded]
    assert decoded == [one.encode() for one in documents(text)], "other texts"
    return {"MB/s": sum(map(len, decoded)) / MB / seconds}, None


def memory(field):
    """Megabytes of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024 / MB


def loading(package, path, _text):
    """Seconds and memory of loading."""
    # What a package imports is not counted: an environment may have more than another.
    __import__(package.partition(" ")[0])
    if package == "tiktoken":
        import tiktoken.load  # noqa: F401
    before = memory("VmRSS")
    start = time.process_time()
    encode, *_ = functions = load(package, path)
    rows = [encode("a")]
    seconds = time.process_time() - start
    figures = {"seconds": seconds, "MB": memory("VmRSS") - before, "highest MB": memory("VmHWM") - before}
    del functions
    return figures, [ids_digest(rows)]


KINDS = {"call": call, "encode": encode, "decode": decode, "load": loading}


# --- the driver ------------------------------------------------------------------------------------------------------


def run(options, kind, package, path, text, scratch):
    """The figures and the results of one process, on one core."""
    report = scratch / "report.json"
    interpreter = getattr(options, PACKAGES[package])
    command = [interpreter, __file__, "--worker", kind, package, path, text, report]
    pin = ["taskset", "-c", str(max(os.sched_getaffinity(0)))]
    environment = {**os.environ, "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    done = subprocess.run([*pin, *command], env=environment, text=True, **pipes)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["it failed"]
        return None, last[0][:100]
    return json.loads(report.read_text())


def measure(options, kind, vocabulary, files, text, scratch):
    """Prints the table of one kind and one vocabulary."""
    runs, first, left_out = {}, None, {}
    cells = [
        (package, form)
        for package, where in PACKAGES.items()
        if getattr(options, where)
        for form in (FORMATS[package] if kind == "load" else FORMATS[package][-1:])
    ]
    if kind == "decode":
        run(options, "encode", "tokenmill", files["json"], text, scratch)
    for _ in range(options.rounds):
        for cell in cells:
            if cell in left_out:
                continue
            figures, result = run(options, kind, cell[0], files[cell[1]], text, scratch)
            first = first or result
            if figures is None or result != first:
                left_out[cell] = "other ids" if figures else result
                continue
            runs.setdefault(cell, []).append(figures)
    names = list(next(iter(runs.values()))[0])
    print(f"\n| {vocabulary}, {kind} | {' | '.join(names)} |\n| --- {'| --: ' * len(names)}|")
    for package, form in cells:
        label = f"{package}, {form}" if kind == "load" else package
        if (package, form) in left_out:
            print(f"| {label} | {left_out[package, form]} |")
            continue
        medians = [statistics.median(figures[name] for figures in runs[package, form]) for name in names]
        print(f"| {label} | {' | '.join(f'{value:.3g}' if value < 100 else f'{value:.0f}' for value in medians)} |")
    sys.stdout.flush()


def convert(program, vocabulary, folder):
    """The files of a vocabulary, each with its format."""
    # A file with OpenAI's name has OpenAI's pattern and special tokens.
    unnamed, ranks = folder / "ranks.tiktoken", folder / vocabulary.name
    folder.mkdir(exist_ok=True)
    shutil.copyfile(vocabulary, unnamed)
    shutil.copyfile(vocabulary, ranks)
    out = folder / vocabulary.stem
    command = [program, "convert", unnamed, "--split", SPLITS[vocabulary.stem], "--to", "hf", "-o", out, "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    pattern = json.loads((out / "tokenizer.json").read_text())["pre_tokenizer"]["pretokenizers"][0]["pattern"]
    ranks.with_suffix(".pattern").write_text(pattern["Regex"])
    return {"tiktoken": ranks, "json": out / "tokenizer.json"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--vocabulary", type=Path, action="append", required=True, help="a .tiktoken file of OpenAI")
    parser.add_argument("--python", required=True, help="the interpreter with tokenmill")
    parser.add_argument("--peers", help="the interpreter with fastokens, gigatoken, tiktoken and tokie")
    parser.add_argument("--rc", help="the interpreter with tokenizers 1.0-rc")
    parser.add_argument("--program", type=Path, default=Path("target/release/tokenmill"))
    parser.add_argument("--only", default="call,decode,load", type=lambda given: given.split(","))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit-mb", type=float, default=20)
    parser.add_argument("--scratch", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        text = scratch / "text.txt"
        # Some packages do not take other bytes than UTF-8.
        beginning = options.text.open("rb").read(int(options.limit_mb * MB))
        text.write_text(beginning.decode(errors="ignore"), encoding="utf-8", newline="")
        del beginning
        for vocabulary in options.vocabulary:
            files = convert(options.program, vocabulary, scratch / "vocabulary")
            for kind in options.only:
                measure(options, kind, vocabulary.stem, files, text, scratch)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        _, _, kind, package, path, text, report = sys.argv
        Path(report).write_text(json.dumps(KINDS[kind](package, path, text)))
    else:
        main()
