"""Reports of progress: to a function of the caller, or as a bar of tqdm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Report: TypeAlias = Callable[[str, int, int | None], object]
    Progress: TypeAlias = bool | Report | None


@contextmanager
def reporting(progress: Progress) -> Iterator[Report | None]:
    """Gives the function to call with each report, or ``None``, and closes the bar at the end."""
    if progress is None or progress is False:
        yield None
    elif callable(progress):
        yield progress
    else:
        bar = _Bar()
        try:
            yield bar if bar.is_possible else None
        finally:
            bar.close()


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
