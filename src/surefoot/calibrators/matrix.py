"""Matrix scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from surefoot.calibrators._base import Array, Calibrator
from surefoot.calibrators._fitting import count_rows, fitting_data, fitting_weights
from surefoot.calibrators._linear import fit_linear, linear_seconds
from surefoot.errors import OptionError
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions, SplitName


@dataclass(frozen=True, eq=False)
class Matrix(Calibrator):
    """Maps logits by a matrix and a bias: softmax(W z + b).

    Example:
        >>> import numpy as np
        >>> Matrix(np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros(2), "calibration").logits(np.array([[3.0, 1.0]]))
        array([[1., 3.]])
    """

    name: ClassVar[str] = "matrix"
    weight: Array
    bias: Array
    fitted_on: SplitName

    @staticmethod
    def repair(values: Any, logits: Tensor) -> Tensor:
        """Multiply and shift."""
        repaired: Tensor = logits @ values.weight.T + values.bias
        return repaired


@CALIBRATORS.register(
    "matrix", reference="Guo et al. 2017, arXiv:1706.04599", keeps_order=False, class_pairs=True, seconds=linear_seconds
)
def fit_matrix(predictions: Predictions, *, ridge: float = 1.0) -> Matrix:
    """Matrix scaling: a full matrix and a bias, chosen by NLL; overfits where classes are many and examples few.

    Without a penalty there is no smallest NLL where parameters outnumber rows. So the squared distance of the matrix
    from the identity, and that of the bias from 0, cost ``ridge`` · classes / 2n: next to nothing where rows are many.

    Args:
        predictions: Of the calibration split.
        ridge: Strength of the penalty; 0 is none, as published.

    Returns:
        The fitted calibrator.

    Raises:
        OptionError: If it is negative.
    """
    if ridge < 0:
        raise OptionError(f"Expected ridge ≥ 0, but got {ridge}. 0 is no penalty.")
    logits, labels = fitting_data(predictions)
    weights = fitting_weights(predictions)
    cost = ridge * logits.shape[1] / (2 * count_rows(labels, weights))
    weight, bias = fit_linear(logits, labels, weights, weight_cost=cost, bias_cost=cost)
    return Matrix(weight.numpy(), bias.numpy(), predictions.split)
