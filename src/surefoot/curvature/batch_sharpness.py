"""Batch sharpness: curvature of a batch's loss along that batch's own gradient."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor, nn

from surefoot.curvature.chain import along_gradient, is_chain, layers
from surefoot.curvature.hessian import Hessian
from surefoot.curvature.logit_hessian import logit_gradient, logit_product
from surefoot.curvature.objective import LossFunction, cross_entropy
from surefoot.errors import InputError

GRAM_ROWS = 512  # Gram matrices of larger batches cost more than a product


@dataclass(frozen=True)
class BatchSharpness:
    """Mean of the ratios, its standard error over batches (infinite for one batch), and how many there were."""

    value: float
    error: float
    n_batches: int


def rayleigh_ratio(matrix: Tensor, gradient: Tensor) -> float:
    r"""Curvature along the gradient: :math:`g^\top H g / \|g\|^2`.

    Args:
        matrix: H, dense, shape ``(d, d)``.
        gradient: g, shape ``(d,)``.

    Returns:
        The ratio.

    Example:
        >>> import torch
        >>> round(rayleigh_ratio(torch.diag(torch.tensor([2.0, 4.0])), torch.tensor([2.0, 4.0])), 6)
        3.6
    """
    return ((gradient @ (matrix @ gradient)) / gradient.square().sum()).item()


def mean_ratio(ratios: list[float]) -> BatchSharpness:
    """Average ratios over batches: the mean of ratios, not the ratio of means.

    Args:
        ratios: One per batch; batches with a zero gradient have none and are left out before.

    Returns:
        Mean and standard error.

    Raises:
        InputError: If there is none.

    Example:
        >>> found = mean_ratio([1.0, 3.0])
        >>> found.value, round(found.error, 6)
        (2.0, 1.0)
    """
    if not ratios:
        raise InputError("Expected at least one batch with a gradient, but got none. Pass batches of the data.")
    n = len(ratios)
    mean = math.fsum(ratios) / n
    spread = math.sqrt(math.fsum((r - mean) ** 2 for r in ratios) / (n - 1) / n) if n > 1 else math.inf
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
        Mean of the ratios with its standard error. One batch costs about 2.2 gradients of its size, the gradient
        itself and one product; less than one for a chain of linear layers, where Gram matrices replace both.

    Example:
        >>> import torch
        >>> model = nn.Linear(1, 2, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> batch = (torch.tensor([[2.0]]), torch.tensor([0]))  # H has eigenvalues 0 and 2, g is the second's vector
        >>> batch_sharpness(model, [batch, batch])
        BatchSharpness(value=2.0, error=0.0, n_batches=2)

    Reference: Andreyev & Beneventano 2024, arXiv:2412.20553.
    """
    ratios: list[float] = []
    for inputs, labels in batches:
        bent, square = (_by_taylor if is_chain(model) and len(labels) <= GRAM_ROWS else _by_product)(
            model, inputs, labels, loss
        )
        if square == 0:
            continue
        ratios.append(bent / square)
        if relative_error is not None and len(ratios) >= min_batches:
            found = mean_ratio(ratios)
            if found.error <= relative_error * abs(found.value):
                return found
    return mean_ratio(ratios)


def _by_product(model: nn.Module, inputs: Tensor, labels: Tensor, loss: LossFunction) -> tuple[float, float]:
    """gᵀHg and ‖g‖² by a product with the Hessian."""
    operator = Hessian(model, inputs, labels, loss=loss)
    gradient = operator.gradient
    return (gradient @ (operator @ gradient)).item(), gradient.square().sum().item()


def _by_taylor(model: nn.Module, inputs: Tensor, labels: Tensor, loss: LossFunction) -> tuple[float, float]:
    """gᵀHg = żᵀ H_z ż + ∂L/∂z · z̈ and ‖g‖², with ż and z̈ the logits' derivatives along the gradient."""
    logits, found = layers(model, inputs, bends=True)
    slope = logit_gradient(loss, logits, labels, len(labels))
    first, second, square = along_gradient(found, slope)
    middle = logit_product(loss, logits, labels, len(labels))(first)
    return ((first * middle).sum() + (slope * second).sum()).item(), square
