"""Beta calibration, one class against the rest."""

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


@CALIBRATORS.register("beta", reference="Kull et al. 2017", keeps_order=False)
def fit_beta(predictions: Predictions) -> Beta:
    """Beta calibration: for each class a logistic curve of log p and −log(1 − p), rising in both.

    Where a coefficient comes out negative its term is dropped and the others are fitted again.

    Args:
        predictions: Of the calibration split.

    Returns:
        The fitted calibrator.
    """
    logits, labels = fitting_data(predictions)
    log_p, log_q = log_odds(logits)
    found = [_fit_one(p, q, (labels == k).double()) for k, (p, q) in enumerate(zip(log_p.T, log_q.T, strict=True))]
    a, b, c = torch.stack(found).T
    return Beta(a.numpy(), b.numpy(), c.numpy(), predictions.split)


def _fit_one(log_p: Tensor, log_q: Tensor, targets: Tensor) -> Tensor:
    features = torch.stack([log_p, -log_q, torch.ones_like(log_p)], 1)
    kept = [0, 1, 2]
    while True:
        coefficients = torch.zeros(3, dtype=torch.float64)
        coefficients[kept] = fit_logistic(features[:, kept], targets)
        negative = [j for j in kept[:-1] if coefficients[j] < 0]
        if not negative:
            return coefficients
        kept.remove(min(negative, key=lambda j: float(coefficients[j])))
