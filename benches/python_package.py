#!/usr/bin/env python3
"""The speed of the Python package beside other packages and beside the command line.

Each measurement is a process of its own: it loads and prepares what it needs, makes a call with one letter, and then
times one call with all texts, which it sees for the first time. Everything takes turns, and the table has the median,
the least and the greatest of several runs, the median of the processor time, and the ratios of the medians to
tokenmill's. On a busy machine, only the processor time tells something. All ids and merges are checked to be equal.

- lists: a list of `str` to a list of lists of `int`. gigatoken's is `encode_batch_list`.
- arrays: a list of `str` to one array of ids. gigatoken's is an array of awkward.
- Arrow: a table of texts to a table of ids, beside `tokenmill bench`, which encodes the same texts.
- call: 100 000 calls with one short text each, one after the other.
- train: `train_from_iterator` of a list, beside the whole command `tokenmill train` of the Parquet file.

A text is a UTF-8 file; its documents are what lies between two empty lines. All read them from one Parquet file. The
packages may be in different environments, each with pyarrow.

    benches/python_package.py books.txt code.txt --python venv/bin/python --program target/release/tokenmill
                              [--peers peers/bin/python] [--rc rc/bin/python] [--limit-mb 50] [--runs 5]
                              [--vocab-size 32768] [--only lists,arrays,arrow,call,train] [--scratch DIR]
"""

import argparse
import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Documents in one call of the packages that need much memory for a result.
PART = 4096

# The measurements of each kind, tokenmill's first, with the environment of each.
KINDS = {
    "lists": {
        "tokenmill": "python",
        "gigatoken": "peers",
        "tokenizers 1.0-rc": "rc",
        "tiktoken": "peers",
    },
    "arrays": {"tokenmill": "python", "gigatoken": "peers"},
    "arrow": {"tokenmill": "python", "bench": "program"},
    "call": {
        "tokenmill": "python",
        "gigatoken": "peers",
        "tokenizers 1.0-rc": "rc",
        "tiktoken": "peers",
    },
    "train": {"tokenmill": "python", "train": "program"},
}


def documents(text):
    import pyarrow.parquet

    return pyarrow.parquet.read_table(text)["text"].to_pylist()


def timed(call, documents):
    start, used = time.perf_counter(), time.process_time()
    result = call(documents)
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - used}, result


def digest(rows):
    """A hash of all ids, as `tokenmill bench` computes it."""
    import numpy

    found = hashlib.sha256()
    for row in rows:
        found.update(numpy.asarray(row, dtype="<u4").tobytes())
    return found.hexdigest()


def in_parts(call):
    """`call` with some documents at a time."""
    return lambda documents: [
        ids for first in range(0, len(documents), PART) for ids in call(documents[first : first + PART])
    ]


def tokenmill_calls(tokenizer):
    import tokenmill

    loaded = tokenmill.Tokenizer.from_file(tokenizer)
    loaded.prepare()
    return loaded.encode, loaded.encode_batch


def gigatoken_calls(tokenizer):
    import gigatoken

    loaded = gigatoken.Tokenizer(tokenizer)
    return lambda text: loaded.encode_batch_list([text])[0], loaded.encode_batch_list


def rc_calls(tokenizer):
    import tokenizers

    loaded = tokenizers.Tokenizer.from_file(tokenizer)
    one = lambda text: loaded.encode(text, add_special_tokens=False).ids
    return one, in_parts(lambda some: [row.ids for row in loaded.encode_batch(some, add_special_tokens=False)])


