"""Multinomial logistic regression: the NLL of softmax(W x + b), minimised by Newton's method."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from surefoot.calibrators._base import Array
from surefoot.calibrators._fitting import count_rows

_FEW = 20  # classes up to which the Hessian is written down
_STEPS = 300
_MANY_STEPS = 200  # of L-BFGS, one or two passes over the rows each


def fit_linear(
    features: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    weight_cost: Tensor | float = 0.0,
    bias_cost: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Find W and b with the smallest mean NLL of softmax(W x + b), plus Σ cost_ij (W − I)_ij² + bias_cost · Σ b_i².

    Starts from W = I, b = 0, so what the data do not tell stays as it is. The problem is convex. With few classes the
    Hessian is written down, which logits that hardly differ need; with many, L-BFGS does without, in 200 steps at most.

    Args:
        features: x, shape ``(n, classes)``, float64.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; alike when left out.
        weight_cost: Of the squared distance of W from the identity: one for all, or of the shape of W.
        bias_cost: Of squared biases.

    Returns:
        W and b.
    """
    problem = _Problem(features, labels, weights, weight_cost, bias_cost)
    how: dict[str, Any]
    if features.shape[1] > _FEW:
        how = {"method": "L-BFGS-B", "options": {"maxiter": _MANY_STEPS, "gtol": 1e-6, "ftol": 1e-12}}
    else:
        how = {
            "method": "trust-exact",
            "hess": problem.hessian,
            "options": {"maxiter": _STEPS, "gtol": 1e-7},
        }
    found = minimize(problem.loss, problem.start(), jac=True, **how)
    weight, bias = problem.unpack(torch.from_numpy(found.x))
    return weight, bias - bias.mean()  # a constant added to all logits changes nothing


def linear_seconds(n: int, n_classes: int) -> float:
    """Guess how long a fit takes on one core."""
    return (3e-7 if n_classes <= _FEW else 1.2e-8) * n * n_classes**2


class _Problem:
    """The loss, its gradient, and its Hessian."""

    def __init__(
        self,
        features: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        weight_cost: Tensor | float,
        bias_cost: float,
    ) -> None:
        self._x, self._labels = features, labels
        self._k = features.shape[1]
        share = torch.ones(len(labels), dtype=torch.float64) if weights is None else weights
        self._share = share / count_rows(labels, weights)
        cost = torch.as_tensor(weight_cost, dtype=torch.float64).expand(self._k, self._k).flatten()
        self._cost = torch.cat([cost, torch.full((self._k,), bias_cost, dtype=torch.float64)])
        self._start = torch.from_numpy(self.start())
        self._at: Array | None = None
        self._probs = features

    def start(self) -> Array:
        values: Array = torch.cat([torch.eye(self._k).flatten(), torch.zeros(self._k)]).double().numpy()
        return values

    def unpack(self, values: Tensor) -> tuple[Tensor, Tensor]:
        return values[: -self._k].view(self._k, self._k), values[-self._k :]

    def loss(self, point: Array) -> tuple[float, Array]:
        values = torch.from_numpy(point)
        weight, bias = self.unpack(values)
        log_probs = torch.addmm(bias, self._x, weight.T).log_softmax(1)
        self._at, self._probs = point.copy(), log_probs.exp()
        residual = self._probs.clone()
        residual[torch.arange(len(self._x)), self._labels] -= 1
        residual *= self._share[:, None]
        nll = -(log_probs.gather(1, self._labels[:, None]).squeeze(1) @ self._share)
        away = values - self._start
        gradient = torch.cat([(residual.T @ self._x).flatten(), residual.sum(0)]) + 2 * self._cost * away
        return (nll + (self._cost * away.square()).sum()).item(), gradient.numpy()

    def hessian(self, point: Array) -> Array:
        if self._at is None or not np.array_equal(self._at, point):
            self.loss(point)
        n, k = self._x.shape
        x = torch.cat([self._x, torch.ones(n, 1, dtype=torch.float64)], 1)
        blocks = torch.empty(k, k, k + 1, k + 1, dtype=torch.float64)
        for a in range(k):
            for b in range(a + 1):
                pair = self._probs[:, a] * (float(a == b) - self._probs[:, b]) * self._share
                blocks[a, b] = blocks[b, a] = x.T @ (x * pair[:, None])
        # From [class, feature or intercept] to all weights first, then all intercepts.
        order = torch.arange(k * (k + 1)).view(k, k + 1)
        order = torch.cat([order[:, :k].flatten(), order[:, k]])
        whole = blocks.transpose(1, 2).reshape(k * (k + 1), k * (k + 1))[order][:, order]
        result: Array = (whole + 2 * self._cost.diag()).numpy()
        return result
