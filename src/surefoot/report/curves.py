"""Training curves of a method: read from its runs' step records, then mean and range over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from surefoot.records import RunFolder


@dataclass(frozen=True)
class Curve:
    """A tracked quantity over epochs: mean, smallest and largest over the runs that recorded it."""

    epochs: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n_runs: int


def read_curves(runs: Iterable[RunFolder]) -> dict[str, Curve]:
    """Collect what the trackers saw, by key such as ``test/ece``.

    Args:
        runs: Runs that differ in nothing but the seed.

    Returns:
        One curve per key; values that are not finite are left out.
    """
    found: dict[str, list[dict[float, float]]] = {}
    for run in runs:
        for key, curve in _read(run).items():
            found.setdefault(key, []).append(curve)
    return {key: _over_seeds(curves) for key, curves in found.items()}


def _read(run: RunFolder) -> dict[str, dict[float, float]]:
    steps = run.steps()
    if not steps:
        return {}
    # A record's own epoch is a whole number; the step also places what was measured in the midst of an epoch.
    per_step = run.spec.epochs / max(steps[-1]["step"], 1)
    curves: dict[str, dict[float, float]] = {}
    for record in run.tracked():
        epoch = round(record["step"] * per_step, 3)
        for key, value in record.items():
            if "/" in key and value is not None and math.isfinite(value):
                curves.setdefault(key, {})[epoch] = value
    return curves


def _over_seeds(curves: list[dict[float, float]]) -> Curve:
    """Average at every moment that some run measured; under a budget others are read off between their own."""
    epochs = sorted({epoch for curve in curves for epoch in curve})
    read = [np.interp(epochs, list(curve), list(curve.values()), math.nan, math.nan).tolist() for curve in curves]
    values = [[value for value in column if math.isfinite(value)] for column in zip(*read, strict=True)]
    return Curve(
        tuple(epochs),
        tuple(map(statistics.fmean, values)),
        tuple(map(min, values)),
        tuple(map(max, values)),
        len(curves),
    )
