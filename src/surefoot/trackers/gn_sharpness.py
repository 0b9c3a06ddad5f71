"""Gauss–Newton sharpness beside the learning rate's limit."""

from __future__ import annotations

from typing import Any

from surefoot.curvature.thresholds import gd_threshold
from surefoot.registry import TRACKERS
from surefoot.schema import Moment
from surefoot.trackers._base import Probe, Scheduled, group_of, schedule
from surefoot.trackers._follow import Followed, bracketed
from surefoot.training.tracker import Every, Horizon, Tracker


class GNSharpness(Scheduled):
    """λ_max of the Gauss–Newton matrix on a probe, with its bracket, and 2/η and (2 + 2β)/η beside it."""

    def __init__(self, due: Every, examples: int, tol: float) -> None:
        super().__init__("gn_sharpness", due, price=16 * examples)
        self._followed = Followed("gn", Probe(examples), tol)

    def measure(self, moment: Moment) -> dict[str, float]:
        """Measure, starting from the last eigenvector."""
        values = bracketed(self.name, self._followed.measure(moment))
        group = group_of(moment)
        if group.get("lr", 0) > 0 and "betas" not in group:
            values["gn_sharpness/two_over_lr"] = 2 / group["lr"]
            values["gn_sharpness/threshold"] = gd_threshold(group["lr"], momentum=group.get("momentum", 0.0))
        return values

    def state_dict(self) -> dict[str, Any]:
        """Return the last eigenvector."""
        return self._followed.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember the last eigenvector."""
        self._followed.load_state_dict(state)


@TRACKERS.register("gn_sharpness", preset="standard")
def gn_sharpness(horizon: Horizon, *, every: int = 10, examples: int = 256, tol: float = 1e-3) -> Tracker:
    """Largest Gauss–Newton eigenvalue on a probe with its held-out bracket, and the 2/η line."""
    return GNSharpness(schedule(horizon, every), examples, tol)
