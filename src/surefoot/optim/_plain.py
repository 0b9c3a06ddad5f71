"""A base optimizer as it is, stepped the way all optimizers here are."""

from __future__ import annotations

from torch import Tensor

from surefoot.optim._wrapper import Closure, StepFacts, Wrapper, finite


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

    def step(self, closure: Closure | None = None) -> Tensor | None:  # type: ignore[override]
        """Differentiate the loss and step."""
        if closure is None:
            self.base.step()
            return None
        loss = self._differentiate(closure)
        self.facts = StepFacts(loss=finite(loss, "loss"), passes=1)
        self.base.step()
        return loss
