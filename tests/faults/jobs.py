"""The jobs that are disturbed: small ones for a fault at each operation, larger ones for a fault at a random moment."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from hub import DATASET, SLOW
from scene import Scene

SMALL_RECIPE = """
[[source]]
uri = "demo:verse?lines=3000&seed=3"
column = "line"
[[source]]
uri = "text.jsonl"
column = "line"
weight = 0.5
[train]
vocab_size = [400, 500]
special_tokens = ["<|endoftext|>"]
formats = ["hf", "tiktoken", "minbpe"]
[encode]
eos = "<|endoftext|>"
[output]
dir = "out"
file_text_bytes = 100_000
[run]
threads = 1
"""

LARGE_RECIPE = """
[source]
uri = "demo:verse?lines={lines}&seed=3"
column = "line"
[sample]
take = 20000
[train]
vocab_size = 600
special_tokens = ["<|endoftext|>"]
[encode]
documents = "all"
columns = ["gutenberg_id"]
eos = "<|endoftext|>"
[output]
dir = "out"
file_text_bytes = {file_bytes}
[run]
threads = 2
"""

# Training in two stages, and encoding with dropout.
STAGES_RECIPE = """
[source]
uri = "demo:verse?lines={lines}&seed=4"
column = "line"
[train]
stages = [{{ split = "gpt4", vocab_size = 1000 }}, {{ split = "superword", vocab_size = 1400, max_words = 4 }}]
[encode]
dropout = 0.1
dropout_seed = 5
[output]
dir = "out"
[run]
memory = "{memory}"
threads = {threads}
"""

# Parity-aware training of two sources, with a development text for each.
PARITY_RECIPE = """
[[source]]
uri = "demo:verse?lines=3000&seed=3"
column = "line"
[[source]]
uri = "text.jsonl"
column = "line"
weight = 2
[train]
vocab_size = 400
parity = { development = ["demo:verse?lines=300&seed=4", "text.jsonl"], window = 10 }
[output]
dir = "out"
[run]
threads = 1
"""


def nothing(_):
    """Prepares no input and no environment variables."""
    return {}


@dataclass(frozen=True)
class Job:
    """A command with its input and its checks."""

    name: str
    # Arguments of the program.
    arguments: list[str]
    # Writes the input to a folder and returns the environment variables for the program.
    prepare: Callable = nothing
    # Checks the files and the output of an undisturbed run, in addition to its exit code.
    check: Callable = lambda scene, said: None
    # The folders that it writes into.
    roots: tuple[str, ...] = ("out",)
    # The command locks its output folder and removes unfinished files of a killed run from it.
    owns_folder: bool = False


def lines_of_words(rows):
    """Lines with repeated words and with words that occur once."""
    return "".join(f"row {n} of {n % 97} and {n * n % 31} words, {n * 2654435761 % 4096:x}\n" for n in range(rows))


def write_text(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(lines_of_words(rows))


def run(name, recipe, rows=0):
    def prepare(folder):
        (folder / "recipe.toml").write_text(recipe)
        texts = lines_of_words(rows).splitlines()
        (folder / "text.jsonl").write_text("".join(json.dumps({"line": line}) + "\n" for line in texts))
        return {}

    return Job(name, ["run", "recipe.toml", "-q"], prepare, owns_folder=True)


def train(rows, *more):
    settings = ["--documents", "line", "--split", "gpt2", "--special-token", "<|endoftext|>", "--vocab-size", "300,400"]
    formats = ["--formats", "hf,tiktoken,minbpe,gpt2"]
    arguments = ["train", "texts/*.txt", *settings, *formats, "-o", "out", "-q", *more]

    def prepare(folder):
        write_text(folder / "texts/a.txt", rows)
        write_text(folder / "texts/b.txt", rows // 2)
        return {}

    return Job("train", arguments, prepare)


def count(name, source, memory, prepare=nothing, more=()):
    """Counts different words. If `memory` is too small for them, the counts must go to disk."""
    limit = ["--memory", memory] if memory else []

    def spilled(scene, said):
        spills = json.loads(said)["spills"]
        scene.must(not memory or spills > 2, f"{spills} sorted runs went to disk, too few to prove anything")

    arguments = ["count", source, *limit, "--split", "gpt2", "-o", "out/counts.parquet", "--json", "-q", *more]
    return Job(name, arguments, prepare, spilled)


def generated(words):
    """A generated source with this number of different words, in numeric order."""
    return f"demo:words?distinct={words}&lines={words // 4}"


def download(hubs, rows, *more):
    """Downloads a dataset from a hub into the cache and trains on it."""
    arguments = ["train", f"hf://datasets/{DATASET}/*.txt", "--documents", "line", "--merges", "40", "-o", "out", "-q"]

    def prepare(folder):
        write_text(folder / "hub/long.txt", rows)
        write_text(folder / "hub/short.txt", 100)
        return {"HF_ENDPOINT": hubs.serve(folder / "hub", SLOW), "HF_HOME": str(folder / "hf")}

    def arrived(scene, _):
        blobs = {digest for name, digest in scene.expected.items() if "/blobs/" in name}
        served = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (scene.folder / "hub").iterdir()}
        scene.must(blobs == served, "the cache does not hold what the hub has")

    return Job("download", arguments + list(more), prepare, arrived, roots=("out", "hf"))


def small(setting):
    """Jobs on one thread that do every kind of file operation, in as few operations as possible."""
    one = ["--threads", "1"]
    return [
        run("run", SMALL_RECIPE, rows=2000),
        run("stages", STAGES_RECIPE.format(lines=3000, memory="1GB", threads=1)),
        run("parity", PARITY_RECIPE, rows=2000),
        train(200, *one),
        count("count", generated(60_000), "4MB", more=["--column", "line", *one]),
        download(setting.hubs, 4_000, *one),
    ]


def large(setting):
    """Jobs of about a second each, or a quarter of that with `--quick`, on two threads on every machine."""
    part, two = 4 if setting.given.quick else 1, ["--threads", "2"]
    return [
        train(300_000 // part, *two),
        count("count", generated(400_000 // part), "20MB", more=["--column", "line", *two]),
        run("encode", LARGE_RECIPE.format(lines=900_000 // part, file_bytes=20_000_000 // part)),
        run("stages", STAGES_RECIPE.format(lines=300_000 // part, memory="64MB", threads=2)),
        download(setting.hubs, 400_000 // part, *two),
    ]


def dealt_out(setting, check, many):
    """Yields each large job after one undisturbed run, with random numbers and its share of `many` disturbances. The
    first jobs get the remainder."""
    every = large(setting)
    for number, job in enumerate(every):
        scene = Scene(setting, check, job)
        scene.leave_alone()
        yield scene, setting.draws(check, job.name), len(range(number, many, len(every)))
