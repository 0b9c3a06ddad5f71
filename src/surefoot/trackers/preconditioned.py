"""Sharpness as Adam feels it: of the preconditioned Hessian."""

from __future__ import annotations

from surefoot.curvature import adam_diagonal, adam_threshold
from surefoot.moment import Horizon, Moment
from surefoot.registry import TRACKERS
from surefoot.trackers._base import Probe, optimizer_options
from surefoot.trackers._follow import FollowedEigenvalue, Following, bracketed


@TRACKERS.register("preconditioned_sharpness", preset="full")
class PreconditionedSharpness(Following):
    """Largest eigenvalue of the Hessian as Adam preconditions it, with Adam's stability limit.

    κ_max of P^{−1/2} H P^{−1/2} on a probe, with (2 + 2β₁)/((1 − β₁)η) beside it; only under Adam and AdamW.
    """

    def __init__(self, horizon: Horizon, *, every: int = 50, examples: int = 256, tol: float = 1e-3) -> None:
        super().__init__(horizon, every=every)
        self.followed = {"preconditioned_sharpness": FollowedEigenvalue("kappa_max", Probe(examples), tol)}

    def measure(self, moment: Moment) -> dict[str, float]:
        """Measure, starting from the last eigenvector; nothing under another optimizer or before the first step."""
        optimizer, group = moment.optimizer, optimizer_options(moment)
        if optimizer is None or moment.step == 0 or "betas" not in group or len(optimizer.param_groups) != 1:
            return {}
        found = self.followed["preconditioned_sharpness"].measure(
            moment, precondition=lambda model: adam_diagonal(optimizer, model)
        )
        values = bracketed("preconditioned_sharpness", found)
        if group["lr"] > 0:
            values["preconditioned_sharpness/threshold"] = adam_threshold(group["lr"], beta1=group["betas"][0])
        return values
