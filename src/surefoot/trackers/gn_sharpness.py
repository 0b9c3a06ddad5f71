"""Gauss–Newton sharpness beside the learning rate's limit."""

from __future__ import annotations

from surefoot.curvature import gd_threshold
from surefoot.moment import Horizon, Moment
from surefoot.registry import TRACKERS
from surefoot.trackers._base import Probe, optimizer_options
from surefoot.trackers._follow import FollowedEigenvalue, Following, bracketed


@TRACKERS.register("gn_sharpness", preset="standard")
class GNSharpness(Following):
    """Largest Gauss–Newton eigenvalue on a probe with its held-out bracket, and the 2/η line.

    λ_max of the Gauss–Newton matrix on a probe, with its bracket, and 2/η and (2 + 2β)/η beside it.
    """

    def __init__(self, horizon: Horizon, *, every: int = 10, examples: int = 256, tol: float = 1e-3) -> None:
        super().__init__(horizon, every=every)
        self.followed = {"gn_sharpness": FollowedEigenvalue("gn", Probe(examples), tol)}

    def measure(self, moment: Moment) -> dict[str, float]:
        """Measure, starting from the last eigenvector."""
        values = bracketed("gn_sharpness", self.followed["gn_sharpness"].measure(moment))
        group = optimizer_options(moment)
        if group.get("lr", 0) > 0 and "betas" not in group:
            values["gn_sharpness/two_over_lr"] = 2 / group["lr"]
            values["gn_sharpness/threshold"] = gd_threshold(group["lr"], momentum=group.get("momentum", 0.0))
        return values
