"""Temperature scaling."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from surefoot.errors import SplitError
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions, SplitName

LOWEST, HIGHEST = 0.05, 20.0


@dataclass(frozen=True)
class Temperature:
    """Divides logits by one number; leaves every decision as it is.

    Example:
        >>> predictions = Predictions(np.array([[2.0, 0.5, -1.0]]), np.array([0]), "test")
        >>> Temperature(2.0, fitted_on="calibration")(predictions).logits
        array([[ 1.  ,  0.25, -0.5 ]])
    """

    temperature: float
    fitted_on: SplitName

    def __call__(self, predictions: Predictions) -> Predictions:
        """Repair predictions for another split than the one it was fitted on."""
        scaled = predictions.logits / self.temperature
        return Predictions(scaled, predictions.labels, predictions.split, fitted_on=self.fitted_on)


@CALIBRATORS.register("temperature", reference="Guo et al. 2017, arXiv:1706.04599")
def fit_temperature(predictions: Predictions) -> Temperature:
    """Temperature scaling: one number that divides all logits, chosen by NLL.

    The NLL is convex in 1/T, so its minimum is where the derivative changes sign; bisection on log T finds it in
    [0.05, 20] to the last digits. Where the true classes always have the largest logit the best T is 0, and the
    lower bound is returned.

    Args:
        predictions: Of the calibration split.

    Returns:
        The fitted calibrator.

    Raises:
        SplitError: If the predictions are of the test split.
    """
    if predictions.split == "test":
        raise SplitError("Expected the calibration split to fit on, but got 'test'. Keep test data for scoring.")
    logits = torch.from_numpy(np.asarray(predictions.logits, np.float64))
    of_truth = logits.gather(1, torch.from_numpy(np.asarray(predictions.labels, np.int64))[:, None]).squeeze(1)

    def slope(log_t: float) -> float:
        """Derivative of the NLL with respect to 1/T: expected minus true logit."""
        return ((logits * math.exp(-log_t)).softmax(1).mul(logits).sum(1) - of_truth).mean().item()

    low, high = math.log(LOWEST), math.log(HIGHEST)
    while high - low > 1e-12:
        middle = (low + high) / 2
        if slope(middle) > 0:  # too sharp: T must grow
            low = middle
        else:
            high = middle
    return Temperature(math.exp((low + high) / 2), predictions.split)
