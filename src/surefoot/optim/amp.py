"""AMP: adversarial model perturbation, clipped tensor by tensor."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim._closure import Closure
from surefoot.optim._step import Step
from surefoot.optim.rules import Ascent, CleanGradient, Nonfinite, Perturbation, ascent_rule
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.registry import OPTIMIZERS
from surefoot.seeding import replaying

if TYPE_CHECKING:
    from torch.amp import GradScaler


@ascent_rule("amp")
class Clipped(Ascent):
    """ε = ζ·g, each tensor's shortened to norm ρ where it is longer.

    Args:
        zeta: ζ, the length of the ascent step.

    Raises:
        InputError: If zeta is negative.
    """

    def __init__(self, zeta: float = 1.0) -> None:
        if not zeta >= 0:
            raise InputError(f"Expected zeta ≥ 0, but got {zeta:g}. Try zeta=1.")
        super().__init__()
        self.zeta = zeta

    def climb(self, clean: CleanGradient, places: list[Tensor]) -> float | None:
        """Write w + ε."""
        for weight, grad, place, rho in zip(clean.params, clean.grads, places, clean.rhos, strict=True):
            torch.add(weight, clipped(grad * self.zeta, rho), out=place)
        return None


def clipped(eps: Tensor, rho: float) -> Tensor:
    """Shorten a tensor to norm ρ if it is longer.

    Example:
        >>> clipped(torch.tensor([3.0, 4.0]), 1.0), clipped(torch.tensor([0.3, 0.4]), 1.0)
        (tensor([0.6000, 0.8000]), tensor([0.3000, 0.4000]))
    """
    norm = torch.linalg.vector_norm(eps)
    return torch.where(norm > rho, eps * (rho / norm), eps)


@OPTIMIZERS.register("amp", passes="1 + steps", wraps=True, reference="Zheng et al. 2021, arXiv:2010.04925")
class AMP(SharpnessAware):
    """SAM whose climb is zeta times the gradient, kept within a ball of its own for each tensor.

    Adversarial model perturbation.

    .. math:: θ ← θ − η ∇L(θ + ε),  ε ← clip(ε + ζ ∇L(θ + ε))  n times from 0

    Unlike SAM's, the climb is not brought to the radius but only kept within it, and each tensor has a ball of its
    own. So a model that has converged is perturbed less.

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Radius ρ of each tensor's ball.
        zeta: ζ, the length of an ascent step.
        steps: n, the number of ascent steps; each costs a pass. More than one needs a closure.
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

    Raises:
        InputError: If there is no ascent step.

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([3.0]))
        >>> optimizer = AMP(torch.optim.SGD([w], lr=0.5), rho=1.0)
        >>> optimizer.step(lambda: 0.5 * w**2)  # ∇L = 3 is clipped to 1, climbs to 4, steps by 0.5 · 4
        tensor(4.5000)
        >>> w.data
        tensor([1.])

    Reference: Zheng et al. 2021, arXiv:2010.04925.
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = 0.5,
        zeta: float = 1.0,
        steps: int = 1,
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        if steps < 1:
            raise InputError(f"Expected steps ≥ 1, but got {steps}. Try steps=1.")
        super().__init__(
            base, model, rho=rho, ascent=Clipped(zeta), stable=stable, nonfinite=nonfinite, perturbation=perturbation
        )
        self.zeta, self.steps = zeta, steps

    def _climb(self, step: Step, clean: CleanGradient) -> list[Tensor]:
        if self.steps > 1:  # each weight, its value before the climb, its radius
            homes = [weight.detach().clone() for weight in clean.params]
            step.own["start"] = list(zip(clean.params, homes, clean.rhos, strict=True))
        return super()._climb(step, clean)

    def _differentiate(self, step: Step, closure: Closure, scaler: GradScaler | None = None) -> Tensor:
        for _ in range(self.steps - 1 if step.perturbed else 0):
            with replaying(step.before):  # each pass, not only the first, draws what the clean one drew
                super()._differentiate(step, closure, scaler)
            self._climb_on(step, 1.0 if scaler is None else scaler.get_scale())
        return super()._differentiate(step, closure, scaler)

    def perturbed(self, scaler: GradScaler | None = None) -> AbstractContextManager[None]:
        """Surround the second pass, as in :meth:`SharpnessAware.perturbed`.

        Args:
            scaler: Scaled the clean loss, and will scale the perturbed one.

        Returns:
            What surrounds it.

        Raises:
            InputError: If there are several ascent steps, each of which needs a pass.
        """
        if self.steps > 1:
            raise InputError(
                f"Expected a closure for {self.steps} ascent steps, but got a loop without. "
                "Call optimizer.step(closure), or take steps=1."
            )
        return super().perturbed(scaler)

    @torch.no_grad()
    def _climb_on(self, step: Step, scale: float) -> None:
        """Go on from the perturbed weights, which are in place, and stay within the balls."""
        for weight, home, rho in step.own.get("start", ()):
            if weight.grad is not None:
                weight.copy_(home + clipped(weight - home + weight.grad * (self.zeta / scale), rho))
        torch.clear_autocast_cache()
