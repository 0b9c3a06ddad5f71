"""LookSAM: climb at every k-th step and remember what the climb was good for."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim.rules import (
    RHO,
    TINY,
    Ascent,
    CleanGradient,
    Descent,
    GradientPair,
    Nonfinite,
    Perturbation,
    inner,
    total_norm,
)
from surefoot.optim.sharpness_aware import EveryKth, SharpnessAware
from surefoot.registry import OPTIMIZERS


class Remembered(Descent):
    """Step on g̃ after a climb, keeping its part g_v orthogonal to g; else on g + α·(‖g‖/‖g_v‖)·g_v.

    Args:
        alpha: α, how much of the remembered part is reused.
    """

    needs_clean = True
    memory = ("g_v", "norm_v")

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha
        self.g_v: list[Tensor | None] = []
        self.norm_v = 0.0

    def combine(self, pair: GradientPair) -> None:
        """Remember g_v = g̃ − (g̃·g) g/‖g‖²; the gradient stays g̃."""
        c = inner(pair.perturbed, pair.clean) / (pair.clean_norm**2 + TINY)
        news = self.room("g_v", pair.indices, pair.perturbed)
        for perturbed, clean, new in zip(pair.perturbed, pair.clean, news, strict=True):
            torch.add(perturbed, clean, alpha=-c, out=new)
        norm = total_norm(news)
        rounding = 10 * torch.finfo(news[0].dtype).eps * pair.clean_norm
        self.pending["norm_v"] = norm if norm > rounding else 0.0  # else scaling it up would step on noise

    def without_climb(self, clean: CleanGradient) -> None:
        """Add the remembered part at the scale of the gradient at hand."""
        if self.norm_v == 0:
            return
        scale = self.alpha * clean.norm / self.norm_v
        for grad, g_v in zip(clean.grads, self.recall("g_v", clean.indices, clean.grads), strict=True):
            if g_v is not None:
                grad.add_(g_v, alpha=scale)


@OPTIMIZERS.register("looksam", passes="1 + 1/k", wraps=True, reference="Liu et al. 2022, arXiv:2203.02714")
class LookSAM(SharpnessAware):
    """SAM at every k-th step only, reusing in between what the last climb changed.

    SAM at every k-th step; in between, its last contribution is reused.

    .. math:: g_v = g̃ − (g̃·g) g/‖g‖²

    is kept from every k-th step; the other steps are made on g + α (‖g‖/‖g_v‖) g_v.

    All products and norms are over the whole parameter vector, as in the paper; two widely used ports take them
    tensor by tensor.

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Radius ρ of the climb.
        k: Climb at every k-th step; 1 is SAM.
        alpha: α.
        ascent: Where to climb.
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

    Raises:
        InputError: If k is below 1.

    Reference: Liu et al. 2022, arXiv:2203.02714.
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = RHO,
        k: int = 5,
        alpha: float = 0.7,
        ascent: Ascent | str = "sam",
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        if k < 1:
            raise InputError(f"Expected to climb at every k-th step with k ≥ 1, but got {k}. Try k=5.")
        super().__init__(
            base,
            model,
            rho=rho,
            ascent=ascent,
            descent=Remembered(alpha),
            cadence=EveryKth(k),
            stable=stable,
            nonfinite=nonfinite,
            perturbation=perturbation,
        )
