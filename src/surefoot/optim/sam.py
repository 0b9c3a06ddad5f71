"""SAM: step with the gradient taken at the nearby worst point."""

from __future__ import annotations

from typing import Unpack

from torch import nn
from torch.optim import Optimizer

from surefoot.optim._cadence import Every
from surefoot.optim._composed import RHO
from surefoot.optim._norms import TINY
from surefoot.optim._rules import Scaled, Slope, ascent_rule
from surefoot.optim._sharpness import Common, SharpnessAware
from surefoot.optim._wrapper import Wrapper
from surefoot.registry import OPTIMIZERS


@ascent_rule("sam")
class Steepest(Scaled):
    """ε = ρ·g/‖g‖."""

    def scales(self, slope: Slope) -> list[float]:
        """Return ρ/‖g‖, with one norm over all groups."""
        return [rho / (slope.norm + TINY) for rho in slope.rhos]


class SAM(SharpnessAware):
    """Sharpness-aware minimisation.

    .. math:: θ ← θ − η ∇L(θ + ε),  ε = ρ ∇L(θ) / ‖∇L(θ)‖

    Args:
        base: Makes the step, for example ``torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)``.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Radius ρ of the climb.
        every: Climb at every k-th step only; the others are the base's own.
        m: Let parts of m examples climb each on their own (m-sharpness); see
            :class:`~surefoot.optim.Parts` for the closure.
        **common: ``stable``, ``nonfinite``, ``perturbation``: see :class:`SharpnessAware`.

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
        **common: Unpack[Common],
    ) -> None:
        super().__init__(base, model, rho=rho, ascent=Steepest(), cadence=Every(every), m=m, **common)


@OPTIMIZERS.register("sam", passes=2, wraps=True, reference="Foret et al. 2021, arXiv:2010.01412")
def sam(
    base: Optimizer,
    model: nn.Module,
    *,
    rho: float = RHO,
    every: int = 1,
    m: int | None = None,
    stable: bool = False,
) -> Wrapper:
    """Step with the gradient taken at the nearby worst point, a distance rho away."""
    return SAM(base, model, rho=rho, every=every, m=m, stable=stable)
