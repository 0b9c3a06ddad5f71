"""A base optimizer as it is, stepped the way all optimizers here are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surefoot.optim._closure import Closure
from surefoot.optim._passes import finite, gradients, total_norm
from surefoot.optim._step import Step
from surefoot.optim._wrapper import Wrapper
from surefoot.optim.facts import StepFacts

if TYPE_CHECKING:
    from torch.amp import GradScaler


class Plain(Wrapper):
    """One pass, one step of the base optimizer.

    Example:
        >>> import torch
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 1.0]))
        >>> optimizer = Plain(torch.optim.SGD([w], lr=0.1))
        >>> optimizer.step(lambda: 0.5 * w**2)  # per-example losses; their mean is differentiated
        tensor(0.5000)
        >>> w.data
        tensor([0.9500, 0.9500])
    """

    def _take_step(self, step: Step, closure: Closure | None, scaler: GradScaler | None) -> None:
        if closure is not None:
            step.loss = self._differentiate(step, closure, scaler)
        norm = step.facts["grad_norm"] = total_norm(gradients(self.parameters()))
        if scaler is None:  # which has a check of its own
            finite(norm, "gradient norm")
        if closure is not None:
            self.facts = StepFacts(**step.facts)
        self._step_base(step, scaler)
