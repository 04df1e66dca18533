"""Texts that are encoded and packed while a model trains, by the workers of a torch DataLoader.

Run: pip install torch, then python dataloader.py
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import tokenmill

TEXTS = [f"document {number} of the corpus, which says {number * 7919}" for number in range(1000)]


class Blocks(IterableDataset[torch.Tensor]):
    """Rows of one length: the ids of texts end to end, each text ended by the id ``end``.

    Each worker takes its own part of the texts.
    """

    def __init__(self, tokenizer: tokenmill.Tokenizer, texts: list[str], end: int, length: int) -> None:
        super().__init__()
        self.tokenizer, self.texts, self.end, self.length = tokenizer, texts, end, length

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        part = islice(self.texts, worker.id, None, worker.num_workers) if worker else iter(self.texts)
        waiting: list[int] = []
        # Batches release Python's lock. In a worker they use one thread, since the other workers use the other cores.
        while batch := list(islice(part, 100)):
            for ids in self.tokenizer.encode_batch(batch):
                waiting += [*ids, self.end]
            while len(waiting) >= self.length:
                yield torch.tensor(waiting[: self.length])
                del waiting[: self.length]


def main() -> None:
    """Makes batches of inputs and targets."""
    tokenizer = tokenmill.train_from_iterator(TEXTS, 300, special_tokens=["<|endoftext|>"])
    blocks = Blocks(tokenizer, TEXTS, tokenizer.special_tokens["<|endoftext|>"], length=65)
    batches = list(DataLoader(blocks, batch_size=8, num_workers=2))
    inputs, targets = batches[0][:, :-1], batches[0][:, 1:]
    print(tuple(inputs.shape), tuple(targets.shape), inputs.dtype)
    print(tokenizer.decode(inputs[0])[:30])
    print(sum(batch.numel() for batch in batches), "of", sum(tokenizer.count_batch(TEXTS)) + len(TEXTS), "ids")


if __name__ == "__main__":
    main()
