"""Curves of all classes fitted together: the NLL of what their normalised sigmoids make of a row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.nn.functional import logsigmoid

from surefoot.calibrators._base import Array
from surefoot.calibrators._fitting import count_rows


def fit_jointly(
    features: Sequence[Tensor],
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    start: Sequence[float],
    not_negative: Sequence[int] = (),
) -> Tensor:
    """Find coefficients c with the smallest mean NLL of rows σ(Σ_j c_jk x_jk), each divided by its sum over classes.

    Each class by itself against the rest would be blind to what the division does afterwards. The penalty is
    classes / 2n times the squared distance from the start, so that what the data do not tell stays as it is.

    Args:
        features: x_j, each of shape ``(n, classes)``, float64.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; alike when left out.
        start: Where each feature's coefficients start.
        not_negative: Numbers of features with coefficients of 0 or more.

    Returns:
        Shape ``(features, classes)``.
    """
    n_classes = features[0].shape[1]
    share = torch.ones(len(labels), dtype=torch.float64) if weights is None else weights
    n = count_rows(labels, weights)
    share, cost = share / n, n_classes / (2 * n)
    begin = torch.tensor(start, dtype=torch.float64)[:, None].repeat(1, n_classes)
    rows = torch.arange(len(labels))

    def loss(point: Array) -> tuple[float, Array]:
        values = torch.from_numpy(point).view_as(begin)
        scores = torch.zeros_like(features[0])
        for x, row in zip(features, values, strict=True):
            scores = torch.addcmul(scores, x, row)
        log_p = logsigmoid(scores).log_softmax(1)
        residual = log_p.exp()
        residual[rows, labels] -= 1
        residual *= torch.sigmoid(-scores) * share[:, None]
        away = values - begin
        gradient = torch.stack([(x * residual).sum(0) for x in features]) + 2 * cost * away
        value = -(log_p[rows, labels] @ share) + cost * away.square().sum()
        return value.item(), gradient.flatten().numpy()

    lowest = [0.0 if j in not_negative else -np.inf for j in range(len(features)) for _ in range(n_classes)]
    found = minimize(
        loss,
        begin.flatten().numpy(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(low, np.inf) for low in lowest],
        options={"maxiter": 1000, "maxfun": 2000, "ftol": 1e-13, "gtol": 1e-6, "maxcor": 30},
    )
    return torch.from_numpy(found.x).view_as(begin)
