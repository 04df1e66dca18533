"""A step of datatrove's pipelines that encodes with tokenmill."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from datatrove.pipeline.tokens.tokenizer import DocumentTokenizer, TokenizedFile
from datatrove.utils.batching import batched

from tokenmill._core import Tokenizer
from tokenmill.compat.hf import ids_around
from tokenmill.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt
    from datatrove.data import DocumentsPipeline

__all__ = ["TokenmillTokenizer"]


class TokenmillTokenizer(DocumentTokenizer):
    """Writes the same files as ``DocumentTokenizer``, and takes the same arguments, but encodes with tokenmill.

    Tasks are what datatrove runs at the same time, so a task uses one thread unless ``threads`` says otherwise.

    Args:
        *arguments: Those of ``DocumentTokenizer``. ``save_loss_metadata`` must be false: loss masks need the place of
            each token in the text.
        threads: The number of threads of a task.
        **keywords: As ``arguments``.

    Raises:
        UsageError: ``save_loss_metadata`` is true.

    Example:
        >>> from datatrove.executor import LocalPipelineExecutor
        >>> from datatrove.pipeline.readers import JsonlReader
        >>> from tokenmill.datatrove import TokenmillTokenizer
        >>> step = TokenmillTokenizer("tokens", "tokenizer/tokenizer.json", eos_token="<|endoftext|>")
        >>> executor = LocalPipelineExecutor([JsonlReader("texts"), step], tasks=2)
    """

    def __init__(self, *arguments: Any, threads: int = 1, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        if self.save_loss_metadata:
            raise UsageError(
                "`save_loss_metadata` needs the place of each token in the text, which tokenmill does not give",
                "use datatrove's DocumentTokenizer",
            )
        self.threads = threads

    @cached_property
    def encoder(self) -> Tokenizer:
        """The tokenizer of tokenmill.

        Raises:
            UsageError: The tokenizer shortens or pads texts, or has ids that the files cannot hold.
            TokenmillError: The tokenizer has a part that tokenmill does not reproduce.
        """
        if self.tokenizer.truncation or self.tokenizer.padding:
            raise UsageError(
                f"{self.tokenizer_name_or_path} shortens or pads texts",
                "remove `truncation` and `padding` from its file",
            )
        largest = max(self.tokenizer.get_vocab().values())
        if largest > np.iinfo(self.token_type).max:
            raise UsageError(f"the id {largest} does not fit into the {self.token_size} bytes of a token")
        return Tokenizer.from_str(self.tokenizer.to_str(), special="allow")

    @property
    def token_type(self) -> npt.DTypeLike:
        """The type of a token in the files."""
        return np.dtype("<u4" if self.token_size == 4 else "<u2")

    def write_unshuffled(self, data: DocumentsPipeline, filename: str) -> TokenizedFile:
        """Encodes documents and writes them in their order.

        Args:
            data: The documents.
            filename: The name of the file.
        """
        shuffles = self.shuffle_documents or self.shuffle_chunk_size
        before, after = ids_around(self.tokenizer)
        encoder = self.encoder
        file = TokenizedFile(
            self.local_working_dir if shuffles and self.local_working_dir else self.output_folder,
            filename,
            save_index=self.save_index or shuffles,
            upload_block_size=self.upload_block_size,
            tokenizer_name_or_path=self.tokenizer_name_or_path,
            save_final_metadata=self.save_final_metadata,
            token_size=self.token_size,
        )
        for batch in batched(data, self.batch_size):
            with self.track_time(unit="batch"):
                texts = [document.text for document in batch]
                ids, ends = _put_around(before, *encoder.encode_batch_flat(texts, threads=self.threads), after)
                file.write_bytes(ids.astype(self.token_type).tobytes(), ends.tolist())
                for length in np.diff(ends, prepend=0).tolist():
                    self.stat_update("tokens", value=length)
        file.close()
        return file


def _put_around(
    before: list[int], ids: npt.NDArray[np.uint32], offsets: npt.NDArray[np.int64], after: list[int]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """The ids of texts with others before and after those of each, and where each text ends."""
    rows = len(offsets) - 1
    starts, ends = offsets[:-1, None], offsets[1:, None]
    places = np.hstack([starts.repeat(len(before), axis=1), ends.repeat(len(after), axis=1)])
    around = np.tile(np.array([*before, *after], np.uint32), rows)
    added = len(before) + len(after)
    return np.insert(ids, places.ravel(), around), offsets[1:] + added * np.arange(1, rows + 1)
