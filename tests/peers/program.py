"""Runs the program, reads its files, and provides the texts for comparisons."""

import json
import random
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SPECIAL = "<|endoftext|>"
GPT4 = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"""
    r"""| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)


@dataclass(frozen=True)
class Text:
    """A training text: a file, and its documents as Python strings."""

    name: str
    path: Path
    column: str | None
    paragraphs: bool = False

    def documents(self):
        if self.paragraphs:
            text = self.path.read_bytes().decode("utf-8")
            yield from (paragraph for paragraph in re.split(r"(?:\r?\n){2}", text) if paragraph)
            return
        if self.column is None:
            yield self.path.read_bytes().decode("utf-8")
            return
        for batch in pq.ParquetFile(self.path).iter_batches(columns=[self.column]):
            yield from batch.column(0).to_pylist()

    def arguments(self):
        if self.paragraphs:
            return [self.path, "--documents", "paragraph"]
        return [self.path] if self.column is None else [self.path, "--column", self.column]


@dataclass(frozen=True)
class Setting:
    """The program, a folder for its files, the texts, and optional paths: corpora, known answers, a Python with
    tokenizers 1.0, and the program of `parity/`."""

    program: Path
    scratch: Path
    texts: list[Text]
    corpora: Path | None
    vectors: Path | None
    next_python: Path | None
    parity_peer: Path | None

    def run(self, *arguments):
        return self.ran(*arguments).stdout

    def ran(self, *arguments):
        command = [str(argument) for argument in (self.program, *arguments)]
        done = subprocess.run(command, cwd=self.scratch, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
        return done

    def train(self, name, *arguments):
        """Trains a tokenizer into a new folder and returns the folder."""
        folder = self.scratch / name
        self.run("train", *arguments, "-o", folder, "--quiet")
        return folder

    def encode(self, name, documents, tokenizer, *arguments):
        """Encodes strings. Returns a list of ids for each."""
        return token_ids(self.encode_to_folder(name, documents, tokenizer, *arguments))

    def encode_to_folder(self, name, documents, tokenizer, *arguments):
        """Encodes strings. Returns the output folder."""
        documents_path = self.scratch / f"{name}.jsonl"
        with documents_path.open("w", encoding="utf-8") as lines:
            lines.writelines(json.dumps({"text": document}) + "\n" for document in documents)
        folder = self.scratch / name
        self.run("encode", documents_path, "-t", tokenizer, "-o", folder, "--quiet", *arguments)
        return folder


def token_ids(folder):
    """The ids in an output folder, one list per row."""
    files = sorted((folder / "data").glob("*.parquet"))
    return [ids for file in files for ids in pq.read_table(file)["input_ids"].to_pylist()]


def merges(tokenizer_json):
    """The merges of a tokenizer.json as pairs, in whichever of the two spellings the file has them."""
    pairs = json.loads(tokenizer_json)["model"]["merges"]
    return [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in pairs]


def byte_of_character():
    """GPT-2's byte alphabet: maps each character to the byte that it represents."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    shifted = {chr(256 + place): byte for place, byte in enumerate(rest)}
    return {chr(byte): byte for byte in printable} | shifted


def find_texts(corpora, scratch):
    """Swann's Way and the poetry corpus, or generated texts if no folder of corpora is given."""
    if corpora is not None:
        return [
            Text("Swann's Way", corpora / "swanns-way.txt", None),
            Text("Gutenberg poetry", corpora / "gutenberg-poetry.parquet", "line"),
        ]
    words = generated_words(random.Random(1))
    prose, verse = scratch / "generated.txt", scratch / "generated.parquet"
    prose.write_text(" ".join(words(200_000)), encoding="utf-8")
    lines = [" ".join(words(8)).capitalize() for _ in range(50_000)]
    numbers = pa.array(range(len(lines)), pa.int64())
    pq.write_table(pa.table({"line": lines, "gutenberg_id": numbers}), verse, row_group_size=10_000)
    return [Text("generated prose", prose, None), Text("generated verse", verse, "line")]


def generated_words(chance):
    """A generator of words made of syllables, with the long-tailed frequencies of prose."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "en", "ar", "é")]
    lexicon = ["".join(chance.choices(syllables, k=chance.randint(1, 4))) for _ in range(30_000)]
    weights = [1 / (rank + 2) for rank in range(len(lexicon))]
    ends = ["", "", "", "", "", ",", ".", "'s", " 17", "!\n"]

    def words(count):
        return [word + chance.choice(ends) for word in chance.choices(lexicon, weights, k=count)]

    return words
