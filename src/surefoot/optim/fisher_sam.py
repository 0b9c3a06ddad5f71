"""FisherSAM: climb inside an ellipsoid shaped by the Fisher information."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim.rules import Along, CleanGradient, Nonfinite, Perturbation, ascent_rule, inner
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.registry import OPTIMIZERS


@ascent_rule("fisher_sam")
class Fisher(Along):
    """ε = ρ·F⁻¹g/√(gᵀF⁻¹g) with F⁻¹ = 1/(1 + η·g²).

    Args:
        eta: η, how much the Fisher information counts; 0 is SAM.

    Raises:
        InputError: If eta is negative.
    """

    def __init__(self, eta: float = 1.0) -> None:
        if not eta >= 0:
            raise InputError(f"Expected eta ≥ 0, but got {eta:g}. Try eta=1.")
        super().__init__()
        self.eta = eta

    def climb(self, clean: CleanGradient, places: list[Tensor]) -> float | None:
        """Write F⁻¹g, then climb along it."""
        for grad, place in zip(clean.grads, places, strict=True):
            torch.square(grad, out=place).mul_(self.eta).add_(1)
            torch.div(grad, place, out=place)
        self.towards(places, places, clean, math.sqrt(inner(clean.grads, places)))
        return None  # the ellipsoid's radius is ρ, the length of ε is not


@OPTIMIZERS.register("fisher_sam", passes=2, wraps=True, reference="Kim et al. 2022, arXiv:2206.04920")
class FisherSAM(SharpnessAware):
    """SAM that climbs less along coordinates with a large gradient, on a Fisher ellipsoid.

    SAM on an ellipsoid.

    .. math:: ε = ρ F⁻¹g / √(gᵀF⁻¹g),  F = 1 + η g²

    The Fisher information is the diagonal, empirical one of the batch: the square of its mean gradient. Some
    ports divide by ‖F⁻¹g‖ instead, which is not the maximiser on the ellipsoid.

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Radius of the ellipsoid; the paper calls it γ.
        eta: η.
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

    Reference: Kim et al. 2022, "Fisher SAM", arXiv:2206.04920.
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = 0.1,
        eta: float = 1.0,
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        super().__init__(
            base, model, rho=rho, ascent=Fisher(eta), stable=stable, nonfinite=nonfinite, perturbation=perturbation
        )
