"""GNP: penalise the norm of the gradient."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import nn
from torch.optim import Optimizer

from surefoot.optim._rules import Ascent, Descent, Pair
from surefoot.optim._sharpness import Common, SharpnessAware
from surefoot.optim._wrapper import Wrapper
from surefoot.registry import OPTIMIZERS


class Mix(Descent):
    """Step on (1 − α)·g + α·g̃."""

    needs_clean = True

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def combine(self, pair: Pair) -> None:
        """Mix both gradients."""
        torch._foreach_mul_(pair.perturbed, self.alpha)
        torch._foreach_add_(pair.perturbed, pair.clean, alpha=1 - self.alpha)


class GNP(SharpnessAware):
    """Gradient-norm penalty: L(θ) + λ‖∇L(θ)‖, with the penalty's gradient as a finite difference.

    .. math:: θ ← θ − η ((1 − α) g + α g̃),  g̃ = ∇L(θ + ρ g/‖g‖),  α = λ/ρ

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Length ρ of the finite difference; the paper calls it r.
        alpha: α; 1 is SAM.
        ascent: Where to climb.
        **common: ``stable``, ``nonfinite``, ``perturbation``: see :class:`SharpnessAware`.

    Reference: Zhao et al. 2022, arXiv:2202.03599.
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = 0.1,
        alpha: float = 0.8,
        ascent: Ascent | str = "sam",
        **common: Unpack[Common],
    ) -> None:
        super().__init__(base, model, rho=rho, ascent=ascent, descent=Mix(alpha), **common)


@OPTIMIZERS.register("gnp", passes=2, wraps=True, reference="Zhao et al. 2022, arXiv:2202.03599")
def gnp(
    base: Optimizer,
    model: nn.Module,
    *,
    rho: float = 0.1,
    alpha: float = 0.8,
    ascent: str = "sam",
    stable: bool = False,
) -> Wrapper:
    """Penalise the norm of the gradient: a mixture of the clean and the perturbed gradient."""
    return GNP(base, model, rho=rho, alpha=alpha, ascent=ascent, stable=stable)
