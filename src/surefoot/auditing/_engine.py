"""Who walks through the rows: this process, or others that each take a part and merge what they found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from surefoot.auditing._reading import OnRows
from surefoot.sources.source import Source


class Merges(Protocol):
    """What a walk through rows leaves behind."""

    def merge(self, other: Any) -> None:
        """Add what was found in other rows."""


M = TypeVar("M", bound=Merges)
Step = Callable[[Source, OnRows | None], M]  # walks through some rows


class Engine(Protocol):
    """Walks through all rows of a source."""

    def walk(self, source: Source, step: Step[M], on_rows: OnRows | None = None) -> M:
        """Walk through the rows in one or more parts.

        Args:
            source: All rows.
            step: What to do with a part of them.
            on_rows: Called while reading.

        Returns:
            What all parts together leave behind.
        """


class Here:
    """This process walks through all rows, one after the other."""

    def walk(self, source: Source, step: Step[M], on_rows: OnRows | None = None) -> M:
        """Walk through all rows at once."""
        return step(source, on_rows)


HERE = Here()
