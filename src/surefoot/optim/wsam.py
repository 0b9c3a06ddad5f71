"""WSAM: sharpness as a regulariser with a weight of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim.gnp import Mix
from surefoot.optim.rules import Ascent, Descent, GradientPair, Nonfinite, Perturbation
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.registry import OPTIMIZERS


class Decoupled(Descent):
    """Let the base step on g, then move by −η·a·(g̃ − g)."""

    needs_clean = True
    shares = True

    def __init__(self, a: float) -> None:
        super().__init__()
        self.a = a

    def combine(self, pair: GradientPair) -> None:
        """Put the clean gradients in place and keep a·(g̃ − g) for later, in the memory of g̃."""
        for parameter, perturbed, clean in zip(pair.params, pair.perturbed, pair.clean, strict=True):
            perturbed.sub_(clean).mul_(self.a)
            parameter.grad = clean
        self.pending["sharpness"] = dict(zip(pair.params, pair.perturbed, strict=True))

    @torch.no_grad()
    def commit(self, groups: Sequence[dict[str, Any]] = ()) -> None:
        """Move by the sharpness term, with the learning rate and without momentum."""
        sharpness = self.to_share()
        for group in groups:
            for parameter in group["params"]:
                if parameter in sharpness:
                    parameter.add_(sharpness[parameter], alpha=-float(group["lr"]))
        torch.clear_autocast_cache()
        self.pending = {}

    def discard(self) -> None:
        """Let go of the sharpness term."""
        self.pending = {}

    def to_share(self) -> dict[Tensor, Tensor]:
        """Return the sharpness term."""
        sharpness: dict[Tensor, Tensor] = self.pending.get("sharpness", {})
        return sharpness


@OPTIMIZERS.register("wsam", passes=2, wraps=True, reference="Yue et al. 2023, arXiv:2305.15817")
class WSAM(SharpnessAware):
    """Sharpness as a regulariser weighted by gamma / (1 - gamma), apart from the base's momentum.

    Weighted SAM, L(θ) + a·(L(θ + ε) − L(θ)) with a = γ/(1 − γ).

    Decoupled (the default): the base steps on g, then θ ← θ − η·a·(g̃ − g). Otherwise it steps on
    (1 − a)·g + a·g̃. The authors' code clips both gradients to norm 1 unless told otherwise; here nothing is
    clipped.

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Radius ρ of the climb.
        gamma: γ in [0, 1); 0 is the base alone, 1/2 with plain SGD is SAM.
        decouple: Keep the sharpness term out of the base's momentum.
        ascent: Where to climb.
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

    Raises:
        InputError: If gamma is not in [0, 1).

    Reference: Yue et al. 2023, arXiv:2305.15817.
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = 0.05,
        gamma: float = 0.88,
        decouple: bool = True,
        ascent: Ascent | str = "sam",
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        if not 0 <= gamma < 1:
            raise InputError(f"Expected gamma in [0, 1), but got {gamma:g}. Try gamma=0.88.")
        a = gamma / (1 - gamma)
        super().__init__(
            base,
            model,
            rho=rho,
            ascent=ascent,
            descent=Decoupled(a) if decouple else Mix(a),
            stable=stable,
            nonfinite=nonfinite,
            perturbation=perturbation,
        )
