"""GSAM: also close the gap between the perturbed and the clean loss."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim.rules import (
    RHO,
    TINY,
    Ascent,
    Descent,
    GradientPair,
    Nonfinite,
    Perturbation,
    inner,
    total_norm,
)
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.registry import OPTIMIZERS


class SurrogateGap(Descent):
    """Step on g̃ − α·g⊥, where g⊥ is the part of g that is orthogonal to g̃."""

    needs_clean = True

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def combine(self, pair: GradientPair) -> None:
        """Subtract α·(g − c·g̃), with c·g̃ the projection of g on g̃."""
        c = inner(pair.clean, pair.perturbed) / (total_norm(pair.perturbed) ** 2 + TINY)
        for perturbed, clean in zip(pair.perturbed, pair.clean, strict=True):
            perturbed.mul_(1 + self.alpha * c).add_(clean, alpha=-self.alpha)


@OPTIMIZERS.register("gsam", passes=2, wraps=True, reference="Zhuang et al. 2022, arXiv:2203.08065")
class GSAM(SharpnessAware):
    """SAM that also shrinks the gap between perturbed and clean loss; its radius can follow the learning rate.

    Surrogate-gap guided SAM.

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
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

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
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        if rho_min is not None and not 0 <= rho_min <= rho:
            raise InputError(f"Expected rho_min between 0 and rho = {rho:g}, but got {rho_min:g}. Leave it out.")
        super().__init__(
            base,
            model,
            rho=rho,
            ascent=ascent,
            descent=SurrogateGap(alpha),
            stable=stable,
            nonfinite=nonfinite,
            perturbation=perturbation,
        )
        self.rho_min = rho_min
        self.lr_min = lr_min

    def prepare_group(self, group: dict[str, Any]) -> None:
        """Give a parameter group its radius, and its learning rate as the largest one so far."""
        super().prepare_group(group)
        if "lr" in (known := {**getattr(self, "defaults", {}), **group}):
            group.setdefault("lr_max", float(known["lr"]))

    def radius(self, group: dict[str, Any]) -> float:
        """Let the radius follow the learning rate, between rho_min and the group's rho."""
        rho, lr = super().radius(group), float(group["lr"])
        largest = max(float(group["lr_max"]), lr, float(group.get("max_lr", lr)))  # OneCycleLR starts far below it
        group["lr_max"] = largest
        span = largest - self.lr_min
        if self.rho_min is None or span <= 0:
            return rho
        return self.rho_min + (rho - self.rho_min) * max(0.0, (lr - self.lr_min) / span)
