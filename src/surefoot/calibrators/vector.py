"""Vector scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from surefoot.calibrators._base import Array, Calibrator
from surefoot.calibrators._classwise import fit_classwise
from surefoot.calibrators._fitting import fitting_data, fitting_weights
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions, SplitName


@dataclass(frozen=True, eq=False)
class Vector(Calibrator):
    """Multiplies each class's logit by its own factor and adds its own bias: softmax(v ∘ z + b).

    Example:
        >>> import numpy as np
        >>> Vector(np.array([1.0, 2.0]), np.array([0.0, -1.0]), "calibration").logits(np.array([[3.0, 1.0]]))
        array([[3., 1.]])
    """

    name: ClassVar[str] = "vector"
    factor: Array
    bias: Array
    fitted_on: SplitName

    @staticmethod
    def repair(values: Any, logits: Tensor) -> Tensor:
        """Scale and shift each class."""
        repaired: Tensor = logits * values.factor + values.bias
        return repaired


def vector_seconds(n: int, n_classes: int) -> float:
    """Guess how long a fit takes on one core."""
    return 1e-6 * n * n_classes * (1 + n_classes / 50)


@CALIBRATORS.register(
    "vector",
    reference="Guo et al. 2017, arXiv:1706.04599",
    keeps_order=False,
    parameters=lambda k: 2 * k,
    seconds=vector_seconds,
)
def fit_vector(predictions: Predictions) -> Vector:
    """Vector scaling: a factor and a bias per class, chosen by NLL; may change decisions.

    Args:
        predictions: Of the calibration split.

    Returns:
        The fitted calibrator.
    """
    logits, labels = fitting_data(predictions)
    found = fit_classwise([logits, torch.ones_like(logits)], labels, fitting_weights(predictions), start=[1.0, 0.0])
    factor, bias = found.numpy()
    return Vector(factor, bias - bias.mean(), predictions.split)
