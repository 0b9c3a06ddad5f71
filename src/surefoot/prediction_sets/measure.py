"""How often sets hold the true class, where they do not, and how large they are: on rows they were not fitted on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from surefoot.errors import InputError, SplitError
from surefoot.metrics.interval import Interval, around, check_level, no_interval
from surefoot.metrics.shares import exact_ends
from surefoot.prediction_sets._draws import Array
from surefoot.prediction_sets._law import chance_of_so_few, chance_of_so_few_at
from surefoot.prediction_sets._quantile import WeightsAre, check_weights
from surefoot.prediction_sets._rows import check_form
from surefoot.prediction_sets.sets import PredictionSets
from surefoot.schema import Predictions
from surefoot.statistics import holm

SIZES = ((0, 0), (1, 1), (2, 2), (3, 3), (4, 10), (11, 100), (101, math.inf))  # of sets, that are looked at together
MOST_GROUPS = 50
_ROWS, _W, _W2, _HITS, _SIZE, _SIZE2 = range(6)


@dataclass(frozen=True)
class PartCoverage:
    """Coverage of some of the rows: a class, a group, or sets of some size."""

    column: str
    """The group's column; empty for classes and sizes."""
    value: str
    n: int
    coverage: Interval
    mean_size: float
    p_value: float | None = None
    """How likely so few covered rows are, by Holm's correction for all classes, or all groups, looked at."""
    under: bool = False
    """Whether sets hold the true class less often than asked for, and chance does not explain it."""


@dataclass(frozen=True)
class SetMeasures:
    """What sets did on rows they were not fitted on. Shares are fractions."""

    n: int
    wanted: float
    coverage: Interval
    p_value: float | None
    """How likely so few covered rows are, if they are exchangeable with those the sets were fitted on; None with
    weights or thresholds per class, where that law is not known."""
    mean_size: Interval
    singletons: float
    empty: float
    sizes: tuple[tuple[int, float], ...]
    """Shares of the rows by the size of their set."""
    classes: tuple[PartCoverage, ...]
    """From the smallest coverage up; classes without rows are left out."""
    groups: tuple[PartCoverage, ...]
    by_size: tuple[PartCoverage, ...]

    @property
    def holds(self) -> bool:
        """Whether chance explains how often the true class is in the set."""
        return self.p_value is None or self.p_value >= 1 - self.coverage.level

    @property
    def under(self) -> tuple[PartCoverage, ...]:
        """Classes and groups that are covered too seldom, beyond chance."""
        return tuple(each for each in (*self.classes, *self.groups) if each.under)


@dataclass
class SetSums:
    """Sums over rows, added some at a time: rows, weights and their squares, hits, sizes and their squares."""

    n_classes: int
    classes: Array = field(init=False)
    sizes: Array = field(init=False)
    groups: dict[str, dict[str, Array]] = field(default_factory=dict)
    weighted: bool = False

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self.classes, self.sizes = np.zeros((self.n_classes, 6)), np.zeros((self.n_classes + 1, 6))

    def add(
        self, sets: Array, labels: Array, weights: Array | None = None, groups: Mapping[str, Array] | None = None
    ) -> None:
        """Add some rows.

        Args:
            sets: Which classes are in the set, shape ``(n, classes)``.
            labels: Shape ``(n,)``.
            weights: How much each row counts.
            groups: Columns that divide the rows.

        Raises:
            InputError: If a column has too many values.
        """
        self.weighted |= weights is not None
        w = np.ones(len(labels)) if weights is None else np.asarray(weights, np.float64)
        size, hit = sets.sum(axis=1), sets[np.arange(len(labels)), labels]
        each = np.stack([np.ones(len(labels)), w, w**2, w * hit, w * size, w * size**2])
        self.classes += _by(labels, each, self.n_classes)
        self.sizes += _by(size, each, self.n_classes + 1)
        for column, values in (groups or {}).items():
            names, places = np.unique(np.asarray(values).astype(str), return_inverse=True)
            found = self.groups.setdefault(column, {})
            for name, sums in zip(names, _by(places, each, len(names)), strict=True):
                found[str(name)] = found.get(str(name), np.zeros(6)) + sums
            if len(found) > MOST_GROUPS:
                raise InputError(
                    f"Expected at most {MOST_GROUPS} groups, but {column!r} has more values. Group by something with "
                    "few values."
                )

    def measures(
        self, sets: PredictionSets, *, level: float = 0.95, weights_are: WeightsAre = "importance"
    ) -> SetMeasures:
        """Return what the sums say.

        Args:
            sets: Those that were measured.
            level: Of the intervals.
            weights_are: What weights mean.

        Returns:
            Coverage and sizes.

        Raises:
            InputError: If there were no rows.
        """
        check_level(level)
        total = self.classes.sum(axis=0)
        if not total[_W]:
            raise InputError("Expected rows to measure sets on, but there are none that count. Pass some with labels.")
        by = _Parts(sets, level, weights_are, self.weighted)
        seen = [k for k in range(self.n_classes) if self.classes[k, _W]]
        classes = by.judged([("", sets.class_name(k), self.classes[k], by.law_of_class(k)) for k in seen])
        groups = by.judged([
            (column, value, sums, by.at_wanted)
            for column, found in self.groups.items()
            for value, sums in found.items()
            if sums[_W]
        ])
        law_is_known = not (self.weighted or sets.weighted or sets.per_class)
        p_value = chance_of_so_few(round(total[_HITS]), round(total[_W]), sets.n, sets.coverage)
        return SetMeasures(
            n=round(total[_ROWS]),
            wanted=sets.coverage,
            coverage=by.coverage(total),
            p_value=p_value if law_is_known else None,
            mean_size=by.mean_size(total, self.n_classes),
            singletons=float(self.sizes[1, _W] / total[_W]),
            empty=float(self.sizes[0, _W] / total[_W]),
            sizes=tuple((k, float(sums[_W] / total[_W])) for k, sums in enumerate(self.sizes) if sums[_W]),
            classes=tuple(sorted(classes, key=lambda each: (not each.under, each.coverage.estimate))),
            groups=groups,
            by_size=tuple(self._by_size(by)),
        )

    def _by_size(self, by: _Parts) -> list[PartCoverage]:
        found = []
        for low, high in SIZES:
            sums = self.sizes[low : int(min(high, self.n_classes)) + 1].sum(axis=0)
            if sums[_W]:
                words = f"{low}" if low == high else f"{low}–{min(high, self.n_classes)}"
                found.append(by.part("", words, sums))
        return found


