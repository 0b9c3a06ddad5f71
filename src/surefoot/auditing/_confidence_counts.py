"""Right and wrong answers in fine cells of confidence, of each half of the rows and of each group."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from surefoot.auditing._labels import Array
from surefoot.errors import InputError
from surefoot.seeding import derive

_NINES = 12  # cells become ever finer towards 1: a thousandth of what is missing to it, down to 1e-12
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
    counted are then a plain sample, and binomial bounds of them are exact. Where a heavier row comes than any before,
    the counts so far are thinned as much as it takes.

    Args:
        name: Of the rows, by which the random numbers are chosen.
    """

    def __init__(self, name: str) -> None:
        self.counts = np.zeros((2, 2, len(LOWER_ENDS)), np.int64)  # half, whether wrong, cell
        self.rows = np.zeros(2, np.int64)
        self._heaviest = 0.0
        self._random = np.random.default_rng(derive(0, f"audit weights {name}"))

    def add(self, cell: Array, wrong: Array, half: Array, weights: Array | None, *, are_counts: bool) -> None:
        """Count some rows.

        Args:
            cell: Of each row.
            wrong: Whether the answer is.
            half: 0 or 1.
            weights: How much each row represents, or for how many rows it stands.
            are_counts: Whether it is the latter.
        """
        self.rows += np.bincount(half, minlength=2)
        place = np.ravel_multi_index((half, wrong.astype(np.int64), cell), self.counts.shape)
        if weights is not None and not are_counts:
            place = place[self._keep(weights.astype(np.float64))]
        times = weights.astype(np.int64) if weights is not None and are_counts else 1
        np.add.at(self.counts.reshape(-1), place, times)

    def _keep(self, weights: Array) -> Array:
        heaviest = float(weights.max(initial=0.0))
        if heaviest > self._heaviest:
            self.counts = self._random.binomial(self.counts, self._heaviest / heaviest)
            self._heaviest = heaviest
        kept: Array = self._random.random(len(weights)) * self._heaviest < weights
        return kept

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
        groups: Mapping[str, Array],
        weights: Array | None = None,
    ) -> None:
        """Count some rows.

        Args:
            confidence: How sure each answer is.
            correct: Whether it is right.
            halves: 0 or 1.
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
        self.total.add(cell, wrong, halves, weights, are_counts=self._are_counts)
        for column, values in groups.items():
            found = self.groups.setdefault(column, {})
            names, places = np.unique(values, return_inverse=True)
            for number, name in enumerate(map(str, names)):
                rows = places == number
                some = None if weights is None else weights[rows]
                cells = found.setdefault(name, Cells(f"{column}/{name}"))
                cells.add(cell[rows], wrong[rows], halves[rows], some, are_counts=self._are_counts)
