"""What every curvature matrix is: something square and symmetric that multiplies a vector."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from surefoot.errors import InputError


class Operator(ABC):
    """A symmetric matrix known by its products. ``operator @ v`` takes ``(d,)`` or ``(d, k)``.

    Attributes:
        shape: ``(d, d)``.
        dtype: Type of the vectors.
        device: Where the vectors live.
        n_products: How many vectors were multiplied so far; the unit in which algorithms count their cost.
    """

    def __init__(self, d: int, dtype: torch.dtype, device: torch.device) -> None:
        self.shape = (d, d)
        self.dtype = dtype
        self.device = device
        self.n_products = 0

    @abstractmethod
    def _product(self, v: Tensor) -> Tensor:
        """Multiply one vector of shape ``(d,)``."""

    def __matmul__(self, v: Tensor) -> Tensor:
        """Multiply a vector ``(d,)`` or the columns of ``(d, k)``.

        Args:
            v: What to multiply.

        Returns:
            The product, of the shape of ``v``.

        Raises:
            InputError: If the shape does not fit.
        """
        if v.shape[:1] != self.shape[1:] or v.ndim > 2:
            raise InputError(
                f"Expected a vector ({self.shape[0]},) or columns ({self.shape[0]}, k), but got {tuple(v.shape)}. "
                "Flatten the weights in the order of model.parameters()."
            )
        v = v.to(self.device, self.dtype)
        if v.ndim == 2:
            return torch.stack([self @ column for column in v.T], dim=1) if v.shape[1] else torch.zeros_like(v)
        self.n_products += 1
        return self._product(v)

    def dense(self) -> Tensor:
        """Return the whole matrix, by ``d`` products; for small ``d``."""
        return self @ torch.eye(self.shape[0], dtype=self.dtype, device=self.device)


class Dense(Operator):
    """A matrix that is at hand.

    Example:
        >>> Dense(torch.tensor([[2.0, 1.0], [1.0, 2.0]])) @ torch.tensor([1.0, 1.0])
        tensor([3., 3.])
    """

    def __init__(self, matrix: Tensor) -> None:
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"Expected a square matrix, but got shape {tuple(matrix.shape)}. Pass a symmetric one.")
        scale = matrix.abs().max().item() if matrix.numel() else 0.0
        if not torch.allclose(matrix, matrix.T, rtol=0.0, atol=1e3 * torch.finfo(matrix.dtype).eps * scale):
            raise InputError("Expected a symmetric matrix, but got one that is not. Pass (A + A.T) / 2.")
        super().__init__(len(matrix), matrix.dtype, matrix.device)
        self.matrix = matrix

    def _product(self, v: Tensor) -> Tensor:
        return self.matrix @ v


def as_operator(matrix: Tensor | Operator) -> Operator:
    """Take a symmetric matrix or an operator, so that every algorithm can be tried on a matrix.

    Args:
        matrix: Either.

    Returns:
        An operator.
    """
    return matrix if isinstance(matrix, Operator) else Dense(matrix)
