"""What every optimizer here is: a torch optimizer around another one, stepped with a closure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from surefoot.errors import DivergedError, InputError
from surefoot.schema import LossTerms

Closure = Callable[[], Any]  # per-example losses, LossTerms, or a scalar after its own backward()


@dataclass(frozen=True)
class StepFacts:
    """What the last step saw. Norms and losses cost no extra pass; what a method does not have is None."""

    loss: float
    passes: int
    perturbed_loss: float | None = None
    grad_norm: float | None = None


class Wrapper(Optimizer):
    """A torch optimizer around a base optimizer *instance*.

    Parameter groups and state are the base's own, read through to it, so schedulers, ``accelerate`` and
    Lightning see one optimizer, and ``state_dict`` restores everything.

    The closure evaluates the model and returns per-example losses or :class:`~surefoot.schema.LossTerms`; the
    optimizer reduces, differentiates and steps. A closure that calls ``backward()`` itself and returns a scalar
    works too: it computes that scalar with :meth:`loss`, which knows in which pass it is called.

    Args:
        base: Makes the actual step. It must be able to step without a closure.
    """

    needs_per_example = False
    facts: StepFacts | None = None

    def __init__(self, base: Optimizer) -> None:
        if isinstance(base, Wrapper) or not isinstance(base, Optimizer):
            raise InputError(
                f"Expected a plain torch optimizer as base, but got {type(base).__name__}. "
                "Pass an instance, such as torch.optim.SGD(model.parameters(), lr=0.1)."
            )
        self.base = base
        # torch's constructor starts empty groups and state and writes them through to the base: put them back.
        groups, state = base.param_groups, base.state
        super().__init__(list(groups), base.defaults)
        base.param_groups, base.state = groups, state
        self._reduced = False

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The base's parameter groups."""
        return self.base.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.base.param_groups = groups

    @property
    def state(self) -> Any:
        """The base's state."""
        return self.base.state

    @state.setter
    def state(self, state: Any) -> None:
        self.base.state = state

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters to the base."""
        self.base.add_param_group(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""
        self.base.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Give everything needed to go on: the base's state and all groups."""
        return self.base.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` gave."""
        self.base.load_state_dict(state_dict)

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle the wrapper with its base, which torch's own version would drop."""
        return {key: value for key, value in self.__dict__.items() if key != "step"}  # a scheduler's patch

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take up a copied or pickled state."""
        self.__dict__.update(state)
        self._patch_step_function()

    @abstractmethod
    def step(self, closure: Closure | None = None) -> Tensor | None:  # type: ignore[override]
        """Evaluate the closure as often as the method needs and make one step.

        Args:
            closure: Evaluates the model on the batch. None only if gradients are in place already.

        Returns:
            The loss at the weights before the step, detached.
        """

    def reduce(self, terms: LossTerms) -> Tensor:
        """Turn loss terms into the scalar that the current pass differentiates."""
        self._reduced = True
        loss = terms.per_example.mean()
        return loss if terms.penalty is None else loss + terms.penalty

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Give the cross-entropy of a batch, reduced as the current pass needs it.

        This is the criterion for closures that call ``backward()`` themselves.

        Args:
            logits: Shape ``(n, classes)``.
            labels: Class indices, shape ``(n,)``.

        Returns:
            A scalar to call ``backward()`` on.
        """
        return self.reduce(LossTerms(F.cross_entropy(logits, labels, reduction="none")))

    def parameters(self) -> Iterable[Tensor]:
        """Go through all parameters of all groups."""
        return (parameter for group in self.param_groups for parameter in group["params"])

    def _differentiate(self, closure: Closure) -> Tensor:
        """Run one pass: clear the gradients, evaluate the closure, fill the gradients, return the loss."""
        self.zero_grad()
        self._reduced = False
        with torch.enable_grad():
            result = closure()
            if isinstance(result, LossTerms) or (isinstance(result, Tensor) and result.ndim > 0):
                result = self.reduce(result if isinstance(result, LossTerms) else LossTerms(result.flatten()))
                result.backward()
            elif not isinstance(result, Tensor):
                raise InputError(
                    f"Expected the closure to return losses, but got {type(result).__name__}. {_WHAT_TO_RETURN}"
                )
            elif self.needs_per_example and not self._reduced:
                raise InputError(f"Expected one loss per example, but got a scalar. {_WHAT_TO_RETURN}")
            elif all(parameter.grad is None for parameter in self.parameters()):
                result.backward()
        return result.detach()


_WHAT_TO_RETURN = (
    'Return cross_entropy(logits, labels, reduction="none"), or call backward() on optimizer.loss(logits, labels).'
)


def finite(value: Tensor, what: str) -> float:
    """Give a scalar's value.

    Args:
        value: A loss or a norm.
        what: Its name, for the error message.

    Returns:
        The value.

    Raises:
        DivergedError: If it is NaN or infinite.
    """
    number = value.item()
    if number != number or number in (float("inf"), float("-inf")):
        raise DivergedError(
            f"Expected a finite {what}, but got {number}. Lower the learning rate or clip the gradient."
        )
    return number
