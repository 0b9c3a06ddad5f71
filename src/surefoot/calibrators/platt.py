"""Platt scaling, one class against the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from surefoot.calibrators._base import Array, Calibrator, fitting_data
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


def smoothed_targets(positive: Tensor) -> Tensor:
    """Return (N₊ + 1) / (N₊ + 2) for positives and 1 / (N₋ + 2) for the others.

    Args:
        positive: Booleans, shape ``(n,)``.

    Returns:
        Targets, float64.

    Example:
        >>> smoothed_targets(torch.tensor([True, False]))
        tensor([0.6667, 0.3333], dtype=torch.float64)
    """
    n = positive.sum().double()
    return torch.where(positive, (n + 1) / (n + 2), 1 / (len(positive) - n + 2))


@CALIBRATORS.register("platt", reference="Platt 1999", keeps_order=False)
def fit_platt(predictions: Predictions) -> Platt:
    """Platt scaling: for each class a logistic curve of its log-odds, fitted to smoothed targets.

    Args:
        predictions: Of the calibration split.

    Returns:
        The fitted calibrator.
    """
    logits, labels = fitting_data(predictions)
    log_p, log_q = log_odds(logits)
    found = []
    for k, scores in enumerate((log_p - log_q).T):
        features = torch.stack([scores, torch.ones_like(scores)], 1)
        found.append(fit_logistic(features, smoothed_targets(labels == k)))
    a, b = (-torch.stack(found)).T
    return Platt(a.numpy(), b.numpy(), predictions.split)
