"""A dataset of Hugging Face, encoded by two processes: as lists of Python, and as Arrow without Python objects.

Run: pip install datasets pyarrow, then python datasets_map.py
"""

from __future__ import annotations

from typing import Any

import datasets
import pyarrow as pa

import tokenmill

TEXTS = [f"row {number} of the text, which is {'very ' * (number % 5)}short" for number in range(1000)]


def main() -> None:
    """Encodes the same rows in both ways."""
    tokenizer = tokenmill.train_from_iterator(TEXTS, 320, special_tokens=["<|endoftext|>"])
    rows = datasets.Dataset.from_dict({"id": range(len(TEXTS)), "text": TEXTS})

    def encode(batch: dict[str, Any]) -> dict[str, Any]:
        return {"input_ids": tokenizer.encode_batch(batch["text"])}

    # The tokenizer is pickled for each process. A process of several encodes with one thread.
    lists = rows.map(encode, batched=True, num_proc=2, remove_columns=["text"])

    def encode_table(table: pa.Table) -> pa.Table:
        return pa.table(tokenizer.encode_arrow(table, keep=["id"]))

    arrow = rows.with_format("arrow").map(encode_table, batched=True, num_proc=2, remove_columns=["text"])

    assert arrow.with_format(None)["input_ids"][:] == lists["input_ids"][:]
    print(lists)
    print(sum(map(len, lists["input_ids"])), "tokens")


if __name__ == "__main__":
    datasets.disable_progress_bars()
    main()
