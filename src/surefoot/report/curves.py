"""Training curves of a method: read from its runs' step records, then mean and range over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

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
    """Collect what the quality tracker saw, by key such as ``test/ece``.

    Args:
        runs: Runs that differ in nothing but the seed.

    Returns:
        One curve per key; values that are not finite are left out.
    """
    points: dict[str, dict[float, list[float]]] = {}
    n_runs: dict[str, int] = {}
    for run in runs:
        for key, curve in _read(run).items():
            n_runs[key] = n_runs.get(key, 0) + 1
            for epoch, value in curve.items():
                points.setdefault(key, {}).setdefault(epoch, []).append(value)
    return {key: _over_seeds(points[key], n_runs[key]) for key in points}


def _read(run: RunFolder) -> dict[str, dict[float, float]]:
    steps = run.steps()
    if not steps:
        return {}
    # A record's own epoch is a whole number; the step also places what was measured in the midst of an epoch.
    per_step = run.spec.epochs / max(steps[-1]["step"], 1)
    curves: dict[str, dict[float, float]] = {}
    for record in steps:
        if record.get("tracker") == "quality":
            epoch = round(record["step"] * per_step, 3)
            for key, value in record.items():
                if "/" in key and value is not None and math.isfinite(value):
                    curves.setdefault(key, {})[epoch] = value
    return curves


def _over_seeds(points: dict[float, list[float]], n_runs: int) -> Curve:
    epochs = sorted(points)
    values = [points[epoch] for epoch in epochs]
    return Curve(
        tuple(epochs),
        tuple(map(statistics.fmean, values)),
        tuple(map(min, values)),
        tuple(map(max, values)),
        n_runs,
    )
