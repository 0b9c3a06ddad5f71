"""AE-SAM: climb where the gradient is large for its time."""

from __future__ import annotations

import math

from torch import nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim.rules import RHO, Ascent, Cadence, Nonfinite, Perturbation
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.registry import OPTIMIZERS


class WhereSharp(Cadence):
    """Climb if q = ‖g‖² ≥ μ + c(t)·σ, with running averages μ of q and σ² of (q − μ)².

    c goes in a straight line from ``lambda2`` at the start to ``lambda1`` after ``n_steps``.

    Args:
        delta: δ, the weight of the old averages.
        lambda1: c at the end.
        lambda2: c at the start.
        n_steps: Length of the training; None holds c at the middle between both.

    Raises:
        InputError: If delta is not in [0, 1) or there are no steps.
    """

    memory = ("mu", "var")
    by_norm = True

    def __init__(
        self, delta: float = 0.9, lambda1: float = -1.0, lambda2: float = 1.0, n_steps: int | None = None
    ) -> None:
        if not 0 <= delta < 1:
            raise InputError(f"Expected delta in [0, 1), but got {delta:g}. Try delta=0.9.")
        if n_steps is not None and n_steps < 1:
            raise InputError(f"Expected n_steps ≥ 1, but got {n_steps}. Give the length of the training.")
        super().__init__()
        self.delta, self.lambda1, self.lambda2, self.n_steps = delta, lambda1, lambda2, n_steps
        self.mu = self.var = 0.0

    def wanted(self, t: int, norm: float) -> bool:
        """Update the averages, the mean before the variance, and compare."""
        q = norm**2
        mu = self.delta * self.mu + (1 - self.delta) * q
        var = self.delta * self.var + (1 - self.delta) * (q - mu) ** 2
        self.pending.update(mu=mu, var=var)
        done = 0.5 if self.n_steps is None else min(1.0, t / self.n_steps)
        c = done * self.lambda1 + (1 - done) * self.lambda2
        return q >= mu + c * math.sqrt(var)


@OPTIMIZERS.register("aesam", passes="1 to 2", wraps=True, reference="Jiang et al. 2023, arXiv:2304.14647")
class AESAM(SharpnessAware):
    """SAM at steps whose gradient is large for its time, otherwise the base alone.

    SAM where the squared norm of the gradient stands out from its running average, else the base alone.

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Radius ρ of the climb.
        delta: δ, the weight of the old averages.
        lambda1: Threshold at the end, in standard deviations.
        lambda2: Threshold at the start.
        n_steps: Length of the training, over which the threshold moves; None holds it in the middle.
        ascent: Where to climb.
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

    Reference: Jiang et al. 2023, "An Adaptive Policy to Employ Sharpness-Aware Minimization".
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = RHO,
        delta: float = 0.9,
        lambda1: float = -1.0,
        lambda2: float = 1.0,
        n_steps: int | None = None,
        ascent: Ascent | str = "sam",
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        cadence = WhereSharp(delta, lambda1, lambda2, n_steps)
        super().__init__(
            base,
            model,
            rho=rho,
            ascent=ascent,
            cadence=cadence,
            stable=stable,
            nonfinite=nonfinite,
            perturbation=perturbation,
        )
