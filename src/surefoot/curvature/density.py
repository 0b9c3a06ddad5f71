"""Spectral density by stochastic Lanczos quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.curvature.lanczos import Krylov
from surefoot.curvature.operator import Operator, as_operator
from surefoot.curvature.trace import rademacher
from surefoot.errors import OptionError


@dataclass(frozen=True)
class Density:
    """Where the eigenvalues are: nodes with weights that sum to one, one row per random vector.

    Attributes:
        nodes: Ritz values, shape ``(n_vectors, n_steps)``.
        weights: Their weights, the same shape; each row sums to one.
        n_products: Products spent.
    """

    nodes: Tensor
    weights: Tensor
    n_products: int

    def mean_of(self, function: Callable[[Tensor], Tensor]) -> tuple[float, float]:
        """Estimate (1/d) tr f(A) with its standard error over the random vectors.

        Args:
            function: Maps a tensor of eigenvalues to a tensor, element by element.

        Returns:
            Value and standard error.
        """
        values = (self.weights * function(self.nodes)).sum(1)
        return values.mean().item(), values.std().item() / math.sqrt(len(values))

    def on(self, grid: Tensor, width: float) -> tuple[Tensor, Tensor]:
        """Draw the density on a grid, each node blurred to a Gaussian.

        Args:
            grid: Points, shape ``(g,)``.
            width: Standard deviation of the Gaussians.

        Returns:
            Density and its standard error, each of shape ``(g,)``.
        """
        bumps = torch.exp(-0.5 * ((grid[:, None, None].double() - self.nodes) / width) ** 2)
        rows = (bumps * self.weights).sum(-1) / (width * math.sqrt(2 * math.pi))
        return rows.mean(1), rows.std(1) / math.sqrt(rows.shape[1])


def density(matrix: Tensor | Operator, *, n_vectors: int = 4, n_steps: int = 30, generator: torch.Generator) -> Density:
    """Approximate the spectral density by Gauss quadrature from Lanczos runs on random signs.

    Args:
        matrix: Symmetric tensor or operator.
        n_vectors: Random vectors, at least 2 (their spread is the error).
        n_steps: Products per vector; moments up to 2 · n_steps − 1 of each run are exact.
        generator: Source of the signs.

    Returns:
        Nodes and weights.

    Raises:
        OptionError: If a count is too small.

    Example:
        >>> matrix = torch.diag(torch.tensor([1.0, 1.0, 3.0, 3.0]))
        >>> found = density(matrix, generator=torch.Generator().manual_seed(0))
        >>> round(found.mean_of(torch.square)[0], 6)  # (1 + 1 + 9 + 9) / 4
        5.0

    Reference: Ghorbani, Krishnan, Xiao 2019, arXiv:1901.10159.
    """
    operator = as_operator(matrix)
    if n_vectors < 2 or n_steps < 1:
        raise OptionError(f"Expected n_vectors ≥ 2 and n_steps ≥ 1, but got {n_vectors} and {n_steps}. Try 4 and 30.")
    before, width = operator.n_products, min(n_steps, operator.shape[0])
    nodes = torch.zeros(n_vectors, width, dtype=torch.float64)
    weights = torch.zeros_like(nodes)
    for row, start in enumerate(rademacher(operator.shape[0], n_vectors, operator, generator).T):
        space = Krylov(operator, start, width)
        while space.grow():
            pass
        values, coordinates = space.ritz()
        nodes[row, : space.size] = values  # an invariant space leaves the remaining weights at zero
        weights[row, : space.size] = coordinates[0].square()
    return Density(nodes, weights, operator.n_products - before)
