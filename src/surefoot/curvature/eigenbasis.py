"""The top eigenspace of the Hessian: what optimizers project with, and what the gradient is compared with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.curvature.hessian import Hessian
from surefoot.curvature.krylov import Eigenpairs, lanczos
from surefoot.curvature.objective import LossFunction, cross_entropy
from surefoot.errors import InputError


def hessian_top_eigenpairs(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    k: int,
    start: Tensor | None = None,
    loss: LossFunction = cross_entropy,
    tol: float = 1e-2,
    chunk: int | None = None,
    max_products: int = 60,
) -> Eigenpairs:
    """Find the k algebraically largest eigenvalues of the Hessian and their eigenvectors.

    Args:
        model: Any module, at its weights as they are now.
        inputs: Shape ``(n, *shape)``.
        labels: Shape ``(n,)``.
        k: How many.
        start: The last eigenvectors, shape ``(d, k)``, to go on from.
        loss: One value per example, or ``LossTerms``.
        tol: Relative error of the eigenvalues, by Lanczos's estimate.
        chunk: Rows per chunk.
        max_products: At most so many products.

    Returns:
        Values, and orthonormal vectors in the order of ``model.parameters()`` without frozen ones.

    Raises:
        InputError: If the gradient is zero and there is nothing else to start from.

    Example:
        >>> model = nn.Linear(1, 2, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> hessian_top_eigenpairs(model, torch.tensor([[2.0]]), torch.tensor([0]), k=1).vectors.abs()
        tensor([[0.7071],
                [0.7071]])
    """
    operator = Hessian(model, inputs, labels, loss=loss, chunk=chunk)
    gradient = operator.gradient[:, None]
    first = gradient if start is None else torch.cat([start, gradient], dim=1)
    if not bool(first.any()):
        raise InputError("Expected a gradient to start from, but it is zero. Train a step first.")
    floor = k + 3 if start is None else 2 * k + 2
    return lanczos(operator, k, start=first, tol=tol, min_products=floor, max_products=max(max_products, floor))


def alignment(gradient: Tensor, basis: Tensor) -> float:
    r"""Share of the gradient's squared length inside a subspace: :math:`\|U^\top g\|^2 / \|g\|^2`.

    Args:
        gradient: Shape ``(d,)``.
        basis: Orthonormal columns U, shape ``(d, k)``.

    Returns:
        Between 0 and 1; NaN for a zero gradient.

    Example:
        >>> round(alignment(torch.tensor([3.0, 4.0]), torch.tensor([[1.0], [0.0]])), 4)
        0.36
    """
    inside = (basis.T @ gradient).double().square().sum()
    return (inside / gradient.double().square().sum()).item()
