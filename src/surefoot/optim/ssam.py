"""SSAM: SAM whose gradient keeps the norm of the clean one."""

from __future__ import annotations

from torch import nn
from torch.optim import Optimizer

from surefoot.optim.rules import RHO, Ascent, Nonfinite, Perturbation
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.registry import OPTIMIZERS


@OPTIMIZERS.register("ssam", passes=2, wraps=True, reference="Tan et al. 2024, arXiv:2401.07250")
class SSAM(SharpnessAware):
    """SAM with its gradient rescaled to the norm of the clean one, which keeps large steps stable.

    Stable SAM.

    .. math:: θ ← θ − η (‖g‖/‖g̃‖) g̃,  g̃ = ∇L(θ + ρ g/‖g‖)

    Both norms are over all parameters, before the base adds weight decay or momentum. The factor may be above or
    below 1. The same rescaling is the option ``stable=True`` of every sharpness-aware optimizer here; there, too,
    plain norms are compared, whichever way the climb was measured.

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Radius ρ of the climb.
        ascent: Where to climb; ``"usam"`` gives the paper's Stable USAM.
        nonfinite: ``"raise"`` or ``"skip"`` when a loss or a gradient is not finite.
        perturbation: How the ranks of a distributed run climb, as in :class:`SharpnessAware`.

    Example:
        >>> import torch
        >>> w = torch.nn.Parameter(torch.tensor([3.0]))
        >>> optimizer = SSAM(torch.optim.SGD([w], lr=0.5), rho=1.0)
        >>> optimizer.step(lambda: 0.5 * w**2)  # ∇L(4) = 4 is rescaled to the norm 3
        tensor(4.5000)
        >>> w.data
        tensor([1.5000])

    Reference: Tan et al. 2024, "Stabilizing Sharpness-Aware Minimization Through a Simple Renormalization Strategy".
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = RHO,
        ascent: Ascent | str = "sam",
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        super().__init__(
            base, model, rho=rho, ascent=ascent, stable=True, nonfinite=nonfinite, perturbation=perturbation
        )
