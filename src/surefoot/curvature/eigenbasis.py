"""The top eigenspace of the Hessian: as a basis that optimizers project with, and as a frame for the gradient."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.curvature.hessian import Hessian
from surefoot.curvature.lanczos import Eigen, lanczos
from surefoot.curvature.objective import LossFunction, cross_entropy
from surefoot.errors import InputError


class TopEigenbasis:
    """A callable that gives the top-k Hessian eigenvectors of a loss, warm-started from the last call's.

    Made for optimizers that remove or keep the gradient's part in this space: they take it as a plain callable.
    Eigenvalues are the algebraically largest. The basis is orthonormal to rounding.

    Args:
        model: The model in training.
        inputs: The whole training set, or a fixed part of it.
        labels: Its labels.
        k: How many vectors.
        loss: One value per example, or ``LossTerms``.
        tol: Relative error of the eigenvalues, by Lanczos's estimate.
        chunk: Rows per chunk.
        max_products: At most so many products per call.

    Attributes:
        last: What the last call found, or None.

    Example:
        >>> model = nn.Linear(1, 2, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> TopEigenbasis(model, torch.tensor([[2.0]]), torch.tensor([0]), k=1)().abs()
        tensor([[0.7071],
                [0.7071]])
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Tensor,
        labels: Tensor,
        *,
        k: int,
        loss: LossFunction = cross_entropy,
        tol: float = 1e-2,
        chunk: int | None = None,
        max_products: int = 60,
    ) -> None:
        self._model, self._inputs, self._labels = model, inputs, labels
        self._loss, self._chunk, self._tol, self._max = loss, chunk, tol, max_products
        self.k = k
        self.last: Eigen | None = None

    def __call__(self) -> Tensor:
        """Return the basis at the weights as they are now.

        Returns:
            Orthonormal columns, shape ``(d, k)``, in the order of ``model.parameters()`` without frozen ones.
        """
        operator = Hessian(self._model, self._inputs, self._labels, loss=self._loss, chunk=self._chunk)
        gradient = operator.gradient[:, None]
        start = gradient if self.last is None else torch.cat([self.last.vectors, gradient], dim=1)
        if not bool(start.any()):
            raise InputError("Expected a gradient to start from, but it is zero. Train a step first.")
        floor = self.k + 3 if self.last is None else 2 * self.k + 2
        self.last = lanczos(
            operator, self.k, start=start, tol=self._tol, min_products=floor, max_products=max(self._max, floor)
        )
        return self.last.vectors


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