def _by(places: Array, each: Array, n: int) -> Array:
    return np.stack([np.bincount(places, values, n) for values in each], axis=1)


@dataclass(frozen=True)
class _Parts:
    """Judges parts of the rows by their sums."""

    sets: PredictionSets
    level: float
    weights_are: WeightsAre
    weighted: bool

    def worth(self, sums: Array) -> float:
        """How many rows of equal weight these are worth (Kish), or how many they stand for."""
        return float(sums[_W] if self.weights_are == "counts" else sums[_W] ** 2 / sums[_W2])

    def coverage(self, sums: Array) -> Interval:
        n, share = self.worth(sums), float(sums[_HITS] / sums[_W])
        ends = exact_ends(min(n, share * n), n, self.level)
        return Interval("coverage", share, *ends, self.level, "exact")

    def mean_size(self, sums: Array, most: int) -> Interval:
        n, mean = self.worth(sums), float(sums[_SIZE] / sums[_W])
        if n < 2:
            return no_interval("set size", mean, self.level, "one row has no spread")
        variance = max(0.0, float(sums[_SIZE2] / sums[_W]) - mean**2)
        reach = NormalDist().inv_cdf((1 + self.level) / 2) * math.sqrt(variance / (n - 1))
        return Interval("set size", mean, *around(mean, reach, reach, (0.0, float(most))), self.level, "normal")

    def part(self, column: str, value: str, sums: Array) -> PartCoverage:
        size = float(sums[_SIZE] / sums[_W])
        return PartCoverage(column, value, round(sums[_ROWS]), self.coverage(sums), size)

    def at_wanted(self, sums: Array) -> float:
        n = self.worth(sums)
        return chance_of_so_few_at(float(sums[_HITS] / sums[_W]) * n, n, self.sets.coverage)

    def law_of_class(self, k: int) -> Any:
        """With a threshold of its own a class has its own guarantee; else it is held against what was asked for."""
        if not self.sets.per_class or self.weighted or self.sets.weighted:
            return self.at_wanted
        rows = self.sets.rows[k]
        return lambda sums: chance_of_so_few(round(sums[_HITS]), round(sums[_W]), rows, self.sets.coverage)

    def judged(self, parts: list[tuple[str, str, Array, Any]]) -> tuple[PartCoverage, ...]:
        adjusted = holm([law(sums) for _, _, sums, law in parts])
        found = []
        for (column, value, sums, _), p in zip(parts, adjusted, strict=True):
            plain = self.part(column, value, sums)
            found.append(PartCoverage(column, value, plain.n, plain.coverage, plain.mean_size, p, p < 1 - self.level))
        return tuple(found)


def measure_sets(
    sets: PredictionSets,
    predictions: Predictions,
    *,
    groups: Mapping[str, Any] | None = None,
    level: float = 0.95,
    weights_are: WeightsAre = "importance",
) -> SetMeasures:
    """Measure coverage and sizes on rows that the sets were not fitted on.

    Args:
        sets: Fitted.
        predictions: Of another split.
        groups: Columns by name, one value per row, that divide the rows.
        level: Of the intervals.
        weights_are: What ``predictions.weights`` mean.

    Returns:
        Coverage of all rows, of each class, of each group and by size; and the sizes.

    Raises:
        SplitError: If the rows are of the split that the sets were fitted on.
        InputError: If they are of other classes.

    Example:
        >>> sets = PredictionSets("lac", 0.9, (-0.25,), (99,), 2, "calibration")
        >>> rows = Predictions(np.log([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1]), "test")
        >>> found = measure_sets(sets, rows)
        >>> found.coverage.estimate, found.mean_size.estimate, found.sizes
        (1.0, 1.5, ((1, 0.5), (2, 0.5)))
    """
    if predictions.split == sets.fitted_on:
        raise SplitError(
            f"Expected other rows than the sets were fitted on, but these are of the {predictions.split} split too: "
            "coverage would flatter. Measure on test rows."
        )
    check_form(predictions.form)
    sums = SetSums(sets.n_classes)
    if predictions.weights is not None:
        check_weights(np.asarray(predictions.weights), len(predictions.labels))
    columns = {name: np.asarray(values) for name, values in (groups or {}).items()}
    if wrong := [name for name, values in columns.items() if values.shape != predictions.labels.shape]:
        raise InputError(f"Expected one value of {wrong[0]!r} per row, but got another number. Pass (n,).")
    inside = sets.sets(logits=predictions.logits)
    sums.add(inside, np.asarray(predictions.labels, np.int64), predictions.weights, columns)
    return sums.measures(sets, level=level, weights_are=weights_are)
