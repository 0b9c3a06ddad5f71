"""Batch sharpness: the Rayleigh quotient of a batch's Hessian at that batch's own gradient."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor, nn

from surefoot.curvature.hessian import Hessian
from surefoot.curvature.objective import LossFunction, cross_entropy
from surefoot.errors import InputError


@dataclass(frozen=True)
class BatchSharpness:
    """Mean of the quotients, its standard error over batches (infinite for one batch), and how many there were."""

    value: float
    error: float
    n_batches: int


def rayleigh_quotient(matrix: Tensor, gradient: Tensor) -> float:
    r"""Rayleigh quotient of a matrix at a gradient: :math:`g^\top H g / \|g\|^2`.

    Args:
        matrix: H, dense, shape ``(d, d)``.
        gradient: g, shape ``(d,)``.

    Returns:
        The quotient.

    Example:
        >>> import torch
        >>> round(rayleigh_quotient(torch.diag(torch.tensor([2.0, 4.0])), torch.tensor([2.0, 4.0])), 6)
        3.6
    """
    return ((gradient @ (matrix @ gradient)) / gradient.square().sum()).item()


def mean_quotient(quotients: list[float]) -> BatchSharpness:
    """Average quotients over batches: the mean of quotients, not the quotient of means.

    Args:
        quotients: One per batch; batches with a zero gradient have none and are left out before.

    Returns:
        Mean and standard error.

    Raises:
        InputError: If there is none.

    Example:
        >>> found = mean_quotient([1.0, 3.0])
        >>> found.value, round(found.error, 6)
        (2.0, 1.0)
    """
    if not quotients:
        raise InputError("Expected at least one batch with a gradient, but got none. Pass batches of the data.")
    n = len(quotients)
    mean = math.fsum(quotients) / n
    spread = math.sqrt(math.fsum((r - mean) ** 2 for r in quotients) / (n - 1) / n) if n > 1 else math.inf
    return BatchSharpness(mean, spread, n)


def batch_sharpness(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    *,
    loss: LossFunction = cross_entropy,
    relative_error: float | None = None,
    min_batches: int = 10,
) -> BatchSharpness:
    r"""Estimate :math:`E_B[g_B^\top H_B g_B / \|g_B\|^2]` over batches of the training size.

    Args:
        model: Any module; evaluated in evaluation mode.
        batches: Pairs of inputs and labels, drawn without replacement, of the size that SGD uses.
        loss: One value per example, or ``LossTerms``.
        relative_error: Stop once the standard error is below this share of the mean; None for all batches.
        min_batches: Never stop earlier.

    Returns:
        Mean of the quotients with its standard error. One batch costs about 2.2 gradients of its size: the gradient
        itself and one product.

    Example:
        >>> import torch
        >>> model = nn.Linear(1, 2, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> batch = (torch.tensor([[2.0]]), torch.tensor([0]))  # H has eigenvalues 0 and 2, g is the second's vector
        >>> batch_sharpness(model, [batch, batch])
        BatchSharpness(value=2.0, error=0.0, n_batches=2)

    Reference: Andreyev & Beneventano 2024, arXiv:2412.20553.
    """
    quotients: list[float] = []
    for inputs, labels in batches:
        operator = Hessian(model, inputs, labels, loss=loss)
        gradient = operator.gradient
        square = gradient.square().sum().item()
        if square == 0:
            continue
        quotients.append((gradient @ (operator @ gradient)).item() / square)
        if relative_error is not None and len(quotients) >= min_batches:
            found = mean_quotient(quotients)
            if found.error <= relative_error * abs(found.value):
                return found
    return mean_quotient(quotients)
