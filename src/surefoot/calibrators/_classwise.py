"""Softmax regression in which each class has coefficients of its own: the NLL of softmax(Σ_j c_jk x_jk), by Newton."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from surefoot.calibrators._base import Array
from surefoot.calibrators._fitting import count_rows


def fit_classwise(
    features: Sequence[Tensor],
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    start: Sequence[float],
    cost: Sequence[float] | float = 0.0,
    offset: Tensor | None = None,
    not_negative: Sequence[int] = (),
) -> Tensor:
    """Find the smallest mean NLL of softmax(offset + Σ_j c_jk x_jk), plus Σ cost_j (c_jk − start_j)².

    The problem is convex. Where a coefficient that must not be negative is, it is held at 0 and the others are fitted
    again.

    Args:
        features: x_j, each of shape ``(n, classes)`` or one that expands to it, float64.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; alike when left out.
        start: Where each feature's coefficients start, and what the penalty draws them to.
        cost: Of the squared distance from there: one for all, or one per feature.
        offset: What is added in any case, shape ``(n, classes)``.
        not_negative: Numbers of features with coefficients of 0 or more.

    Returns:
        Shape ``(features, classes)``.

    Example:
        >>> ones, labels = torch.ones(4, 2, dtype=torch.float64), torch.tensor([0, 0, 0, 1])
        >>> c = fit_classwise([ones], labels, start=[0.0], cost=1e-9)
        >>> round((c[0, 0] - c[0, 1]).item(), 4)  # log 3
        1.0986
    """
    problem = _Problem(features, labels, weights, start, cost, offset)
    values = problem.begin.clone()
    free = torch.ones_like(values, dtype=torch.bool)
    while True:
        problem.free = free.flatten()
        values[~free] = 0.0
        found = minimize(
            problem.loss,
            values.flatten().numpy(),
            jac=True,
            hessp=problem.hessian_times,
            method="trust-ncg",
            options={"maxiter": 300, "gtol": 1e-7},
        )
        values = torch.from_numpy(found.x).view_as(values)
        negative = torch.zeros_like(free)
        negative[list(not_negative)] = values[list(not_negative)] < 0
        if not negative.any():
            return values
        free &= ~negative


class _Problem:
    """The loss, its gradient, and products with its Hessian, over the coefficients that are free."""

    def __init__(
        self,
        features: Sequence[Tensor],
        labels: Tensor,
        weights: Tensor | None,
        start: Sequence[float],
        cost: Sequence[float] | float,
        offset: Tensor | None,
    ) -> None:
        self._labels, self._offset = labels, offset
        n_classes = (torch.broadcast_tensors(*features) if offset is None else (offset,))[0].shape[1]
        self._x = [each.expand(len(labels), n_classes) for each in features]
        share = torch.ones(len(labels), dtype=torch.float64) if weights is None else weights
        self._share = share / count_rows(labels, weights)
        self.begin = torch.tensor(start, dtype=torch.float64)[:, None].repeat(1, n_classes)
        costs = torch.as_tensor(cost, dtype=torch.float64).expand(len(features))
        self._cost = costs[:, None].repeat(1, n_classes).flatten()
        self.free = torch.ones_like(self._cost, dtype=torch.bool)
        self._at: Array | None = None
        self._probs = self._x[0]

    def _scores(self, values: Tensor) -> Tensor:
        scores = torch.zeros(self._x[0].shape, dtype=torch.float64)
        for x, row in zip(self._x, values.view_as(self.begin), strict=True):
            scores.addcmul_(x, row)
        return scores

    def _back(self, residual: Tensor) -> Tensor:
        return torch.cat([(x * residual).sum(0) for x in self._x])

    def loss(self, point: Array) -> tuple[float, Array]:
        values = torch.from_numpy(point)
        scores = self._scores(values)
        log_probs = (scores if self._offset is None else scores + self._offset).log_softmax(1)
        self._at, self._probs = point.copy(), log_probs.exp()
        residual = self._probs.clone()
        residual[torch.arange(len(self._labels)), self._labels] -= 1
        nll = -(log_probs.gather(1, self._labels[:, None]).squeeze(1) @ self._share)
        away = torch.where(self.free, values - self.begin.flatten(), 0.0)
        gradient = self._back(residual * self._share[:, None]) + 2 * self._cost * away
        result: Array = torch.where(self.free, gradient, 0.0).numpy()
        return (nll + (self._cost * away.square()).sum()).item(), result

    def hessian_times(self, point: Array, direction: Array) -> Array:
        if self._at is None or not np.array_equal(self._at, point):
            self.loss(point)
        v = torch.where(self.free, torch.from_numpy(direction), 0.0)
        weighted = self._probs * self._scores(v)
        weighted -= self._probs * weighted.sum(1, keepdim=True)
        product = self._back(weighted * self._share[:, None]) + 2 * self._cost * v
        result: Array = torch.where(self.free, product, 0.0).numpy()
        return result
