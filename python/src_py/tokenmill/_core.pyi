"""The functions and classes of tokenmill that are written in Rust."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias, final

import numpy as np
import numpy.typing as npt
import tiktoken
from transformers import PreTrainedTokenizerFast

from tokenmill._show import Pieces

__all__ = [
    "ArrowStream",
    "Counts",
    "DecodeStream",
    "Tokenizer",
    "__version__",
    "count",
    "encode",
    "from_pickle",
    "get_encoding",
    "main",
    "merge",
    "merge_counts",
    "plan",
    "run",
    "train",
]

__version__: str

_Text: TypeAlias = str | bytes | bytearray
_Path: TypeAlias = str | PathLike[str]
_Special: TypeAlias = Literal["text", "allow", "forbid"]
_Ids: TypeAlias = Sequence[SupportsIndex] | npt.NDArray[Any]
_Report: TypeAlias = Callable[[str, int, int | None], object]

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Tokenizer:
    """Encodes texts to token ids, and decodes ids to text.

    Any number of threads can use one tokenizer at the same time. It can be pickled, and used in forked processes.
    """

    @staticmethod
    def from_file(
        path: _Path,
        *,
        split: str | None = None,
        special_tokens: Sequence[tuple[str, int]] | Mapping[str, int] | None = None,
        special: _Special = "text",
    ) -> Tokenizer: ...
    @staticmethod
    def from_str(json: _Text, *, special: _Special = "text") -> Tokenizer: ...
    @staticmethod
    def from_pretrained(
        name: str, *, revision: str | None = None, token: str | None = None, special: _Special = "text"
    ) -> Tokenizer: ...
    @staticmethod
    def from_ranks(
        pattern: str,
        ranks: Sequence[tuple[bytes, int]] | Mapping[bytes, int],
        special_tokens: Sequence[tuple[str, int]] | Mapping[str, int],
        *,
        special: _Special = "text",
    ) -> Tokenizer: ...
    @staticmethod
    def from_tiktoken(encoding: tiktoken.Encoding, *, special: _Special = "text") -> Tokenizer: ...
    def prepare(self) -> None: ...
    def with_special(self, special: _Special) -> Tokenizer: ...
    def encode(
        self, text: _Text, *, bos: bool = False, eos: bool = False, dropout: float = 0.0, seed: int = 0
    ) -> list[int]: ...
    def encode_to_numpy(self, text: _Text, *, bos: bool = False, eos: bool = False) -> npt.NDArray[np.uint32]: ...
    def encode_batch(
        self, texts: Iterable[_Text], *, bos: bool = False, eos: bool = False, threads: int | None = None
    ) -> list[list[int]]: ...
    def encode_batch_flat(
        self, texts: Iterable[_Text], *, bos: bool = False, eos: bool = False, threads: int | None = None
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]: ...
    def encode_arrow(
        self,
        data: _ArrowStream | object,
        *,
        column: str = "text",
        keep: Sequence[str] = (),
        bos: bool = False,
        eos: bool = False,
        dtype: Literal["int32", "uint32"] = "int32",
        threads: int | None = None,
    ) -> ArrowStream: ...
    def count(self, text: _Text) -> int: ...
    def count_batch(self, texts: Iterable[_Text], *, threads: int | None = None) -> list[int]: ...
    def decode(self, ids: _Ids, *, errors: str = "replace", skip_special_tokens: bool = False) -> str: ...
    def decode_bytes(self, ids: _Ids, *, skip_special_tokens: bool = False) -> bytes: ...
    def decode_batch(
        self, rows: Iterable[_Ids], *, errors: str = "replace", skip_special_tokens: bool = False
    ) -> list[str]: ...
    def decode_stream(self) -> DecodeStream: ...
    def token_to_id(self, token: _Text) -> int | None: ...
    def id_to_token(self, id: int) -> bytes | None: ...
    def get_vocab(self) -> dict[bytes, int]: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def special_tokens(self) -> dict[str, int]: ...
    @property
    def bos_token_id(self) -> int | None: ...
    @property
    def eos_token_id(self) -> int | None: ...
    @property
    def special(self) -> _Special: ...
    @property
    def fingerprint(self) -> str: ...
    def pieces(self, text: _Text) -> Pieces: ...
    def get_mergeable_ranks(self) -> list[tuple[bytes, int]]: ...
    def get_pattern(self) -> str: ...
    def save_pretrained(self, folder: _Path, *, formats: Sequence[str] = ...) -> list[Path]: ...
    def to_str(self) -> str: ...
    def to_transformers(self) -> PreTrainedTokenizerFast: ...
    def as_tiktoken(self, name: str = "tokenmill") -> tiktoken.Encoding: ...
    def __reduce__(self) -> tuple[Callable[[bytes, str], Tokenizer], tuple[bytes, str]]: ...
    def _repr_html_(self) -> str: ...

@final
class DecodeStream:
    """Decodes ids one by one, to text that never ends within a character."""

    def push(self, id: int) -> str: ...
    def finish(self) -> str: ...

@final
class ArrowStream:
    """A stream of record batches that are made as they are read, which can be read once."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Counts:
    """The distinct pre-tokens of a corpus with their counts, and how the text was split.

    Its length is the number of distinct pre-tokens. `tokenmill.train` learns from it.
    """

    @staticmethod
    def from_file(
        path: _Path,
        *,
        split: str | None = None,
        special_tokens: Sequence[str] | None = None,
        boundary: str | None = None,
        memory: str | None = None,
    ) -> Counts: ...
    @staticmethod
    def from_arrow(
        data: _ArrowStream | object, *, split: str | None = None, special_tokens: Sequence[str] | None = None
    ) -> Counts: ...
    def to_arrow(self) -> ArrowStream: ...
    def write(self, path: _Path, *, order: bool = False) -> None: ...
    @property
    def split(self) -> str: ...
    @property
    def special_tokens(self) -> list[str]: ...
    @property
    def total(self) -> int: ...
    def __len__(self) -> int: ...

