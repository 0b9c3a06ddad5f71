"""Training curves of a method: what its runs' trackers saw, as mean and range over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from surefoot.report.tracks import Track


@dataclass(frozen=True)
class Curve:
    """A tracked quantity over epochs: mean, smallest and largest over the runs that recorded it."""

    epochs: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n_runs: int


def read_curves(tracks: Iterable[Track]) -> dict[str, Curve]:
    """Collect what the trackers saw, by key such as ``test/ece``.

    Args:
        tracks: Of runs that differ in nothing but the seed.

    Returns:
        One curve per key.
    """
    found: dict[str, list[dict[float, float]]] = {}
    for track in tracks:
        for key, series in track.series.items():
            # A record's own epoch is a whole number; the step also places what was measured in the midst of one.
            curve = {round(step * track.epochs_per_step, 3): value for step, value in series.items()}
            found.setdefault(key, []).append(curve)
    return {key: _over_seeds(curves) for key, curves in found.items()}


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