def tiktoken_calls(tokenizer):
    import base64

    import tiktoken

    lines = Path(tokenizer).with_suffix(".tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
    encoding = tiktoken.Encoding("peer", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    batch = lambda some: encoding.encode_ordinary_batch(some, num_threads=os.cpu_count())
    return encoding.encode_ordinary, in_parts(batch)


def calls(name, tokenizer):
    """The functions of a package that encode one text and several texts to lists of ids."""
    load = {"tokenmill": tokenmill_calls, "gigatoken": gigatoken_calls, "tokenizers 1.0-rc": rc_calls}
    return load.get(name, tiktoken_calls)(tokenizer)


def lists(name, tokenizer, text):
    (_, several), texts = calls(name, tokenizer), documents(text)
    several(["a"])
    figures, rows = timed(several, texts)
    return {**figures, "result": digest(rows)}


def call(name, tokenizer, _text):
    (one, _), text = calls(name, tokenizer), "The quick brown fox jumps over the lazy dog."
    figures, rows = timed(lambda texts: [one(text) for text in texts], [text] * 100_000)
    return {**figures, "result": digest(rows[:1])}


def arrays(name, tokenizer, text):
    if name == "tokenmill":
        import tokenmill

        loaded = tokenmill.Tokenizer.from_file(tokenizer)
        loaded.prepare()
        call, flat = loaded.encode_batch_flat, lambda result: result[0]
    else:
        import awkward
        import gigatoken

        call = gigatoken.Tokenizer(tokenizer).encode_batch
        flat = lambda result: awkward.to_numpy(awkward.flatten(result))
    texts = documents(text)
    call(["a"])
    figures, result = timed(call, texts)
    return {**figures, "result": digest([flat(result)])}


def arrow(_name, tokenizer, text):
    import pyarrow
    import tokenmill

    loaded, table = tokenmill.Tokenizer.from_file(tokenizer), pyarrow.table({"text": documents(text)})
    loaded.prepare()
    figures, result = timed(lambda table: pyarrow.table(loaded.encode_arrow(table)), table)
    ids = result["input_ids"].combine_chunks().flatten().to_numpy()
    return {**figures, "result": digest([ids])}


def train(_name, tokenizer, text):
    import tokenmill

    size = tokenmill.Tokenizer.from_file(tokenizer).vocab_size
    figures, learned = timed(lambda texts: tokenmill.train_from_iterator(texts, size, split="gpt2"), documents(text))
    return {**figures, "result": hashlib.sha256(learned.to_str().encode()).hexdigest()}


def make(_name, tokenizer, text):
    """Writes the documents of a text, and the tokenizer that is trained on them."""
    import pyarrow.parquet
    import tokenmill

    limit, size = map(int, os.environ["LIMIT_AND_SIZE"].split())
    with open(text, "rb") as file:
        texts = [one for one in file.read(limit).decode(errors="replace").split("\n\n") if one]
    table = pyarrow.table({"text": texts})
    pyarrow.parquet.write_table(table, Path(tokenizer).with_name("text.parquet"), compression="none")
    learned = tokenmill.train_from_iterator(texts, size, split="gpt2")
    learned.save_pretrained(Path(tokenizer).parent, formats=["hf", "tiktoken"])
    return {
        "documents": len(texts),
        "bytes": sum(len(one.encode()) for one in texts),
        "tokens": len(learned.encode_batch_flat(texts)[0]),
    }


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_program(program, kind, folder):
    text, reading = folder / "text.parquet", ["--column", "text", "--json", "--quiet"]
    if kind == "arrow":
        said = json.loads(subprocess.check_output([program, "bench", text, "-t", folder / "tokenizer.json", *reading]))
        return {"seconds": said["encode_s"], "cpu": said["encode_cpu_s"], "result": said["ids_sha256"]}
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        out = Path(scratch) / "out"
        size = ["--vocab-size", os.environ["LIMIT_AND_SIZE"].split()[1]]
        command = [program, "train", text, "-o", out, *size, "--split", "gpt2", *reading]
        start, used = time.perf_counter(), children_cpu()
        subprocess.check_output(command)
        figures = {"seconds": time.perf_counter() - start, "cpu": children_cpu() - used}
        return {**figures, "result": hashlib.sha256((out / "tokenizer.json").read_bytes()).hexdigest()}


def run(options, kind, name, where, folder, text):
    if where == "program":
        return run_program(options.program, kind, folder)
    report = folder / "report.json"
    command = [getattr(options, where), __file__, "--worker", kind, name, folder / "tokenizer.json", text, report]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{kind}, {name}: {done.stderr[-2000:]}")
    return json.loads(report.read_text())


def measure(options, text, folder):
    os.environ["LIMIT_AND_SIZE"] = f"{int(options.limit_mb * 1e6)} {options.vocab_size}"
    made = run(options, "make", "", "python", folder, text)
    print(f"\n{text.name}: {made['bytes'] / 1e6:.0f} MB, {made['documents']} documents, {made['tokens']} tokens\n")
    print("| kind | program | median s | least | most | times tokenmill's | processor s | times tokenmill's |")
    print("| --- | --- | --: | --: | --: | --: | --: | --: |")
    for kind in options.only:
        peers = {name: where for name, where in KINDS[kind].items() if getattr(options, where)}
        runs = {name: [] for name in peers}
        for _ in range(options.runs):
            for name, where in peers.items():
                runs[name].append(run(options, kind, name, where, folder, folder / "text.parquet"))
        first = runs["tokenmill"]
        median = lambda runs, figure: statistics.median(one[figure] for one in runs)
        for name, found in runs.items():
            different = {one["result"] for one in found} != {first[0]["result"]}
            seconds, used = median(found, "seconds"), median(found, "cpu")
            cells = [
                kind,
                name + " (OTHER RESULT)" * different,
                f"{seconds:.3f}",
                f"{min(one['seconds'] for one in found):.3f}",
                f"{max(one['seconds'] for one in found):.3f}",
                f"{seconds / median(first, 'seconds'):.2f}",
                f"{used:.3f}",
                f"{used / median(first, 'cpu'):.2f}",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--python", required=True, help="the interpreter with tokenmill and pyarrow")
    parser.add_argument("--program", default="target/release/tokenmill", help="the command line")
    parser.add_argument("--peers", help="the interpreter with gigatoken, awkward and tiktoken")
    parser.add_argument("--rc", help="the interpreter with tokenizers 1.0-rc")
    parser.add_argument("--limit-mb", type=float, default=50)
    parser.add_argument("--vocab-size", type=int, default=32768)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default=",".join(KINDS), type=lambda given: given.split(","))
    parser.add_argument("--scratch", type=Path)
    options = parser.parse_args()
    for text in options.texts:
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            measure(options, text, Path(folder))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        _, _, kind, name, tokenizer, text, report = sys.argv
        Path(report).write_text(json.dumps(globals()[kind](name, tokenizer, text)))
    else:
        main()
