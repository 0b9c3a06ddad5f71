"""What an audit is to find out, and the walk that finds it out of some of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from surefoot.auditing._engine import Step
from surefoot.auditing._measures import wanted
from surefoot.auditing._reading import OnRows, Reading
from surefoot.auditing._slicing import Slicing
from surefoot.auditing._walking import collect
from surefoot.auditing.thresholds import risks_of
from surefoot.errors import InputError
from surefoot.sources.source import Source


@dataclass(frozen=True)
class Asked:
    """What an audit is to find out, the same for all parts of the rows.

    Attributes:
        n_bins: Number of bins.
        level: Of the intervals.
        positive: Of two classes, the one whose probability is the risk.
        metrics: What to show; else the usual measures.
        risk: Shares of wrong answers that are allowed.
    """

    n_bins: int = 15
    level: float = 0.95
    positive: str | None = None
    metrics: str | Sequence[str] | None = None
    risk: str | float | Sequence[float] | None = None

    @property
    def risks(self) -> tuple[float, ...]:
        """Shares of wrong answers that are allowed."""
        return risks_of(self.risk)

    def check(self, source: Source, file: str) -> None:
        """Refuse what makes no sense for these predictions.

        Args:
            source: The predictions.
            file: Their name, for messages.

        Raises:
            InputError: If something does not.
        """
        if self.n_bins < 1 or not 0 < self.level < 1:
            raise InputError(f"Expected bins ≥ 1 and a level between 0 and 1, but got {self.n_bins} and {self.level}.")
        if source.form == "multilabel":
            raise InputError(
                f"Expected one true class per row to compare, but {file} has several. Audit them one by one."
            )

    def keys(self, source: Source) -> tuple[str, ...]:
        """Return the keys of the metrics that are wanted."""
        return wanted(self.metrics, source.form, source.n_classes)

    def step(self, source: Source, file: str, slicing: Slicing | None) -> Step[Reading]:
        """Return what walks through some of the rows.

        Args:
            source: All rows.
            file: Their name, for messages.
            slicing: How rows are divided into slices.

        Returns:
            A function of a source and ``on_rows``.
        """
        keys = self.keys(source)
        return partial(_collect, n_bins=self.n_bins, where=file, metrics=keys, slicing=slicing, risks=bool(self.risks))


def _collect(source: Source, on_rows: OnRows | None, **options: Any) -> Reading:
    return collect(source, on_rows=on_rows, **options).shrink()
