"""What trackers saw of a run, read once and handed to every figure that shows some of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from surefoot.records import RunFolder

Series = dict[int, float]  # step → value


@dataclass(frozen=True)
class Track:
    """What was measured of one run along its training.

    Attributes:
        series: By key such as ``test/ece``, in the order of the steps; values that are not finite are left out.
        epochs_per_step: Places a step among the epochs, also one in the midst of an epoch.
    """

    series: Mapping[str, Series]
    epochs_per_step: float

    def of(self, key: str) -> Series:
        """Return a quantity by step; empty where it was not recorded."""
        return self.series.get(key, {})


def track_of(run: RunFolder) -> Track:
    """Read a run's records.

    Args:
        run: The run.

    Returns:
        All that its trackers saw.
    """
    steps = run.steps()
    if not steps:
        return Track({}, 0.0)
    series: dict[str, Series] = {}
    for record in run.tracked(steps):
        step = record["step"]
        for key, value in record.items():
            if "/" in key and value is not None and math.isfinite(value):
                series.setdefault(key, {})[step] = value
    return Track(series, run.spec.epochs / max(steps[-1]["step"], 1))


def tracks_of(runs: Iterable[RunFolder]) -> list[Track]:
    """Read the records of several runs."""
    return [track_of(run) for run in runs]
