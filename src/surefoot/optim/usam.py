"""USAM: climb along the gradient as it is, without normalising it."""

from __future__ import annotations

from typing import Unpack

from torch import nn
from torch.optim import Optimizer

from surefoot.optim._rules import Scaled, Slope, ascent_rule
from surefoot.optim._sharpness import Common, SharpnessAware
from surefoot.optim._wrapper import Wrapper
from surefoot.registry import OPTIMIZERS


@ascent_rule("usam")
class Unnormalised(Scaled):
    """ε = ρ·g."""

    def scales(self, slope: Slope) -> list[float]:
        """Return ρ."""
        return slope.rhos


class USAM(SharpnessAware):
    """Unnormalised SAM.

    .. math:: θ ← θ − η ∇L(θ + ρ ∇L(θ))

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Factor ρ. It is SAM's radius divided by the norm of the gradient.
        **common: ``stable``, ``nonfinite``, ``perturbation``: see :class:`SharpnessAware`.

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
        self, base: Optimizer, model: nn.Module | None = None, *, rho: float = 0.05, **common: Unpack[Common]
    ) -> None:
        super().__init__(base, model, rho=rho, ascent=Unnormalised(), **common)


@OPTIMIZERS.register("usam", passes=2, wraps=True, reference="Andriushchenko & Flammarion 2022, arXiv:2206.06232")
def usam(base: Optimizer, model: nn.Module, *, rho: float = 0.05, stable: bool = False) -> Wrapper:
    """SAM whose climb is rho times the gradient, shorter where the gradient is small."""
    return USAM(base, model, rho=rho, stable=stable)
