"""Temperature scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from surefoot.calibrators._base import Calibrator
from surefoot.calibrators._fitting import check_fitting_data, fitting_weights
from surefoot.calibrators._scale import best_scale
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions, SplitName

LOWEST, HIGHEST = 0.05, 20.0


@dataclass(frozen=True, eq=False)
class Temperature(Calibrator):
    """Divides logits by one number; leaves every decision as it is.

    Example:
        >>> import numpy as np
        >>> predictions = Predictions(np.array([[2.0, 0.5, -1.0]]), np.array([0]), "test")
        >>> Temperature(2.0, fitted_on="calibration")(predictions).logits
        array([[ 1.  ,  0.25, -0.5 ]])
    """

    name: ClassVar[str] = "temperature"
    temperature: float
    fitted_on: SplitName

    @staticmethod
    def repair(values: Any, logits: Tensor) -> Tensor:
        """Divide by the temperature."""
        repaired: Tensor = logits / values.temperature
        return repaired


@CALIBRATORS.register("temperature", reference="Guo et al. 2017, arXiv:1706.04599", keeps_order=True, any_columns=True)
def fit_temperature(predictions: Predictions) -> Temperature:
    """Temperature scaling: one number that divides all logits, chosen by NLL.

    The NLL is convex in 1/T; Newton's method finds its minimum in [0.05, 20] to the last digits. Where the true
    classes always have the largest logit the best T is 0, and the lower bound is returned.

    Args:
        predictions: Of the calibration split.

    Returns:
        The fitted calibrator.

    Raises:
        SplitError: If the predictions are of the test split.

    Example:
        >>> import numpy as np
        >>> predictions = Predictions(np.array([[1.0, 0.0]] * 4), np.array([0, 0, 0, 1]), "calibration")
        >>> round(1 / fit_temperature(predictions).temperature, 4)  # log 3: 75 % right
        1.0986
    """
    logits, labels = check_fitting_data(predictions, any_columns=True)
    scale = best_scale(logits, labels, 1 / HIGHEST, 1 / LOWEST, weights=fitting_weights(predictions))
    return Temperature(1 / scale, predictions.split)
