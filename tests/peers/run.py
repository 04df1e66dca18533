"""Compares tokenmill with other tokenizer programs. Stops at the first difference with exit code 1.

    python tests/peers/run.py --program target/release/tokenmill --scratch target/peers
"""

import argparse
import importlib
import os
import shutil
import sys
import time
from pathlib import Path

CHECKS = [
    "vectors", "merges", "parity", "superwords", "ids", "foreign", "edited", "config", "next_version", "minbpe_model",
    "output", "stores", "pages", "explorer", "walk", "python_package",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, required=True, help="the release binary")
    parser.add_argument("--scratch", type=Path, required=True, help="a folder that is emptied and filled")
    parser.add_argument("--corpora", type=Path, help="folder of swanns-way.txt and gutenberg-poetry.parquet")
    parser.add_argument("--vectors", type=Path, help="folder of taylorswift-minbpe-1000.json; wants --corpora")
    parser.add_argument("--next-python", type=Path, help="a Python that has the packages of requirements-next.txt")
    parser.add_argument("--parity-peer", type=Path, help="the program of tests/peers/parity")
    parser.add_argument("--texts", nargs="+", type=Path, help="plain texts to compare on instead, by paragraphs")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"of {', '.join(CHECKS)} (default: all)")
    arguments = parser.parse_args()

    shutil.rmtree(arguments.scratch, ignore_errors=True)
    arguments.scratch.mkdir(parents=True)
    scratch = arguments.scratch.resolve()
    # No peer uses the network or writes outside the scratch folder. tiktoken would find files of an earlier run, which
    # had the same paths, in its cache.
    os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=str(scratch / "huggingface"), TIKTOKEN_CACHE_DIR="")
    os.environ.update(TOKENIZERS_PARALLELISM="true", TRANSFORMERS_VERBOSITY="error")

    from program import Setting, Text, find_texts

    corpora = arguments.corpora and arguments.corpora.resolve(strict=True)
    program, texts = arguments.program.resolve(strict=True), find_texts(corpora, scratch)
    if arguments.texts:
        texts = [Text(path.stem, path.resolve(strict=True), None, paragraphs=True) for path in arguments.texts]
    vectors = arguments.vectors and arguments.vectors.resolve(strict=True)
    # The path is not resolved: Python finds its virtual environment by the link.
    next_python = arguments.next_python and arguments.next_python.absolute()
    parity_peer = arguments.parity_peer and arguments.parity_peer.resolve(strict=True)
    setting = Setting(program, scratch, texts, corpora, vectors, next_python, parity_peer)
    print("texts:", ", ".join(text.name for text in setting.texts), flush=True)
    for name in arguments.checks or CHECKS:
        started = time.monotonic()
        try:
            for line in importlib.import_module(name).check(setting):
                print(f"  {name}: {line} ({time.monotonic() - started:.1f} s)", flush=True)
                started = time.monotonic()
        except AssertionError as difference:
            sys.exit(f"  {name}: DIFFERENT: {difference}")


if __name__ == "__main__":
    main()
