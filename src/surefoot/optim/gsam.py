"""GSAM: also close the gap between the perturbed and the clean loss."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim._composed import RHO
from surefoot.optim._norms import TINY, inner, sum_of_squares
from surefoot.optim._rules import Ascent, Descent, Pair
from surefoot.optim._sharpness import Common, SharpnessAware
from surefoot.optim._wrapper import Wrapper
from surefoot.registry import OPTIMIZERS


class SurrogateGap(Descent):
    """Step on g̃ − α·g⊥, where g⊥ is the part of g that is orthogonal to g̃."""

    needs_clean = True

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def combine(self, pair: Pair) -> None:
        """Subtract α·(g − c·g̃), with c·g̃ the projection of g on g̃."""
        c = inner(pair.clean, pair.perturbed) / (sum_of_squares(pair.perturbed) + TINY)
        torch._foreach_mul_(pair.perturbed, 1 + self.alpha * c)
        torch._foreach_add_(pair.perturbed, pair.clean, alpha=-self.alpha)


class GSAM(SharpnessAware):
    """Surrogate-gap guided SAM.

    .. math:: θ ← θ − η (g̃ − α g_⊥),  ρ_t = ρ_{min} + (ρ − ρ_{min}) (η_t − η_{min})/(η_{max} − η_{min})

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Largest radius ρ, at the largest learning rate.
        alpha: α; 0 is SAM.
        rho_min: Smallest radius, at the smallest learning rate; None keeps the radius constant.
        lr_min: Smallest learning rate. The largest one is that of a OneCycleLR on this optimizer; else the largest
            that the group has had.
        ascent: Where to climb.
        **common: ``stable``, ``nonfinite``, ``perturbation``: see :class:`SharpnessAware`.

    Reference: Zhuang et al. 2022, arXiv:2203.08065.
    """

    group_options = ("rho", "lr_max")

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = RHO,
        alpha: float = 0.4,
        rho_min: float | None = None,
        lr_min: float = 0.0,
        ascent: Ascent | str = "sam",
        **common: Unpack[Common],
    ) -> None:
        if rho_min is not None and not 0 <= rho_min <= rho:
            raise InputError(f"Expected rho_min between 0 and rho = {rho:g}, but got {rho_min:g}. Leave it out.")
        super().__init__(base, model, rho=rho, ascent=ascent, descent=SurrogateGap(alpha), **common)
        self.rho_min = rho_min
        self.lr_min = lr_min
        for group in self.param_groups:
            group.setdefault("lr_max", float(group["lr"]))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; their learning rate is their largest one."""
        super().add_param_group(param_group)
        self.param_groups[-1].setdefault("lr_max", float(self.param_groups[-1]["lr"]))

    def radius(self, group: dict[str, Any]) -> float:
        """Let the radius follow the learning rate, between rho_min and the group's rho."""
        rho, lr = super().radius(group), float(group["lr"])
        largest = max(float(group["lr_max"]), lr, float(group.get("max_lr", lr)))  # OneCycleLR starts far below it
        group["lr_max"] = largest
        span = largest - self.lr_min
        if self.rho_min is None or span <= 0:
            return rho
        return self.rho_min + (rho - self.rho_min) * max(0.0, (lr - self.lr_min) / span)


@OPTIMIZERS.register("gsam", passes=2, wraps=True, reference="Zhuang et al. 2022, arXiv:2203.08065")
def gsam(
    base: Optimizer,
    model: nn.Module,
    *,
    rho: float = RHO,
    alpha: float = 0.4,
    rho_min: float | None = None,
    lr_min: float = 0.0,
    ascent: str = "sam",
    stable: bool = False,
) -> Wrapper:
    """SAM that also shrinks the gap between perturbed and clean loss; its radius can follow the learning rate."""
    return GSAM(base, model, rho=rho, alpha=alpha, rho_min=rho_min, lr_min=lr_min, ascent=ascent, stable=stable)
