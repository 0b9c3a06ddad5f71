"""Both ends of the Hessian's spectrum."""

from __future__ import annotations

from surefoot.moment import Horizon, Moment
from surefoot.registry import TRACKERS
from surefoot.trackers._base import Probe
from surefoot.trackers._follow import FollowedEigenvalue, Following, bracketed


@TRACKERS.register("kappa", preset="full")
class Kappa(Following):
    """Largest and smallest Hessian eigenvalue on a probe, with their held-out brackets.

    κ_max and κ_min of the Hessian on a probe, each with its bracket.
    """

    def __init__(self, horizon: Horizon, *, every: int = 50, examples: int = 256, tol: float = 1e-3) -> None:
        super().__init__(horizon, every=every)
        probe = Probe(examples)
        self.followed = {
            "kappa_max": FollowedEigenvalue("kappa_max", probe, tol),
            "kappa_min": FollowedEigenvalue("kappa_min", probe, tol),
        }

    def measure(self, moment: Moment) -> dict[str, float]:
        """Measure both ends, starting from the last eigenvectors."""
        values: dict[str, float] = {}
        for name, followed in self.followed.items():
            values |= bracketed(name, followed.measure(moment))
        return values
