"""VASSO: climb along an average of gradients."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim.rules import RHO, Along, CleanGradient, Nonfinite, Perturbation, ascent_rule, total_norm
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.registry import OPTIMIZERS


@ascent_rule("vasso")
class Averaged(Along):
    """ε = ρ·d/‖d‖ with d ← (1 − θ)·d + θ·g, starting at the first gradient.

    Args:
        theta: θ, the weight of the new gradient.

    Raises:
        InputError: If theta is not in (0, 1].
    """

    memory = ("d",)

    def __init__(self, theta: float = 0.9) -> None:
        if not 0 < theta <= 1:
            raise InputError(f"Expected theta in (0, 1], but got {theta:g}. Try theta=0.9.")
        super().__init__()
        self.theta = theta
        self.d: list[Tensor | None] = []

    def climb(self, clean: CleanGradient, places: list[Tensor]) -> float | None:
        """Average, then climb along the average."""
        olds = self.recall("d", clean.indices, clean.grads)
        news = self.room("d", clean.indices, clean.grads)
        for old, grad, new in zip(olds, clean.grads, news, strict=True):
            torch.lerp(grad if old is None else old, grad, self.theta, out=new)
        return self.towards(places, news, clean, total_norm(news))


@OPTIMIZERS.register("vasso", passes=2, wraps=True, reference="Li & Giannakis 2023, arXiv:2309.15639")
class VASSO(SharpnessAware):
    """SAM that climbs along an average of gradients, so that one batch's noise matters less.

    Variance-suppressed sharpness-aware optimization.

    .. math:: d ← (1 − θ) d + θ g,  ε = ρ d/‖d‖

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Radius ρ of the climb.
        theta: θ, the weight of the *new* gradient; 1 is SAM.
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

    Reference: Li & Giannakis 2023, arXiv:2309.15639.
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = RHO,
        theta: float = 0.9,
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        super().__init__(
            base, model, rho=rho, ascent=Averaged(theta), stable=stable, nonfinite=nonfinite, perturbation=perturbation
        )
