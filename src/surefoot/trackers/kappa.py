"""Both ends of the Hessian's spectrum."""

from __future__ import annotations

from typing import Any

from surefoot.registry import TRACKERS
from surefoot.schema import Moment
from surefoot.trackers._base import Probe, Scheduled, schedule
from surefoot.trackers._follow import Followed, bracketed
from surefoot.training.tracker import Every, Horizon, Tracker


class Kappa(Scheduled):
    """κ_max and κ_min of the Hessian on a probe, each with its bracket."""

    def __init__(self, due: Every, examples: int, tol: float) -> None:
        super().__init__("kappa", due, price=60 * examples)
        probe = Probe(examples)
        self._ends = {
            "kappa_max": Followed("kappa_max", probe, tol),
            "kappa_min": Followed("kappa_min", probe, tol),
        }

    def measure(self, moment: Moment) -> dict[str, float]:
        """Measure both ends, starting from the last eigenvectors."""
        values: dict[str, float] = {}
        for name, followed in self._ends.items():
            values |= bracketed(name, followed.measure(moment))
        return values

    def state_dict(self) -> dict[str, Any]:
        """Return the last eigenvectors."""
        return {name: followed.state_dict() for name, followed in self._ends.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember the last eigenvectors."""
        for name, followed in self._ends.items():
            followed.load_state_dict(state[name])


@TRACKERS.register("kappa", preset="full")
def kappa(horizon: Horizon, *, every: int = 50, examples: int = 256, tol: float = 1e-3) -> Tracker:
    """Largest and smallest Hessian eigenvalue on a probe, with their held-out brackets."""
    return Kappa(schedule(horizon, every), examples, tol)
