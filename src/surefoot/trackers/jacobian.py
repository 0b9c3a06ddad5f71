"""How strongly weights move logits."""

from __future__ import annotations

from surefoot.curvature import jacobian_norms
from surefoot.moment import Horizon, Moment
from surefoot.registry import TRACKERS
from surefoot.trackers._base import Probe, Scheduled


@TRACKERS.register("jacobian", preset="full")
class Jacobian(Scheduled):
    """Operator norm of the logits' Jacobian in the weights: mean and maximum C_J over a probe.

    Operator norm of each example's Jacobian of logits in weights: its mean and C_J, its maximum, over a probe.
    """

    def __init__(self, horizon: Horizon, *, every: int | None = None, examples: int = 64) -> None:
        super().__init__(horizon, every=every)
        self._probe = Probe(examples)

    def measure(self, moment: Moment) -> dict[str, float]:
        """Measure on the probe and on as many held-out examples."""
        x, _, others, _ = self._probe(moment)
        norms, held_out = jacobian_norms(moment.model, x), jacobian_norms(moment.model, others)
        return {
            "jacobian/max": norms.max().item(),
            "jacobian/mean": norms.mean().item(),
            "jacobian/held_out_max": held_out.max().item(),
            "jacobian/held_out_mean": held_out.mean().item(),
            "jacobian/examples": len(norms),
        }
