"""BulkSGD and DomSGD: step without, or only within, the directions in which the loss is most curved."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError, OptionError
from surefoot.optim._closure import Closure, Parts
from surefoot.optim._passes import finite, gradients, total_norm
from surefoot.optim._step import Step
from surefoot.optim._wrapper import Wrapper
from surefoot.optim.facts import StepFacts
from surefoot.optim.rules import Nonfinite
from surefoot.registry import OPTIMIZERS

if TYPE_CHECKING:
    from torch.amp import GradScaler


Basis = Callable[[Tensor | None], Tensor]  # last basis or None → top eigenvectors (d, k) at the present weights

_REFERENCE = "Song, Ahn & Yun 2025, arXiv:2405.16002"


class Projected(Wrapper):
    """A base optimizer whose gradient is projected before every step; abstract.

    The basis comes from a callable, so that any eigensolver will do: it is given the last basis to start from, or
    None, and returns the new one. Where it has an attribute ``spent``, the number of examples differentiated in
    its last call, the step's ``passes`` count them.

    Args:
        base: Makes the step; momentum and weight decay are its own and see the projected gradient.
        model: Gives the order of the weights in the basis; without it, that of the parameter groups.
        basis: Gives the top-k Hessian eigenvectors of the training loss, shape ``(d, k)``, over the trainable
            weights; it can also be set later, before the first step.
        k: How many directions.
        r: Steps between refreshments of the basis.
        nonfinite: As in :class:`Wrapper`.

    Raises:
        OptionError: If k or r is less than one.
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        basis: Basis | None = None,
        *,
        k: int = 1,
        r: int = 10,
        nonfinite: Nonfinite = "raise",
    ) -> None:
        if k < 1 or r < 1:
            raise OptionError(f"Expected k ≥ 1 and r ≥ 1, but got {k} and {r}. Try k=1,r=10.")
        super().__init__(base, nonfinite=nonfinite)
        self.model, self.basis, self.k, self.r = model, basis, k, r
        self._u: Tensor | None = None

    @abstractmethod
    def project(self, grads: list[Tensor], u: list[Tensor]) -> None:
        """Change the gradients in place.

        Args:
            grads: One per parameter.
            u: Each one's rows of the basis, shape ``(numel, k)``.
        """

    def own_state(self) -> dict[str, Any]:
        """Return the basis beside what every wrapper remembers."""
        return {**super().own_state(), "basis": self._u}

    def load_own_state(self, state: dict[str, Any]) -> None:
        """Take up the basis, from which the next one starts."""
        if "basis" not in state:
            raise InputError(
                f"Expected the state of {type(self).__name__} with a basis, but got {list(state)}. "
                "Load a state that this kind of optimizer saved."
            )
        super().load_own_state(state)
        basis = state["basis"]
        self._u = None if basis is None else basis.to(self.parameters()[0].device, copy=True)

    def _take_step(self, step: Step, closure: Closure | None, scaler: GradScaler | None) -> None:
        if closure is not None:
            step.loss = self._differentiate(step, closure, scaler)
        norm = step.facts["grad_norm"] = total_norm(gradients(self.parameters()))
        if scaler is None:
            finite(norm, "gradient norm")
        with torch.autocast(self.parameters()[0].device.type, enabled=False):  # it rounds products to 8 bits
            u, spent = self._refreshed()
            self._project_gradients(u)
        if closure is not None:
            step.facts["passes"] += spent / len(closure) if isinstance(closure, Parts) else 0.0
            self.facts = StepFacts(**step.facts)
        if self._step_base(step, scaler):
            self._u = u

    def _project_gradients(self, u: Tensor) -> None:
        moving = {id(parameter): parameter.grad for parameter in self.parameters()}
        rows, grads = [], []
        for parameter, piece in zip(self._order(), u.split(self._sizes()), strict=True):
            if (grad := moving.get(id(parameter))) is not None:
                rows.append(piece)
                grads.append(grad)
        self.project(grads, rows)

    def _refreshed(self) -> tuple[Tensor, float]:
        """Return the basis of this step, orthonormal, and what it cost."""
        d = sum(self._sizes())
        if self._u is not None and self.t % self.r and len(self._u) == d:
            return self._u, 0.0
        if self.basis is None:
            raise InputError(
                f"Expected a basis to project with, but {type(self).__name__} has none. Pass basis=…, a callable "
                "that gives the top Hessian eigenvectors."
            )
        last = self._u if self._u is not None and len(self._u) == d else None
        found = self.basis(last)
        if found.shape != (d, self.k):
            raise InputError(
                f"Expected a basis of shape {(d, self.k)}, but got {tuple(found.shape)}. Give one row per trainable "
                "weight and one column per direction."
            )
        # Products differ in the last bit with the strides: lay it out as a checkpoint gives it back.
        orthonormal = torch.linalg.qr(found.detach())[0].clone(memory_format=torch.contiguous_format)
        return orthonormal, float(getattr(self.basis, "spent", 0))

    def _order(self) -> list[Tensor]:
        if self.model is None:
            return self.parameters()
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def _sizes(self) -> list[int]:
        return [parameter.numel() for parameter in self._order()]


