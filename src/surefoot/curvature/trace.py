"""Trace of a matrix that is known by its products."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.curvature.operator import Operator, as_operator
from surefoot.errors import OptionError


@dataclass(frozen=True)
class Estimate:
    """A random estimate: value, its standard error, and what it cost."""

    value: float
    error: float
    n_products: int


def rademacher(d: int, k: int, operator: Operator, generator: torch.Generator) -> Tensor:
    """Draw ``k`` columns of random signs."""
    signs = torch.randint(0, 2, (d, k), generator=generator) * 2 - 1
    return signs.to(operator.device, operator.dtype)


def trace(matrix: Tensor | Operator, *, n_products: int = 30, generator: torch.Generator) -> Estimate:
    r"""Estimate the trace by Hutch++: exactly on a sketched range, by random signs on the rest.

    .. math:: \mathrm{tr}(Q^\top A Q) + \tfrac1m \sum_j g_j^\top (I-QQ^\top) A (I-QQ^\top) g_j

    A third of the products goes to each of the sketch, its exact part and the rest. The error is the standard error
    of the random part, zero where the sketch has caught everything.

    Args:
        matrix: Symmetric tensor or operator.
        n_products: Budget, at least 6.
        generator: Source of the signs.

    Returns:
        Value, standard error, products spent.

    Raises:
        OptionError: If the budget is too small for an error estimate.

    Example:
        >>> trace(torch.diag(torch.arange(4.0)), n_products=12, generator=torch.Generator().manual_seed(0)).value
        6.0

    Reference: Meyer, Musco, Musco, Woodruff 2021, arXiv:2010.09649.
    """
    operator = as_operator(matrix)
    if n_products < 6:
        raise OptionError(f"Expected n_products ≥ 6, but got {n_products}. 30 is usual.")
    d, third = operator.shape[0], min(n_products // 3, operator.shape[0])
    before = operator.n_products
    basis = torch.linalg.qr(operator @ rademacher(d, third, operator, generator)).Q
    exact = (basis * (operator @ basis)).sum().item()
    rest = rademacher(d, n_products - 2 * third, operator, generator)
    rest = rest - basis @ (basis.T @ rest)
    samples = (rest * (operator @ rest)).sum(0).double()
    error = samples.std().item() / math.sqrt(len(samples))
    return Estimate(round(exact + samples.mean().item(), 12), error, operator.n_products - before)
