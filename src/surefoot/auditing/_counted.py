"""Rows as often as they count, and sums of values per row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from surefoot.auditing._sampling import digest
from surefoot.metrics.mean_losses import Losses
from surefoot.sources.labels import Array
from surefoot.sources.source import Chunk, Source, rows_per_chunk


@dataclass
class Weighing:
    """What weights were seen, before rows are left out or repeated.

    Attributes:
        rows: How many rows have one, of whatever weight.
        total: Their sum.
        squares: The sum of their squares.
    """

    rows: int = 0
    total: float = 0.0
    squares: float = 0.0
    places: int = 0
    """A digest, by which two files are told to have the same weights."""

    def add(self, weights: Array, rows: Array) -> None:
        """Look at some rows, with their numbers."""
        self.rows += len(weights)
        self.total += float(weights.sum())
        self.squares += float(np.square(weights).sum())
        self.places = (self.places + digest(rows, np.asarray(weights, np.float64))) % 2**64

    def merge(self, other: Weighing) -> None:
        """Add what was seen of other rows."""
        self.rows += other.rows
        self.total += other.total
        self.squares += other.squares
        self.places = (self.places + other.places) % 2**64

    @property
    def digest(self) -> str:
        """The same of the same weights in the same order; empty where there are none."""
        return f"{self.places:016x}" if self.rows else ""

    @property
    def effective(self) -> float:
        """How many equal rows they are worth: (Σw)² / Σw² (Kish 1965)."""
        return self.total**2 / self.squares if self.squares else 0.0


class Spans:
    """Which rows were read, by their numbers."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []

    def add(self, rows: Array) -> None:
        """Note some rows that follow those before, perhaps with others between that were left out."""
        if len(rows):
            first = self.found[0][0] if self.found else int(rows[0])
            self.found = [(first, int(rows[-1]))]


def counted(source: Source, seen: Weighing | None = None, spans: Spans | None = None) -> Iterator[Chunk]:
    """Read rows that count: those of weight 0 are left out, and those that stand for several repeated.

    Args:
        source: Says whether weights are counts.
        seen: Told of all weights.
        spans: Told which rows there are.

    Yields:
        Rows, with weights where they say how much a row represents.
    """
    done = source.first_row
    for chunk in source.chunks():
        if seen is not None and chunk.weights is not None:
            places = chunk.rows
            if source.weights_are == "counts":
                stands = np.where(chunk.weights > 0, chunk.weights, 0).astype(np.int64)
                places = done + stands.cumsum() - stands
            seen.add(chunk.weights, places)
        if chunk.weights is None or source.weights_are == "importance":
            if spans is not None:
                spans.add(chunk.rows)
            some = chunk
            if chunk.weights is not None and not bool((chunk.weights > 0).all()):
                some = _rows(chunk, np.flatnonzero(chunk.weights > 0))
            if len(some.labels):
                yield some
            continue
        kept = np.flatnonzero(chunk.weights > 0)
        ends = chunk.weights[kept].astype(np.int64).cumsum()
        size, total = rows_per_chunk(chunk.scores.shape[1]), int(ends[-1]) if len(ends) else 0
        for start in range(0, total, size):  # so many that memory stays bounded
            here = np.arange(start, min(start + size, total))
            # Numbered as the rows that they stand for would be.
            yield replace(_rows(chunk, kept[np.searchsorted(ends, here, side="right")]), weights=None, rows=done + here)
        done += total
        if spans is not None:
            spans.add(np.array([source.first_row, done - 1][: 2 * (done > source.first_row)]))


def weight_notes(seen: Weighing, n: int, source: Source) -> list[str]:
    """Say what weights mean for the results.

    Args:
        seen: All weights.
        n: How many rows count.
        source: Says what the weights are.

    Returns:
        A note; none where all rows count alike.
    """
    if not seen.rows:
        return []
    if source.weights_are == "counts":
        return [f"Each row stands for as many as its weight says: {seen.rows:,} rows count as {n:,}."]
    left = "" if n == seen.rows else f", of which {seen.rows - n:,} have a weight of 0 and do not count,"
    return [
        f"Rows are weighted: {seen.rows:,} rows{left} with weights that sum to {seen.total:,.6g} tell as much as "
        f"{seen.effective:,.0f} equally weighted ones would; intervals go by that."
    ]


def weights_of(chunk: Chunk) -> Tensor | None:
    """Return the weights of some rows; None where all count alike."""
    return None if chunk.weights is None else torch.from_numpy(np.require(chunk.weights, requirements="W"))


def _rows(chunk: Chunk, rows: Array) -> Chunk:
    groups = {name: np.asarray(values)[rows] for name, values in chunk.groups.items()}
    weights = None if chunk.weights is None else chunk.weights[rows]
    return Chunk(chunk.scores[rows], chunk.labels[rows], groups, chunk.share, weights, chunk.rows[rows])


@dataclass
class ValueSums:
    """Sums of a value per row: enough for its mean and the mean's standard error.

    With weights ``total`` is Σ w x, ``weight`` Σ w, and ``powers`` are Σ w² xᵏ for k = 0, 1, 2.
    """

    n: int = 0
    total: float = 0.0
    squares: float = 0.0
    weight: float | None = None
    powers: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def add(self, values: Tensor, weights: Tensor | None = None) -> None:
        """Add some rows."""
        if weights is not None:
            values, weights = values[weights > 0], weights[weights > 0]
        self.n += len(values)
        if weights is None:
            self.total += values.sum().item()
            self.squares += values.square().sum().item()
            return
        self.total += (weights * values).sum().item()
        self.weight = (self.weight or 0.0) + weights.sum().item()
        first, second, third = ((weights.square() * values**k).sum().item() for k in (0, 1, 2))
        self.powers = self.powers[0] + first, self.powers[1] + second, self.powers[2] + third

    def __add__(self, other: ValueSums) -> ValueSums:
        """Join rows."""
        both = [each.weight for each in (self, other) if each.weight is not None]
        first, second, third = (mine + its for mine, its in zip(self.powers, other.powers, strict=True))
        return ValueSums(
            self.n + other.n,
            self.total + other.total,
            self.squares + other.squares,
            sum(both) if both else None,
            (first, second, third),
        )

    def __sub__(self, other: ValueSums) -> ValueSums:
        """Take rows away that are among these."""
        weight = None if self.weight is None else self.weight - (other.weight or 0.0)
        first, second, third = (mine - its for mine, its in zip(self.powers, other.powers, strict=True))
        return ValueSums(
            self.n - other.n, self.total - other.total, self.squares - other.squares, weight, (first, second, third)
        )

    @property
    def mean(self) -> float:
        """Mean over all rows."""
        return self.total / (self.n if self.weight is None else self.weight)

    @property
    def has_squares(self) -> bool:
        """Whether the sum of the values' squares is a number."""
        return math.isfinite(self.squares) and math.isfinite(self.powers[2])

    @property
    def standard_error(self) -> float:
        """Standard error of the mean; infinite where values are too large to be squared."""
        if not self.has_squares:
            return math.inf
        if self.weight is not None:
            found = self.losses()
            return found.deviation / math.sqrt(found.n)
        variance = max(0.0, self.squares / self.n - self.mean**2)
        return math.sqrt(variance / max(1, self.n - 1))

    def losses(self) -> Losses:
        """Return what an interval of the mean needs."""
        if not self.n:
            return Losses(0, 0.0, 0.0, None if self.weight is None else 0.0)
        if self.weight is not None:
            return Losses.of_sums(self.weight, self.total, *self.powers)
        return Losses(self.n, self.mean, self.standard_error * math.sqrt(self.n))
