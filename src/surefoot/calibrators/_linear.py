"""Multinomial logistic regression: the NLL of softmax(W x + b), minimised by Newton's method."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from surefoot.calibrators._base import Array

_FEW = 32


def fit_linear(
    features: Tensor,
    labels: Tensor,
    *,
    diagonal: bool = False,
    weight_cost: Tensor | None = None,
    bias_cost: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Find W and b with the smallest mean NLL of softmax(W x + b), plus Σ cost_ij W_ij² + bias_cost · Σ b_i².

    Starts from W = I, b = 0, so what the data do not tell stays as it is. The problem is convex. With few classes the
    Hessian is written down, which logits that hardly differ need; with many, conjugate gradients only multiply by it.

    Args:
        features: x, shape ``(n, classes)``, float64.
        labels: Class indices, shape ``(n,)``.
        diagonal: Keep W diagonal: one factor per class.
        weight_cost: Shape of W; nothing when left out.
        bias_cost: Of squared biases.

    Returns:
        W (or its diagonal) and b.
    """
    problem = _Problem(features, labels, diagonal, weight_cost, bias_cost)
    if diagonal or features.shape[1] > _FEW:
        second: dict[str, Any] = {"hessp": problem.hessian_times, "method": "trust-ncg"}
    else:
        second = {"hess": problem.hessian, "method": "trust-exact"}
    found = minimize(problem.loss, problem.start(), jac=True, options={"maxiter": 300, "gtol": 1e-7}, **second)
    weight, bias = problem.unpack(torch.from_numpy(found.x))
    return weight, bias - bias.mean()  # a constant added to all logits changes nothing


class _Problem:
    """The loss, its gradient, and products with its Hessian."""

    def __init__(
        self, features: Tensor, labels: Tensor, diagonal: bool, weight_cost: Tensor | None, bias_cost: float
    ) -> None:
        self._x, self._labels, self._diagonal = features, labels, diagonal
        self._k = features.shape[1]
        n_weights = self._k if diagonal else self._k**2
        cost = torch.zeros(n_weights, dtype=torch.float64) if weight_cost is None else weight_cost.flatten().double()
        self._cost = torch.cat([cost, torch.full((self._k,), bias_cost, dtype=torch.float64)])
        self._at: Array | None = None
        self._probs = features

    def start(self) -> Array:
        identity = torch.ones(self._k) if self._diagonal else torch.eye(self._k).flatten()
        values: Array = torch.cat([identity, torch.zeros(self._k)]).double().numpy()
        return values

    def unpack(self, values: Tensor) -> tuple[Tensor, Tensor]:
        weight = values[: -self._k]
        return weight if self._diagonal else weight.view(self._k, self._k), values[-self._k :]

    def _scores(self, values: Tensor) -> Tensor:
        weight, bias = self.unpack(values)
        return torch.addcmul(bias, self._x, weight) if self._diagonal else torch.addmm(bias, self._x, weight.T)

    def _back(self, residual: Tensor) -> Tensor:
        """Return the gradient with respect to W and b of a loss with this gradient with respect to the scores."""
        weight = (residual * self._x).sum(0) if self._diagonal else (residual.T @ self._x).flatten()
        return torch.cat([weight, residual.sum(0)]) / len(self._x)

    def loss(self, point: Array) -> tuple[float, Array]:
        values = torch.from_numpy(point)
        log_probs = self._scores(values).log_softmax(1)
        self._at, self._probs = point.copy(), log_probs.exp()
        residual = self._probs.clone()
        residual[torch.arange(len(self._x)), self._labels] -= 1
        nll = -log_probs.gather(1, self._labels[:, None]).mean()
        gradient: Array = (self._back(residual) + 2 * self._cost * values).numpy()
        return (nll + (self._cost * values.square()).sum()).item(), gradient

    def hessian(self, point: Array) -> Array:
        self._visit(point)
        n, k = self._x.shape
        x = torch.cat([self._x, torch.ones(n, 1, dtype=torch.float64)], 1)
        blocks = torch.empty(k, k, k + 1, k + 1, dtype=torch.float64)
        for a in range(k):
            for b in range(a + 1):
                pair = self._probs[:, a] * (float(a == b) - self._probs[:, b])
                blocks[a, b] = blocks[b, a] = x.T @ (x * pair[:, None]) / n
        # From [class, feature or intercept] to all weights first, then all intercepts.
        order = torch.arange(k * (k + 1)).view(k, k + 1)
        order = torch.cat([order[:, :k].flatten(), order[:, k]])
        whole = blocks.transpose(1, 2).reshape(k * (k + 1), k * (k + 1))[order][:, order]
        result: Array = (whole + 2 * self._cost.diag()).numpy()
        return result

    def _visit(self, point: Array) -> None:
        if self._at is None or not np.array_equal(self._at, point):
            self.loss(point)

    def hessian_times(self, point: Array, direction: Array) -> Array:
        self._visit(point)
        v = torch.from_numpy(direction)
        weighted = self._probs * self._scores(v)
        weighted -= self._probs * weighted.sum(1, keepdim=True)
        product: Array = (self._back(weighted) + 2 * self._cost * v).numpy()
        return product
