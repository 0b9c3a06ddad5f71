"""A part of the rows: one of several files, or consecutive rows of it, that a source reads instead of all.

Readers ask :func:`current` when they start. It is set while the first rows of a source are read and no longer, so that
no other source reads through somebody else's window.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from surefoot.sources.labels import Array

if TYPE_CHECKING:
    from surefoot.sources.source import Raw, Source

T = TypeVar("T")


@dataclass(frozen=True)
class Window:
    """Consecutive rows of one file.

    Attributes:
        file: Which of the files, in their order.
        first: The first row, counted within the file.
        last: The row behind the last; None for all that follow.
        before: How many rows come before the first, in all files.
    """

    file: int = 0
    first: int = 0
    last: int | None = None
    before: int = 0


_CURRENT: ContextVar[Window | None] = ContextVar("window", default=None)


def current() -> Window | None:
    """Return the part that is to be read; None for all rows."""
    return _CURRENT.get()


def files_in_view(paths: Sequence[Path]) -> Sequence[int]:
    """Return which of several files are to be read."""
    window = current()
    return range(len(paths)) if window is None else [window.file]


def rows_in_view(n: int) -> tuple[int, int]:
    """Return the first row and the row behind the last that are to be read of a file with n rows."""
    window = current()
    if window is None:
        return 0, n
    return min(n, window.first), n if window.last is None else min(n, window.last)


@contextmanager
def _looking(window: Window) -> Iterator[None]:
    token = _CURRENT.set(window)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _through(reading: Generator[T], window: Window) -> Generator[T]:
    with closing(reading):
        with _looking(window):
            first = next(reading, None)
        if first is not None:
            yield first
            yield from reading


def seen_through(source: Source, window: Window, where: str) -> Source:
    """Return the rows of a source that are in a window.

    Args:
        source: All rows, in files whose readers know windows.
        window: Which of them.
        where: What they are called in messages.

    Returns:
        A source of these rows alone.
    """

    def start() -> Generator[Raw]:
        return _through(source.start(), window)

    def start_labels() -> Generator[Array]:
        return _through(source.start_labels(), window)

    groups = source.start_groups
    return replace(
        source,
        start=start,
        start_labels=start_labels,
        start_groups=None if groups is None else lambda: _through(groups(), window),
        first_row=window.before,
        is_part=True,
        where=where,
    )
