"""Gauss–Newton sharpness on examples that nothing was trained on, to stand beside the error on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from surefoot.registry import TRACKERS
from surefoot.schema import Moment
from surefoot.trackers._base import Probe, Scheduled, schedule
from surefoot.trackers._follow import Followed
from surefoot.training.tracker import Every, Horizon, Tracker


class SharpnessOnTest(Scheduled):
    """λ_max of the Gauss–Newton matrix on a probe of the test split; measured whenever quality is."""

    def __init__(self, due: Every, examples: int, tol: float) -> None:
        super().__init__("sharpness_on_test", due, price=16 * examples)
        self._followed = Followed("gn", Probe(examples), tol)

    def measure(self, moment: Moment) -> dict[str, float]:
        """Measure, starting from the last eigenvector."""
        splits = replace(moment.splits, train=moment.splits.test)  # a probe is drawn from what is called train
        found = self._followed.measure(replace(moment, splits=splits))
        return {
            "sharpness_on_test/value": found.value,
            "sharpness_on_test/error": found.error,
            "sharpness_on_test/examples": found.n_examples,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the last eigenvector."""
        return self._followed.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember the last eigenvector."""
        self._followed.load_state_dict(state)


@TRACKERS.register("sharpness_on_test", preset="standard")
def sharpness_on_test(horizon: Horizon, *, every: int | None = None, examples: int = 256, tol: float = 1e-3) -> Tracker:
    """Largest Gauss–Newton eigenvalue on a probe of the test split, at every epoch's end."""
    return SharpnessOnTest(schedule(horizon, every), examples, tol)
