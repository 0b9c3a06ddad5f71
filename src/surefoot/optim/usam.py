"""USAM: climb along the gradient as it is, without normalising it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.optim.rules import Ascent, CleanGradient, Nonfinite, Perturbation, ascent_rule
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.registry import OPTIMIZERS


@ascent_rule("usam")
class Unnormalised(Ascent):
    """ε = ρ·g."""

    def climb(self, clean: CleanGradient, places: list[Tensor]) -> float | None:
        """Write w + ε."""
        for weight, grad, place, rho in zip(clean.params, clean.grads, places, clean.rhos, strict=True):
            torch.add(weight, grad, alpha=rho, out=place)
        return clean.rhos[0] * clean.norm if len(set(clean.rhos)) == 1 else None


@OPTIMIZERS.register("usam", passes=2, wraps=True, reference="Andriushchenko & Flammarion 2022, arXiv:2206.06232")
class USAM(SharpnessAware):
    """SAM whose climb is rho times the gradient, shorter where the gradient is small.

    Unnormalised SAM.

    .. math:: θ ← θ − η ∇L(θ + ρ ∇L(θ))

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Factor ρ. It is SAM's radius divided by the norm of the gradient.
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

    Example:
        >>> import torch
        >>> w = torch.nn.Parameter(torch.tensor([3.0]))
        >>> optimizer = USAM(torch.optim.SGD([w], lr=0.5), rho=1.0)
        >>> optimizer.step(lambda: 0.5 * w**2)  # climbs from 3 by 3 to 6, steps by 0.5 · 6
        tensor(4.5000)
        >>> w.data
        tensor([0.])

    Reference: Andriushchenko & Flammarion 2022, arXiv:2206.06232.
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = 0.05,
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        super().__init__(
            base, model, rho=rho, ascent=Unnormalised(), stable=stable, nonfinite=nonfinite, perturbation=perturbation
        )
