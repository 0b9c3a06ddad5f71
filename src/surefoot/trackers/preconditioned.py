"""Sharpness as Adam feels it: of the preconditioned Hessian."""

from __future__ import annotations

from typing import Any

from surefoot.curvature.preconditioned import adam_diagonal
from surefoot.curvature.thresholds import adam_threshold
from surefoot.registry import TRACKERS
from surefoot.schema import Moment
from surefoot.trackers._base import Probe, Scheduled, group_of, schedule
from surefoot.trackers._follow import Followed, bracketed
from surefoot.training.tracker import Every, Horizon, Tracker


class PreconditionedSharpness(Scheduled):
    """κ_max of P^{−1/2} H P^{−1/2} on a probe, with (2 + 2β₁)/((1 − β₁)η) beside it; only under Adam and AdamW."""

    def __init__(self, due: Every, examples: int, tol: float) -> None:
        super().__init__("preconditioned_sharpness", due, price=30 * examples)
        self._followed = Followed("kappa_max", Probe(examples), tol)

    def measure(self, moment: Moment) -> dict[str, float]:
        """Measure, starting from the last eigenvector; nothing under another optimizer or before the first step."""
        optimizer, group = moment.optimizer, group_of(moment)
        if optimizer is None or moment.step == 0 or "betas" not in group or len(optimizer.param_groups) != 1:
            return {}
        found = self._followed.measure(moment, precondition=lambda model: adam_diagonal(optimizer, model))
        values = bracketed(self.name, found)
        if group["lr"] > 0:
            values[f"{self.name}/threshold"] = adam_threshold(group["lr"], beta1=group["betas"][0])
        return values

    def state_dict(self) -> dict[str, Any]:
        """Return the last eigenvector."""
        return self._followed.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember the last eigenvector."""
        self._followed.load_state_dict(state)


@TRACKERS.register("preconditioned_sharpness", preset="full")
def preconditioned_sharpness(horizon: Horizon, *, every: int = 50, examples: int = 256, tol: float = 1e-3) -> Tracker:
    """Largest eigenvalue of the Hessian as Adam preconditions it, with Adam's stability limit."""
    return PreconditionedSharpness(schedule(horizon, every), examples, tol)
