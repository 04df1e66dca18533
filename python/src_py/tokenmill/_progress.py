"""Reports of progress: to a function of the caller, or as a bar of tqdm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Report: TypeAlias = Callable[[str, int, int | None], object]
    Progress: TypeAlias = bool | Report | None


class reporting:
    """Gives the function to call with each report, or ``None``, and closes the bar at the end."""

    def __init__(self, progress: Progress) -> None:
        self._bar = _Bar() if progress and not callable(progress) else None
        self._report = progress if callable(progress) else self._bar if self._bar and self._bar.is_possible else None

    def __enter__(self) -> Report | None:
        return self._report

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()


class _Bar:
    """A bar of tqdm for each stage, if it is installed."""

    def __init__(self) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            tqdm = None
        self._tqdm: Any = tqdm
        self._bar: Any = None
        self._stage = ""

    @property
    def is_possible(self) -> bool:
        """Whether tqdm is installed."""
        return self._tqdm is not None

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Shows how much of a stage is done."""
        if stage != self._stage:
            self.close()
            self._stage = stage
            self._bar = self._tqdm(desc=stage, total=total, unit_scale=True)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Ends the bar of the last stage."""
        if self._bar is not None:
            self._bar.close()
