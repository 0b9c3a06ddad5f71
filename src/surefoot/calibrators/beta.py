"""Beta calibration."""

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
class Beta(Calibrator):
    """Maps each class's probability s by logit q = a log s − b log(1 − s) + c, then divides by the sum over classes.

    Example:
        >>> import numpy as np
        >>> leaves_as_is = Beta(np.ones(2), np.ones(2), np.zeros(2), "calibration")
        >>> leaves_as_is.probs(np.log([[0.8, 0.2]])).round(4)
        array([[0.8, 0.2]])
    """

    name: ClassVar[str] = "beta"
    a: Array
    b: Array
    c: Array
    fitted_on: SplitName

    @staticmethod
    def repair(values: Any, logits: Tensor) -> Tensor:
        """Map the two logarithms of each class."""
        return share_out_logits(beta_logit(*log_odds(logits), values.a, values.b, values.c))


def beta_logit(log_p: Tensor, log_q: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Return a log s − b log(1 − s) + c."""
    return a * log_p - b * log_q + c


@CALIBRATORS.register(
    "beta",
    reference="Kull et al. 2017",
    keeps_order=False,
    parameters=lambda k: 3 * k,
    seconds=lambda n, k: 8e-6 * n * k,
)
def fit_beta(predictions: Predictions, *, joint: bool = True) -> Beta:
    """Beta calibration: for each class a logistic curve of log p and −log(1 − p), rising in both.

    Of more than two classes the curves are fitted together, by the NLL of the probabilities that they make after
    division by their sum. One class against the rest, as published for two classes, is blind to the division.

    Args:
        predictions: Of the calibration split.
        joint: Fit more than two classes together; else each against the rest, where a coefficient that comes out
            negative is dropped and the others are fitted again.

    Returns:
        The fitted calibrator.
    """
    logits, labels = fitting_data(predictions)
    weights = fitting_weights(predictions)
    log_p, log_q = log_odds(logits)
    if joint and logits.shape[1] > 2:
        features = [log_p, -log_q, torch.ones_like(log_p)]
        found = fit_jointly(features, labels, weights, start=[1.0, 1.0, 0.0], not_negative=[0, 1])
    else:
        columns = enumerate(zip(log_p.T, log_q.T, strict=True))
        found = torch.stack([_fit_one(p, q, (labels == k).double(), weights) for k, (p, q) in columns]).T
    a, b, c = found.numpy()
    return Beta(a, b, c, predictions.split)


def _fit_one(log_p: Tensor, log_q: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
    features = torch.stack([log_p, -log_q, torch.ones_like(log_p)], 1)
    kept = [0, 1, 2]
    while True:
        coefficients = torch.zeros(3, dtype=torch.float64)
        coefficients[kept] = fit_logistic(features[:, kept], targets, weights)
        negative = [j for j in kept[:-1] if coefficients[j] < 0]
        if not negative:
            return coefficients
        kept.remove(min(negative, key=lambda j: float(coefficients[j])))
