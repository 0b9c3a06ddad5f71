"""What a training loop hands to ``step``: a closure, and what it may return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from surefoot.errors import InputError
from surefoot.schema import LossTerms

Closure = Callable[[], Any]  # per-example losses, LossTerms, or a scalar after its own backward()

WHAT_TO_RETURN = (
    'Return cross_entropy(logits, labels, reduction="none"), or call backward() on optimizer.loss(logits, labels).'
)


class Parts:
    """A closure that can evaluate a part of its batch, for optimizers that work on parts.

    m-sharpness (``SAM(…, m=16)``) and ESAM ask for parts; all others evaluate the whole batch.

    Args:
        losses: Takes a slice or a tensor of indices into the batch, gives those examples' losses.
        n: Size of the batch.

    Example:
        >>> import torch
        >>> from surefoot.optim.sam import SAM
        >>> w = torch.nn.Parameter(torch.tensor([3.0]))
        >>> x = torch.tensor([1.0, 1.0, -1.0, -1.0])
        >>> optimizer = SAM(torch.optim.SGD([w], lr=0.5), rho=1.0, m=2)
        >>> optimizer.step(Parts(lambda part: 0.5 * w**2 + 0.0 * x[part], n=4))
        tensor(4.5000)
    """

    def __init__(self, losses: Callable[[Any], Tensor | LossTerms], n: int) -> None:
        self._losses = losses
        self._n = n

    def __call__(self, part: slice | Tensor = slice(None)) -> Tensor | LossTerms:
        """Evaluate a part of the batch; all of it by default."""
        return self._losses(part)

    def __len__(self) -> int:
        """Size of the batch."""
        return self._n


def terms_of(result: Any) -> LossTerms | None:
    """See what a closure returned as loss terms.

    Args:
        result: What it returned.

    Returns:
        One loss per example; None for a scalar, which has been differentiated by the closure itself or will be.

    Raises:
        InputError: If it is neither.
    """
    if isinstance(result, LossTerms):
        return result
    if isinstance(result, Tensor):
        return LossTerms(result) if result.ndim > 0 else None
    raise InputError(f"Expected the closure to return losses, but got {type(result).__name__}. {WHAT_TO_RETURN}")
