"""Platt scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from surefoot.calibrators._base import Array, Calibrator
from surefoot.calibrators._fitting import fitting_data, fitting_weights
from surefoot.calibrators._jointly import fit_jointly
from surefoot.calibrators._logistic import fit_logistic
from surefoot.calibrators._one_vs_rest import log_odds, share_out_logits
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions, SplitName


@dataclass(frozen=True, eq=False)
class Platt(Calibrator):
    """Maps each class's log-odds f by 1 / (1 + exp(A f + B)), then divides by the sum over classes.

    Example:
        >>> import numpy as np
        >>> leaves_as_is = Platt(np.array([-1.0, -1.0]), np.zeros(2), "calibration")
        >>> leaves_as_is.probs(np.log([[0.8, 0.2]])).round(4)
        array([[0.8, 0.2]])
    """

    name: ClassVar[str] = "platt"
    a: Array
    b: Array
    fitted_on: SplitName

    @staticmethod
    def repair(values: Any, logits: Tensor) -> Tensor:
        """Map the log-odds of each class."""
        log_p, log_q = log_odds(logits)
        return share_out_logits(-(values.a * (log_p - log_q) + values.b))


def smoothed_targets(positive: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return (N₊ + 1) / (N₊ + 2) for positives and 1 / (N₋ + 2) for the others.

    Args:
        positive: Booleans, shape ``(n,)``.
        weights: How much each counts, shape ``(n,)``; alike when left out.

    Returns:
        Targets, float64.

    Example:
        >>> smoothed_targets(torch.tensor([True, False]))
        tensor([0.6667, 0.3333], dtype=torch.float64)
    """
    counted = torch.ones(len(positive), dtype=torch.float64) if weights is None else weights
    n = counted[positive].sum()
    return torch.where(positive, (n + 1) / (n + 2), 1 / (counted.sum() - n + 2))


@CALIBRATORS.register(
    "platt", reference="Platt 1999", keeps_order=False, parameters=lambda k: 2 * k, seconds=lambda n, k: 3e-6 * n * k
)
def fit_platt(predictions: Predictions, *, joint: bool = True) -> Platt:
    """Platt scaling: for each class a logistic curve of its log-odds.

    Of more than two classes the curves are fitted together, by the NLL of the probabilities that they make after
    division by their sum. Two classes, and with ``joint=false`` each class against the rest, are fitted to the smoothed
    targets of the reference.

    Args:
        predictions: Of the calibration split.
        joint: Fit more than two classes together.

    Returns:
        The fitted calibrator.
    """
    logits, labels = fitting_data(predictions)
    weights = fitting_weights(predictions)
    log_p, log_q = log_odds(logits)
    scores = log_p - log_q
    if joint and logits.shape[1] > 2:
        found = fit_jointly([scores, torch.ones_like(scores)], labels, weights, start=[1.0, 0.0])
    else:
        found = torch.stack([_fit_one(column, labels == k, weights) for k, column in enumerate(scores.T)]).T
    a, b = (-found).numpy()
    return Platt(a, b, predictions.split)


def _fit_one(scores: Tensor, positive: Tensor, weights: Tensor | None) -> Tensor:
    features = torch.stack([scores, torch.ones_like(scores)], 1)
    return fit_logistic(features, smoothed_targets(positive, weights), weights)
