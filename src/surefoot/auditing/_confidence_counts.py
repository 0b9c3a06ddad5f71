"""Right and wrong answers in fine cells of confidence, of each half of the rows and of each group."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from surefoot.auditing._sampling import numbers
from surefoot.errors import InputError
from surefoot.sources.labels import Array

_NINES = 12  # cells become ever finer towards 1: a thousandth of what is missing to it, down to 1e-12
_MOST_KEPT = 200_000  # weighted rows that are counted, of all and of each group
_ROUNDED = 1e-15  # what a confidence may lack for having been computed


def _lower_ends() -> Array:
    """Thresholds that can be chosen, fixed before any row is read: short decimals, 0.0001 apart up to 0.99.

    Every value is the float that its decimals are read as, for whole numbers are divided.
    """
    first = np.arange(9000) / 10_000
    towards_1 = [(10 ** (d + 3) - np.arange(1000, 100, -1)) / 10 ** (d + 3) for d in range(1, _NINES)]
    return np.concatenate([first, *towards_1, [1 - 10.0**-_NINES]])


LOWER_ENDS = _lower_ends()


class Cells:
    """Counts of answers in every cell of confidence, for both halves.

    Rows that represent different numbers of rows are kept at random in proportion to their weights: those that are
    counted are then a plain sample, and binomial bounds of them are exact. A row of weight w is kept where w is more
    than u times the weight of the heaviest, for a number u in (0, 1) that is drawn for it: those with the largest w / u
    are enough to tell, and if they are more than there is room for, fewer are kept of all weights alike.

    Args:
        name: Of the rows, by which the random numbers are chosen.
    """

    def __init__(self, name: str) -> None:
        self._counts = np.zeros((2, 2, len(LOWER_ENDS)), np.int64)  # half, whether wrong, cell
        self.rows = np.zeros(2, np.int64)
        self._name, self._heaviest, self._least = name, 0.0, 0.0
        self._kept: list[tuple[Array, Array]] = []  # w / u and place, of weighted rows

    def add(self, cell: Array, wrong: Array, half: Array, rows: Array, weights: Array | None, *, counts: bool) -> None:
        """Count some rows.

        Args:
            cell: Of each row.
            wrong: Whether the answer is.
            half: 0 or 1.
            rows: Their numbers.
            weights: How much each row represents, or for how many rows it stands.
            counts: Whether it is the latter.
        """
        self.rows += np.bincount(half, minlength=2)
        place = np.ravel_multi_index((half, wrong.astype(np.int64), cell), self._counts.shape)
        if weights is None or counts:
            np.add.at(self._counts.reshape(-1), place, 1 if weights is None else weights.astype(np.int64))
            return
        drawn = (numbers(f"weights {self._name}", rows) >> np.uint64(11)).astype(np.float64)
        with np.errstate(divide="ignore"):
            self._put(weights.astype(np.float64) / ((drawn + 0.5) * 2.0**-53), place.astype(np.int32), weights.max())

    def _put(self, ratios: Array, places: Array, heaviest: float) -> None:
        self._heaviest = max(self._heaviest, float(heaviest))
        self._least = max(self._least, self._heaviest)
        enough = ratios > self._least
        self._kept.append((ratios[enough], places[enough]))
        if sum(len(each) for each, _ in self._kept) > 2 * _MOST_KEPT:
            self._shrink()

    def _shrink(self) -> None:
        if not self._kept:
            return
        ratios, places = map(np.concatenate, zip(*self._kept, strict=True))
        if len(ratios) > _MOST_KEPT:
            self._least = max(self._least, float(np.partition(ratios, -_MOST_KEPT - 1)[-_MOST_KEPT - 1]))
        enough = ratios > self._least
        self._kept = [(ratios[enough], places[enough])]

    def merge(self, other: Cells) -> None:
        """Add what was counted of other rows."""
        self._counts = self._counts + other._counts  # which came from elsewhere, and may not be written to
        self.rows = self.rows + other.rows
        self._least = max(self._least, other._least)
        for ratios, places in other._kept or [(np.empty(0), np.empty(0, np.int32))]:
            self._put(ratios, places, other._heaviest)

    @property
    def counts(self) -> Array:
        """Answers by half, whether wrong, and cell."""
        self._shrink()
        found = self._counts.copy()
        for _, places in self._kept:
            np.add.at(found.reshape(-1), places, 1)
        return found

    def of(self, *halves: int) -> tuple[Array, Array, int]:
        """Return answers and wrong ones per cell, the surest cell first, and how many rows there were."""
        right, wrong = self.counts[list(halves)].sum(0)[:, ::-1]
        return right + wrong, wrong, int(self.rows[list(halves)].sum())


class ConfidenceCounts:
    """What a walk through the rows leaves behind for choosing thresholds; its size does not depend on their number.

    Args:
        are_counts: Whether weights say for how many rows each one stands, rather than how much it represents.
    """

    def __init__(self, *, are_counts: bool = False) -> None:
        self.total = Cells("all")
        self.groups: dict[str, dict[str, Cells]] = {}
        self.weighted = False
        self._are_counts = are_counts

    def add(
        self,
        confidence: Tensor,
        correct: Tensor,
        halves: Array,
        rows: Array,
        groups: Mapping[str, Array],
        weights: Array | None = None,
    ) -> None:
        """Count some rows.

        Args:
            confidence: How sure each answer is.
            correct: Whether it is right.
            halves: 0 or 1.
            rows: Their numbers.
            groups: The value of each row, by column.
            weights: How much each row counts.

        Raises:
            InputError: If rows are said to stand for a number of rows that is not whole.
        """
        if weights is not None and self._are_counts and bool((weights % 1 != 0).any()):
            raise InputError(
                f"Expected whole numbers as weights that are counts, but got {weights[weights % 1 != 0][0]:g}. Leave "
                "--risk out, or say that they are no counts."
            )
        self.weighted = self.weighted or (weights is not None and not self._are_counts)
        cell = np.searchsorted(LOWER_ENDS, confidence.double().numpy() + _ROUNDED, side="right") - 1
        wrong = ~correct.numpy().astype(bool)
        self.total.add(cell, wrong, halves, rows, weights, counts=self._are_counts)
        for column, values in groups.items():
            found = self.groups.setdefault(column, {})
            names, places = np.unique(values, return_inverse=True)
            for number, name in enumerate(map(str, names)):
                here = places == number
                some = None if weights is None else weights[here]
                cells = found.setdefault(name, Cells(f"{column}/{name}"))
                cells.add(cell[here], wrong[here], halves[here], rows[here], some, counts=self._are_counts)

    def merge(self, other: ConfidenceCounts) -> None:
        """Add what was counted of other rows."""
        self.total.merge(other.total)
        self.weighted |= other.weighted
        for column, values in other.groups.items():
            found = self.groups.setdefault(column, {})
            for name, cells in values.items():
                if name in found:
                    found[name].merge(cells)
                else:
                    found[name] = cells
