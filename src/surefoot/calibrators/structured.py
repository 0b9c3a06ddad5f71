"""Structured matrix scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from surefoot.calibrators._base import Array, Calibrator
from surefoot.calibrators._fitting import count_rows, fitting_data, fitting_weights
from surefoot.calibrators._linear import fit_linear, linear_seconds
from surefoot.calibrators._scale import best_scale
from surefoot.errors import OptionError
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions, SplitName


@dataclass(frozen=True, eq=False)
class StructuredMatrix(Calibrator):
    """Maps logits, each row less its mean, by a matrix and a bias: softmax(W z + b).

    Example:
        >>> import numpy as np
        >>> twice = StructuredMatrix(2 * np.eye(2), np.zeros(2), "calibration")
        >>> twice.probs(np.log([[0.75, 0.25]])).round(4)
        array([[0.9, 0.1]])
    """

    name: ClassVar[str] = "structured"
    weight: Array
    bias: Array
    fitted_on: SplitName

    @staticmethod
    def repair(values: Any, logits: Tensor) -> Tensor:
        """Centre, multiply and shift."""
        repaired: Tensor = _centred(logits) @ values.weight.T + values.bias
        return repaired


def _centred(logits: Tensor) -> Tensor:
    return logits - logits.mean(1, keepdim=True)


@CALIBRATORS.register(
    "structured", reference="Berta et al. 2025, arXiv:2511.03685", keeps_order=False, seconds=linear_seconds
)
def fit_structured(
    predictions: Predictions, *, diagonal: float = 1.0, off_diagonal: float = 1.0, intercept: float = 1.0
) -> StructuredMatrix:
    """Structured matrix scaling: a temperature, and a matrix and bias drawn to it the more, the fewer rows there are.

    The temperature comes first, without a penalty. Then softmax((I + D + M) z / T + b) is fitted with squared
    penalties: K / n times ``diagonal`` on D, K (K − 1) / n times ``off_diagonal`` on M and K / n times ``intercept`` on
    b, for K classes and n rows. With few rows it is temperature scaling, with many a free matrix.

    Args:
        predictions: Of the calibration split.
        diagonal: Strength of the penalty on each class's own factor.
        off_diagonal: Strength of the penalty on what a class takes from another.
        intercept: Strength of the penalty on biases.

    Returns:
        The fitted calibrator.

    Raises:
        OptionError: If a strength is negative.
    """
    if min(diagonal, off_diagonal, intercept) < 0:
        raise OptionError(
            f"Expected strengths ≥ 0, but got {diagonal}, {off_diagonal} and {intercept}. 0 is no penalty."
        )
    logits, labels = fitting_data(predictions)
    weights = fitting_weights(predictions)
    n, k = count_rows(labels, weights), logits.shape[1]
    scale = best_scale(logits, labels, 0.05, 20.0, weights=weights)
    eye = torch.eye(k, dtype=torch.float64)
    cost = (diagonal * k * eye + off_diagonal * k * (k - 1) * (1 - eye)) / n
    weight, bias = fit_linear(scale * _centred(logits), labels, weights, weight_cost=cost, bias_cost=intercept * k / n)
    return StructuredMatrix((scale * weight).numpy(), bias.numpy(), predictions.split)
