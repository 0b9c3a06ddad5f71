"""Binary logistic regression by Newton's method, without a penalty to speak of."""

from __future__ import annotations

import torch
from torch import Tensor

_RIDGE = 1e-9  # keeps separable data finite; far below what any data could tell


def fit_logistic(features: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Find the coefficients with the smallest mean NLL of σ(X c) for targets in [0, 1].

    Args:
        features: X, shape ``(n, d)``, float64; a column of ones is the intercept.
        targets: Shape ``(n,)``, float64.
        weights: How much each row counts, shape ``(n,)``; alike when left out.

    Returns:
        Shape ``(d,)``.

    Example:
        >>> ones = torch.ones(4, 1, dtype=torch.float64)
        >>> fit_logistic(ones, torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64))  # log 3
        tensor([1.0986], dtype=torch.float64)
    """
    n, d = features.shape
    share = torch.full((n,), 1 / n, dtype=torch.float64) if weights is None else weights / weights.sum()
    ridge = _RIDGE * torch.eye(d, dtype=torch.float64)

    def loss(c: Tensor) -> Tensor:
        entropy = torch.nn.functional.binary_cross_entropy_with_logits(features @ c, targets, reduction="none")
        return entropy @ share + _RIDGE / 2 * c.square().sum()

    coefficients = torch.zeros(d, dtype=torch.float64)
    current = loss(coefficients)
    for _ in range(100):
        p = (features @ coefficients).sigmoid()
        gradient = features.T @ ((p - targets) * share) + _RIDGE * coefficients
        hessian = features.T @ (features * (p * (1 - p) * share)[:, None]) + ridge
        step = torch.linalg.solve(hessian, gradient)
        size = 1.0
        while not (trial := loss(coefficients - size * step)) <= current and size > 1e-6:
            size /= 2
        if size <= 1e-6:
            break
        coefficients, current = coefficients - size * step, trial
        if float(gradient @ step) < 1e-20:
            break
    return coefficients
