"""A base optimizer as it is, stepped the way all optimizers here are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surefoot.optim._closure import Closure
from surefoot.optim._facts import StepFacts
from surefoot.optim._wrapper import Wrapper, finite_loss

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

    def _take_step(self, closure: Closure | None, scaler: GradScaler | None) -> None:
        if closure is not None:
            self._loss = self._differentiate(closure, scaler)
            loss = finite_loss(self._loss, "loss", scaler)
        norm = self._gradient_norm(scaler)
        if closure is not None:
            self.facts = StepFacts(loss=loss, passes=1, grad_norm=norm)
        self._step_base(scaler)
