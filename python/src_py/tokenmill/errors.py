"""The exceptions of tokenmill.

Each has the message as ``message``, what can be done about it as ``help`` (or ``None``), and the exit code of the
command line for the same failure as ``exit_code``.

Example:
    >>> import tokenmill
    >>> try:
    ...     tokenmill.Tokenizer.from_file("no-such-folder")
    ... except FileNotFoundError as error:
    ...     print(type(error).__name__, error.exit_code, error.message)
    NotFoundError 1 cannot read no-such-folder: No such file or directory (os error 2)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import ClassVar

__all__ = [
    "AuthorisationError",
    "DiskFullError",
    "InputChangedError",
    "MemoryLimitError",
    "MismatchError",
    "NetworkError",
    "NotFoundError",
    "SystemFailure",
    "TokenmillError",
    "UsageError",
]


class TokenmillError(Exception):
    """A failure: of an input, of an output, or any other that has no class of its own."""

    exit_code: ClassVar[int] = 1
    message: str
    help: str | None

    def __init__(self, message: str, help: str | None = None) -> None:
        # With two arguments, OSError takes them for the number of an error and its text.
        super().__init__(message)
        self.message = message
        self.help = help

    def __reduce__(self) -> tuple[type[TokenmillError], tuple[str, str | None]]:
        """What is pickled: the message and the help."""
        return type(self), (self.message, self.help)

    def __str__(self) -> str:
        """The message, and the help on a line of its own."""
        return self.message if self.help is None else f"{self.message}\n  help: {self.help}"


class UsageError(TokenmillError, ValueError):
    """A mistake in the call: a wrong argument, or a column that does not exist."""

    exit_code = 2


class NotFoundError(TokenmillError, FileNotFoundError):
    """A file does not exist."""


class MismatchError(TokenmillError):
    """Two results that should be equal differ."""

    exit_code = 4


class NetworkError(TokenmillError, ConnectionError):
    """The network failed, or a server gave a wrong answer or none."""

    exit_code = 5


class AuthorisationError(TokenmillError, PermissionError):
    """A server requires a token, a different token, or the acceptance of terms."""

    exit_code = 6


class DiskFullError(TokenmillError, OSError):
    """The disk is full, or a limit on the size of files is reached."""

    exit_code = 7


class MemoryLimitError(TokenmillError, MemoryError):
    """The work needs more memory than it may use."""

    exit_code = 8


class InputChangedError(TokenmillError):
    """An input changed while it was read."""


class SystemFailure(TokenmillError, OSError):
    """The operating system failed, not the input: a disk, a mount, or too many open files."""
