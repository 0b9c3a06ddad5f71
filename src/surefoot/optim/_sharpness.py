"""The sharpness-aware step: climb, look at the loss there, come back, step.

Three small parts combine: an *ascent* says where to climb, an *outer* loss says what to minimise there, and the
base optimizer makes the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim._perturb import RngState, holding_statistics, replaying, restoring, rng_state
from surefoot.optim._wrapper import Closure, StepFacts, Wrapper, finite
from surefoot.schema import LossTerms

Outer = Callable[[LossTerms], Tensor]  # the loss at the perturbed weights, as one value per example


class SharpnessAware(Wrapper):
    """Two passes on the same batch: one to find the direction, one for the gradient that is used.

    Between the passes the weights climb by ``rho`` along the gradient, normalised over all groups. BatchNorm
    statistics move in the clean pass only, dropout draws the same masks in both, and the weights come back bit
    for bit, also when the closure raises.

    Args:
        base: Makes the step with the gradient taken at the perturbed weights. Weight decay and momentum are its
            business: they act at the weights before the climb.
        rho: Radius of the climb, ≥ 0. A parameter group may set its own ``"rho"``.
        model: Holds the BatchNorm layers. May be left out for networks without any.
    """

    def __init__(self, base: Optimizer, model: nn.Module | None, *, rho: float) -> None:
        if not rho >= 0:
            raise InputError(f"Expected rho ≥ 0, but got {rho:g}. Try rho=0.05.")
        super().__init__(base)
        self.model = model
        self.rho = rho
        for group in self.param_groups:
            group.setdefault("rho", rho)
        self._copies: list[Tensor] = []
        self._is_perturbed = False
        self._before: RngState | None = None
        self._grad_norm = 0.0

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; without a ``"rho"`` of their own they get the optimizer's."""
        if hasattr(self, "rho"):
            param_group.setdefault("rho", self.rho)
        super().add_param_group(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients; a clean pass starts here, with the random numbers that the second one will see."""
        super().zero_grad(set_to_none)
        if not self._is_perturbed:
            self._before = rng_state()

    def outer(self, terms: LossTerms) -> Tensor:
        """Give each example's loss at the perturbed weights; SAM takes it as it is."""
        return terms.per_example

    def reduce(self, terms: LossTerms) -> Tensor:
        """Turn loss terms into the scalar that the current pass differentiates."""
        if self._is_perturbed:
            terms = terms._replace(per_example=self.outer(terms))
        return super().reduce(terms)

    @contextmanager
    def perturbed(self) -> Iterator[None]:
        """Stand at the perturbed weights: enter with the clean gradients in place, leave with those to step on.

        Example:
            >>> w = torch.nn.Parameter(torch.tensor([1.0, 1.0]))
            >>> from surefoot import SAM
            >>> optimizer = SAM(torch.optim.SGD([w], lr=0.1), rho=0.05)
            >>> curvature = torch.tensor([1.0, 10.0])
            >>> (0.5 * curvature * w**2).sum().backward()
            >>> with optimizer.perturbed():
            ...     (0.5 * curvature * w**2).sum().backward()
            >>> optimizer.step()
            >>> w.data
            tensor([ 0.8995, -0.0498])
        """
        moving = [parameter for parameter in self.parameters() if parameter.grad is not None]
        if len(self._copies) != len(moving) or any(
            c.shape != p.shape for c, p in zip(self._copies, moving, strict=True)
        ):
            self._copies = [torch.empty_like(parameter) for parameter in moving]
        with ExitStack() as stack:
            stack.enter_context(restoring(moving, self._copies))
            stack.enter_context(holding_statistics(self.model))
            stack.enter_context(replaying(self._before))
            self._climb()
            self._is_perturbed = True
            stack.callback(setattr, self, "_is_perturbed", False)
            super().zero_grad()
            yield

    def step(self, closure: Closure | None = None) -> Tensor | None:  # type: ignore[override]
        """Make one step.

        Args:
            closure: Evaluates the model on the batch; called twice. Without it, the gradients that are in place
                are used, as :meth:`perturbed` left them.

        Returns:
            The loss at the weights before the step, detached.
        """
        loss = None
        if closure is not None:
            loss = self._differentiate(closure)
            clean = finite(loss, "loss")
            with self.perturbed():
                perturbed = finite(self._differentiate(closure), "loss at the perturbed weights")
            self.facts = StepFacts(loss=clean, passes=2, perturbed_loss=perturbed, grad_norm=self._grad_norm)
        self._before = None
        self.base.step()
        return loss

    @torch.no_grad()
    def _climb(self) -> None:
        grads = [parameter.grad for parameter in self.parameters() if parameter.grad is not None]
        self._grad_norm = finite(get_total_norm(grads), "gradient norm")
        for group in self.param_groups:
            moving = [parameter for parameter in group["params"] if parameter.grad is not None]
            if moving:
                scale = group["rho"] / (self._grad_norm + 1e-12)  # 1e-12: a zero gradient climbs nowhere
                torch._foreach_add_(moving, [parameter.grad for parameter in moving], alpha=scale)
