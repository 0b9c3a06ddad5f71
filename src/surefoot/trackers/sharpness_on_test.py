"""Gauss–Newton sharpness on examples that nothing was trained on, to stand beside the error on them."""

from __future__ import annotations

from dataclasses import replace

from surefoot.moment import Horizon, Moment
from surefoot.registry import TRACKERS
from surefoot.trackers._base import Probe
from surefoot.trackers._follow import FollowedEigenvalue, Following


@TRACKERS.register("sharpness_on_test", preset="standard")
class SharpnessOnTest(Following):
    """Largest Gauss–Newton eigenvalue on a probe of the test split, at every epoch's end.

    λ_max of the Gauss–Newton matrix on a probe of the test split; measured whenever quality is.
    """

    def __init__(self, horizon: Horizon, *, every: int | None = None, examples: int = 256, tol: float = 1e-3) -> None:
        super().__init__(horizon, every=every)
        self.followed = {"sharpness_on_test": FollowedEigenvalue("gn", Probe(examples), tol)}

    def measure(self, moment: Moment) -> dict[str, float]:
        """Measure, starting from the last eigenvector."""
        splits = replace(moment.splits, train=moment.splits.test)  # a probe is drawn from what is called train
        found = self.followed["sharpness_on_test"].measure(replace(moment, splits=splits))
        return {
            "sharpness_on_test/value": found.value,
            "sharpness_on_test/error": found.error,
            "sharpness_on_test/examples": found.n_examples,
        }
