"""Rows that prediction sets are fitted on, or measured on, some at a time: with weights and groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from surefoot.auditing._reading import OnRows
from surefoot.auditing._sampling import Sample, halves
from surefoot.auditing._walking import log_probs
from surefoot.logs import finite_logs
from surefoot.schema import Predictions
from surefoot.sources.labels import Array
from surefoot.sources.source import Source


@dataclass(frozen=True)
class Rows:
    """Consecutive rows as logits in float64, the half, 0 or 1, that each was dealt to, and their numbers."""

    logits: Array
    labels: Array
    halves: Array
    weights: Array | None = None
    groups: Mapping[str, Array] = field(default_factory=dict)
    numbers: Array = field(default_factory=lambda: np.empty(0, np.int64))

    def half(self, number: int) -> Rows:
        """Return the rows of one half."""
        chosen = self.halves == number
        weights = None if self.weights is None else self.weights[chosen]
        groups = {name: np.asarray(values)[chosen] for name, values in self.groups.items()}
        numbers = self.numbers[chosen]
        return Rows(self.logits[chosen], self.labels[chosen], self.halves[chosen], weights, groups, numbers)


def rows_of(source: Source, where: str, on_rows: OnRows | None = None) -> Iterator[Rows]:
    """Go through all rows once.

    Args:
        source: Its kind is known.
        where: The file, for messages.
        on_rows: Called while reading.

    Yields:
        Some rows at a time.
    """
    start = 0
    for chunk in source.chunks():
        if source.kind == "logits":
            logits = chunk.scores.astype(np.float64)
        else:
            logits = log_probs(chunk, source, start, where).numpy()
            if source.form != "choices":  # of which those that a row does not have stay at −∞
                logits = finite_logs(logits, single=chunk.scores.dtype == np.float32)
        start += len(chunk.labels)
        yield Rows(logits, chunk.labels, halves(chunk.rows), chunk.weights, chunk.groups, chunk.rows)
        if on_rows:
            on_rows(start, chunk.share)


def sampled_rows(source: Source, where: str, most_values: int) -> tuple[Predictions, Array]:
    """Read as many rows as are kept to fit on, drawn at random where there are more.

    Args:
        source: Its kind is known.
        where: The file, for messages.
        most_values: How many rows × classes to keep.

    Returns:
        The rows, and the half of each.
    """
    sample, weighted = Sample("rows for sets"), False
    for rows in rows_of(source, where):
        weighted = rows.weights is not None
        weights = rows.weights if rows.weights is not None else np.ones(len(rows.labels))
        room = max(1000, most_values // rows.logits.shape[1])
        sample.add(room, rows.numbers, rows.logits, rows.labels, rows.halves, weights)
    logits, labels, dealt, weights = sample.taken()
    kept = weights if weighted else None
    names = source.class_names
    return Predictions(logits, labels, "calibration", class_names=names, weights=kept, form=source.form), dealt