def get_encoding(name: str, *, path: _Path | None = None, special: _Special = "text") -> Tokenizer: ...
def train(
    json: _Text,
    *,
    texts: Iterable[_Text] | None = None,
    table: object | None = None,
    column: str = "text",
    counts: Counts | None = None,
    files: Sequence[_Path] = (),
    extend: _Path | None = None,
    keep_merges: int | None = None,
    threads: int | None = None,
    progress: _Report | None = None,
) -> Tokenizer: ...
def count(
    json: _Text,
    *,
    texts: Iterable[_Text] | None = None,
    table: object | None = None,
    column: str = "text",
    threads: int | None = None,
    progress: _Report | None = None,
) -> Counts: ...
def merge_counts(
    paths: Sequence[_Path],
    out: _Path,
    *,
    weights: Sequence[str] | None = None,
    split: str | None = None,
    boundary: str | None = None,
    special_tokens: Sequence[str] | None = None,
    memory: str | None = None,
    threads: int | None = None,
    progress: _Report | None = None,
) -> str: ...
def encode(
    json: _Text,
    call: str,
    *,
    tokenizer: Tokenizer | None = None,
    threads: int | None = None,
    force: bool = False,
    progress: _Report | None = None,
) -> str: ...
def merge(folders: Sequence[_Path], out: _Path) -> str: ...
def run(
    path: _Path | None,
    json: _Text,
    overrides: _Text,
    *,
    threads: int | None = None,
    force: bool = False,
    progress: _Report | None = None,
) -> str: ...
def plan(
    path: _Path | None,
    json: _Text,
    overrides: _Text,
    *,
    threads: int | None = None,
    nodes: int | None = None,
    cores: int | None = None,
    text_bytes: str | None = None,
    rates: _Path | None = None,
    progress: _Report | None = None,
) -> str: ...
def from_pickle(json: bytes, settings: str) -> Tokenizer: ...
def main(words: Sequence[str]) -> int: ...
