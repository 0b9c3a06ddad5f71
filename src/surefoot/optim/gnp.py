"""GNP: penalise the norm of the gradient."""

from __future__ import annotations

from torch import nn
from torch.optim import Optimizer

from surefoot.optim.rules import Ascent, Descent, GradientPair, Nonfinite, Perturbation
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.registry import OPTIMIZERS


class Mix(Descent):
    """Step on (1 − α)·g + α·g̃."""

    needs_clean = True

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def combine(self, pair: GradientPair) -> None:
        """Mix both gradients."""
        for perturbed, clean in zip(pair.perturbed, pair.clean, strict=True):
            perturbed.mul_(self.alpha).add_(clean, alpha=1 - self.alpha)


@OPTIMIZERS.register("gnp", passes=2, wraps=True, reference="Zhao et al. 2022, arXiv:2202.03599")
class GNP(SharpnessAware):
    """Penalise the norm of the gradient: a mixture of the clean and the perturbed gradient.

    Gradient-norm penalty: L(θ) + λ‖∇L(θ)‖, with the penalty's gradient as a finite difference.

    .. math:: θ ← θ − η ((1 − α) g + α g̃),  g̃ = ∇L(θ + ρ g/‖g‖),  α = λ/ρ

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Length ρ of the finite difference; the paper calls it r.
        alpha: α; 1 is SAM.
        ascent: Where to climb.
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

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
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        super().__init__(
            base,
            model,
            rho=rho,
            ascent=ascent,
            descent=Mix(alpha),
            stable=stable,
            nonfinite=nonfinite,
            perturbation=perturbation,
        )