def _coordinates(grads: list[Tensor], u: list[Tensor]) -> Tensor:
    """Return Uᵀg over all parameters together."""
    return sum((rows.T @ grad.reshape(-1).to(rows) for grad, rows in zip(grads, u, strict=True)), torch.zeros(()))


@OPTIMIZERS.register("bulk_sgd", passes=1, wraps=True, reference=_REFERENCE)
class BulkSGD(Projected):
    """Step on the gradient without its part in the top-k Hessian eigenspace, found anew every r steps.

    .. math:: θ ← θ − η (g − U Uᵀ g), for plain SGD as base

    Args:
        base: Makes the step.
        model: Gives the order of the weights in the basis.
        basis: Gives U, the top-k Hessian eigenvectors of the training loss.
        k, r, nonfinite: As in :class:`Projected`.

    Example:
        >>> w = nn.Parameter(torch.tensor([1.0, 1.0]))  # L = ½ (w₁² + 10 w₂²): g = (1, 10), top eigenvector e₂
        >>> top = lambda last: torch.tensor([[0.0], [1.0]])
        >>> optimizer = BulkSGD(torch.optim.SGD([w], lr=0.1), basis=top)
        >>> optimizer.step(lambda: torch.tensor([1.0, 10.0]) * w**2)  # per-example losses; their mean is L
        tensor(5.5000)
        >>> w.data
        tensor([0.9000, 1.0000])

    Reference: Song, Ahn & Yun 2025, "Does SGD really happen in tiny subspaces?", arXiv:2405.16002.
    """

    def project(self, grads: list[Tensor], u: list[Tensor]) -> None:
        """Take U Uᵀ g away."""
        c = _coordinates(grads, u)
        for grad, rows in zip(grads, u, strict=True):
            grad.sub_((rows @ c).view_as(grad))


@OPTIMIZERS.register("dom_sgd", passes=1, wraps=True, reference=_REFERENCE)
class DomSGD(Projected):
    """Step on nothing but the gradient's part in the top-k Hessian eigenspace, found anew every r steps.

    .. math:: θ ← θ − η U Uᵀ g, for plain SGD as base

    Args:
        base: Makes the step.
        model: Gives the order of the weights in the basis.
        basis: Gives U, the top-k Hessian eigenvectors of the training loss.
        k, r, nonfinite: As in :class:`Projected`.

    Reference: Song, Ahn & Yun 2025, "Does SGD really happen in tiny subspaces?", arXiv:2405.16002.
    """

    def project(self, grads: list[Tensor], u: list[Tensor]) -> None:
        """Put U Uᵀ g in the gradient's place."""
        c = _coordinates(grads, u)
        for grad, rows in zip(grads, u, strict=True):
            grad.copy_((rows @ c).view_as(grad))
