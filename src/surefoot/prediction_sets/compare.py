"""Which score to use: the smallest sets on rows that a threshold was not taken from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from surefoot.calibrators import Calibrator
from surefoot.errors import InputError
from surefoot.metrics.interval import Interval
from surefoot.prediction_sets._quantile import WeightsAre, least_rows
from surefoot.prediction_sets._rows import check_rows
from surefoot.prediction_sets.fit import CHOSEN_ON, fit_sets
from surefoot.prediction_sets.measure import SetSums
from surefoot.registry import SETS
from surefoot.schema import Predictions
from surefoot.seeding import generator as make_generator

METHODS = ("lac", "aps", "raps")


@dataclass(frozen=True)
class SetCandidate:
    """A score's sets on rows that its threshold was not taken from."""

    method: str
    coverage: Interval
    mean_size: Interval
    singletons: float
    empty: float
    worst_class: float
    """Smallest coverage of a class."""
    worst_size: float
    """Smallest coverage of sets of about one size; empty ones, which hold nothing, are left out."""


@dataclass(frozen=True)
class SetsComparison:
    """All candidates from the smallest sets up, the one to use, and why."""

    candidates: tuple[SetCandidate, ...]
    best: str
    reason: str
    n_folds: int
    left_out: tuple[str, ...]
    """Scores whose options there are too few rows to choose on."""


def compare_sets(
    predictions: Predictions,
    methods: Iterable[str] = METHODS,
    *,
    coverage: float = 0.9,
    per_class: bool = False,
    calibrator: Calibrator | None = None,
    weights_are: WeightsAre = "importance",
    n_folds: int = 5,
    generator: torch.Generator | None = None,
) -> SetsComparison:
    """Fit sets on parts of the rows, look at sizes on the rest, and choose the smallest at the coverage asked for.

    Args:
        predictions: Of the calibration split.
        methods: Scores as for :func:`fit_sets`.
        coverage: How often the true class is to be in the set.
        per_class: Take a threshold for each class.
        calibrator: Puts probabilities right first; fitted on other rows.
        weights_are: What weights mean.
        n_folds: Into how many parts the rows are divided.
        generator: Divides them; the same way each time when left out.

    Returns:
        The comparison.

    Raises:
        InputError: If there are too few rows.
    """
    _, labels, weights = check_rows(predictions)
    n, few = len(labels), least_rows(coverage)
    if n_folds < 2 or n < (least := rows_to_compare(coverage, n_folds)):
        needed = "at least 2 parts" if n_folds < 2 else f"at least {least} rows to compare scores in {n_folds} parts"
        raise InputError(
            f"Expected {needed}, but got {n_folds if n_folds < 2 else n}. Say which to use, such as --method lac."
        )
    generator = generator or make_generator(0, "set folds")
    order = torch.randperm(n, generator=generator).numpy()
    folds = [np.sort(fold) for fold in np.array_split(order, n_folds)]
    left_out = tuple(each for each in methods if _chooses(each) and CHOSEN_ON * (n - len(folds[0])) < few + 1)
    found = []
    for method in (each for each in dict.fromkeys(methods) if each not in left_out):
        sums = SetSums(predictions.logits.shape[1])
        for fold in folds:
            rest = predictions.rows(np.delete(np.arange(n), fold))
            sets = fit_sets(
                rest, method, coverage=coverage, per_class=per_class, calibrator=calibrator, weights_are=weights_are
            )
            inside = sets.sets(logits=predictions.logits[fold])
            sums.add(inside, labels[fold], None if weights is None else weights[fold])
        measured = sums.measures(sets, weights_are=weights_are)
        found.append(
            SetCandidate(
                method,
                measured.coverage,
                measured.mean_size,
                measured.singletons,
                measured.empty,
                min(each.coverage.estimate for each in measured.classes),
                min((each.coverage.estimate for each in measured.by_size if each.value != "0"), default=0.0),
            )
        )
    candidates = tuple(sorted(found, key=lambda each: each.mean_size.estimate))
    best, reason = _choose(candidates, coverage)
    return SetsComparison(candidates, best, reason, n_folds, left_out)


def rows_to_compare(coverage: float, n_folds: int = 5) -> int:
    """Return how many rows it takes for what is left without one part to have a finite threshold.

    Example:
        >>> rows_to_compare(0.9), rows_to_compare(0.95)
        (12, 24)
    """
    least = least_rows(coverage)
    return next(n for n in range(max(least, n_folds), 2 * least + n_folds + 2) if n - -(-n // n_folds) >= least)


def _chooses(method: str) -> bool:
    spec = SETS.parse(method)
    return SETS[spec.name].facts.get("choose") is not None and None in spec.options.values()


def _choose(candidates: tuple[SetCandidate, ...], coverage: float) -> tuple[str, str]:
    covering = [each for each in candidates if each.coverage.high >= coverage]
    chosen = (covering or sorted(candidates, key=lambda each: -each.coverage.estimate))[0]
    size = f"{chosen.mean_size.estimate:.2f} classes on average, {100 * chosen.coverage.estimate:.1f} % covered"
    if not covering:
        return chosen.method, f"no score reaches {100 * coverage:g} % on rows it was not fitted on; {size} is closest"
    others = [each for each in candidates if each is not chosen and each in covering]
    if not others:
        return chosen.method, f"{size}, on rows it was not fitted on"
    rest = ", ".join(f"{each.method} {each.mean_size.estimate:.2f}" for each in others)
    return chosen.method, f"the smallest sets on rows it was not fitted on: {size} ({rest})"
