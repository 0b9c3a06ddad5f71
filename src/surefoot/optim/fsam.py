"""F-SAM: climb along the part of the gradient that belongs to this batch alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim.rules import RHO, Along, CleanGradient, Nonfinite, Perturbation, ascent_rule, total_norm
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.registry import OPTIMIZERS


@ascent_rule("fsam")
class Friendly(Along):
    """ε = ρ·d/‖d‖ with m ← λ·m + (1 − λ)·g, starting at the first gradient, and d = g − σ·m.

    Args:
        sigma: σ, how much of the average is taken away.
        lam: λ, the weight of the old average.

    Raises:
        InputError: If lam is not in [0, 1).
    """

    memory = ("m",)

    def __init__(self, sigma: float = 1.0, lam: float = 0.6) -> None:
        if not 0 <= lam < 1:
            raise InputError(f"Expected lam in [0, 1), but got {lam:g}. Try lam=0.6.")
        super().__init__()
        self.sigma = sigma
        self.lam = lam
        self.m: list[Tensor | None] = []

    def climb(self, clean: CleanGradient, places: list[Tensor]) -> float | None:
        """Average, take the average away, climb along what is left."""
        olds = self.recall("m", clean.indices, clean.grads)
        news = self.room("m", clean.indices, clean.grads)
        for old, grad, new, place in zip(olds, clean.grads, news, places, strict=True):
            if old is None:  # nothing to take away yet: this step is SAM's
                new.copy_(grad)
                place.copy_(grad)
            else:
                torch.lerp(old, grad, 1 - self.lam, out=new)
                torch.add(grad, new, alpha=-self.sigma, out=place)
        return self.towards(places, places, clean, total_norm(places))


@OPTIMIZERS.register("fsam", passes=2, wraps=True, reference="Li et al. 2024, arXiv:2403.12350")
class FSAM(SharpnessAware):
    """Friendly SAM: climbs along what is special to the batch, the gradient minus its running average.

    Friendly SAM.

    .. math:: m ← λ m + (1 − λ) g,  d = g − σ m,  ε = ρ d/‖d‖

    This is the paper's order; the authors' code subtracts σ times the old average instead, which is the same
    direction for σ = 1 and another one for any other σ.

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Radius ρ of the climb.
        sigma: σ, how much of the average is taken away; 0 is SAM.
        lam: λ, the weight of the old average.
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

    Reference: Li et al. 2024, "Friendly Sharpness-Aware Minimization", arXiv:2403.12350.
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = RHO,
        sigma: float = 1.0,
        lam: float = 0.6,
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        super().__init__(
            base,
            model,
            rho=rho,
            ascent=Friendly(sigma, lam),
            stable=stable,
            nonfinite=nonfinite,
            perturbation=perturbation,
        )
