"""SAM: step with the gradient taken at the nearby worst point."""

from __future__ import annotations

from torch import nn
from torch.optim import Optimizer

from surefoot.optim.rules import RHO, Nonfinite, Perturbation
from surefoot.optim.sharpness_aware import EveryKth, SharpnessAware
from surefoot.registry import OPTIMIZERS


@OPTIMIZERS.register("sam", passes=2, wraps=True, reference="Foret et al. 2021, arXiv:2010.01412")
class SAM(SharpnessAware):
    """Step with the gradient taken at the nearby worst point, a distance rho away.

    .. math:: θ ← θ − η ∇L(θ + ε),  ε = ρ ∇L(θ) / ‖∇L(θ)‖

    Args:
        base: Makes the step, for example ``torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)``.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Radius ρ of the climb.
        every: Climb at every k-th step only; the others are the base's own. 0 never climbs.
        m: Let parts of m examples climb each on their own (m-sharpness); see
            :class:`~surefoot.optim.Parts` for the closure.
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

    Example:
        >>> import torch
        >>> w = torch.nn.Parameter(torch.tensor([3.0]))
        >>> optimizer = SAM(torch.optim.SGD([w], lr=0.5), rho=1.0)
        >>> optimizer.step(lambda: 0.5 * w**2)  # ∇L = w = 3, climbs to 4, steps by 0.5 · 4
        tensor(4.5000)
        >>> w.data
        tensor([1.])

    Reference: Foret et al. 2021, arXiv:2010.01412.
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = RHO,
        every: int = 1,
        m: int | None = None,
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        super().__init__(
            base,
            model,
            rho=rho,
            ascent="sam",
            cadence=EveryKth(every),
            m=m,
            stable=stable,
            nonfinite=nonfinite,
            perturbation=perturbation,
        )
