"""Matrix scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from surefoot.calibrators._base import Array, Calibrator, fitting_data
from surefoot.calibrators._linear import fit_linear
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


@CALIBRATORS.register("matrix", reference="Guo et al. 2017, arXiv:1706.04599", keeps_order=False, class_pairs=True)
def fit_matrix(predictions: Predictions) -> Matrix:
    """Matrix scaling: a full matrix and a bias, chosen by NLL; overfits where classes are many and examples few.

    Args:
        predictions: Of the calibration split.

    Returns:
        The fitted calibrator.
    """
    weight, bias = fit_linear(*fitting_data(predictions))
    return Matrix(weight.numpy(), bias.numpy(), predictions.split)
