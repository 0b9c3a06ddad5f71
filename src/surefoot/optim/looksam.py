"""LookSAM: climb at every k-th step and remember what the climb was good for."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.optim._cadence import Every
from surefoot.optim._composed import RHO
from surefoot.optim._norms import TINY, inner, total_norm
from surefoot.optim._rules import Ascent, Descent, Pair, Slope
from surefoot.optim._sharpness import Common, SharpnessAware
from surefoot.optim._wrapper import Wrapper
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

    def combine(self, pair: Pair) -> None:
        """Remember g_v = g̃ − (g̃·g) g/‖g‖²; the gradient stays g̃."""
        c = inner(pair.perturbed, pair.clean) / (pair.clean_norm**2 + TINY)
        news = self.room("g_v", pair.indices, pair.perturbed)
        for perturbed, clean, new in zip(pair.perturbed, pair.clean, news, strict=True):
            torch.add(perturbed, clean, alpha=-c, out=new)
        norm = total_norm(news)
        rounding = 10 * torch.finfo(news[0].dtype).eps * pair.clean_norm
        self.pending["norm_v"] = norm if norm > rounding else 0.0  # else scaling it up would step on noise

    def coast(self, slope: Slope) -> None:
        """Add the remembered part at the scale of the gradient at hand."""
        if self.norm_v == 0:
            return
        scale = self.alpha * slope.norm / self.norm_v
        for grad, g_v in zip(slope.grads, self.recall("g_v", slope.indices, slope.grads), strict=True):
            if g_v is not None:
                grad.add_(g_v, alpha=scale)


class LookSAM(SharpnessAware):
    """SAM at every k-th step; in between, its last contribution is reused.

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
        **common: ``stable``, ``nonfinite``, ``perturbation``: see :class:`SharpnessAware`.

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
        **common: Unpack[Common],
    ) -> None:
        super().__init__(base, model, rho=rho, ascent=ascent, descent=Remembered(alpha), cadence=Every(k), **common)


@OPTIMIZERS.register("looksam", passes="1 + 1/k", wraps=True, reference="Liu et al. 2022, arXiv:2203.02714")
def looksam(
    base: Optimizer,
    model: nn.Module,
    *,
    rho: float = RHO,
    k: int = 5,
    alpha: float = 0.7,
    ascent: str = "sam",
    stable: bool = False,
) -> Wrapper:
    """SAM at every k-th step only, reusing in between what the last climb changed."""
    return LookSAM(base, model, rho=rho, k=k, alpha=alpha, ascent=ascent, stable=stable)
