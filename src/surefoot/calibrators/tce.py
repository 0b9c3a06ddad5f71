"""Calibration error after temperature scaling (TCE), with the temperature chosen in either of two ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from surefoot.calibrators._fitting import check_fitting_data
from surefoot.calibrators.temperature import Temperature, fit_temperature
from surefoot.errors import OptionError
from surefoot.registry import METRICS
from surefoot.schema import Predictions

By = Literal["nll", "ece"]
GRID = tuple(round(0.1 * step, 1) for step in range(1, 101))


@dataclass(frozen=True)
class TCE:
    """ECE after temperature scaling, the temperature, and what it was chosen by."""

    value: float
    temperature: float
    by: By


def grid_temperature(predictions: Predictions, *, by: By = "ece", n_bins: int = 15) -> Temperature:
    """Choose T among 0.1, 0.2, … 10.0; the first of equals wins.

    Args:
        predictions: Of the calibration split.
        by: What to make small there: ``ece``, as the focal-loss experiments did, or ``nll``.
        n_bins: Number of bins of the ECE.

    Returns:
        The fitted calibrator.

    Raises:
        OptionError: If there is no such choice.
    """
    if by not in ("nll", "ece"):
        raise OptionError(f"Expected by to be nll or ece, but got {by!r}.")
    logits, labels = check_fitting_data(predictions)
    options = {"n_bins": n_bins} if by == "ece" else {}
    scores = [METRICS[by].build((logits.double() / t).softmax(1), labels, **options).item() for t in GRID]
    return Temperature(GRID[int(np.argmin(scores))], predictions.split)


def tce(calibration: Predictions, test: Predictions, *, by: By = "nll", n_bins: int = 15) -> TCE:
    """Measure ECE on one split after temperature scaling fitted on another.

    Tables differ in how T is chosen, mostly without saying so; report which. By NLL the search is exact; by ECE it
    is the grid of the focal-loss experiments, with many minima that mean little.

    Args:
        calibration: To choose the temperature on.
        test: To measure on; another split.
        by: ``nll`` or ``ece``.
        n_bins: Number of bins (a, b].

    Returns:
        The error with its temperature.

    Example:
        >>> logits, labels = np.array([[1.0, 0.0]] * 4), np.array([0, 0, 0, 1])
        >>> result = tce(Predictions(logits, labels, "calibration"), Predictions(logits, labels, "test"))
        >>> round(result.value, 6), round(1 / result.temperature, 4)  # three of four right
        (0.0, 1.0986)

    Reference: Guo et al. 2017, arXiv:1706.04599; Mukhoti et al. 2020, arXiv:2002.09437.
    """
    fitted = fit_temperature(calibration) if by == "nll" else grid_temperature(calibration, by=by, n_bins=n_bins)
    repaired = fitted(test)
    probs = torch.from_numpy(np.asarray(repaired.logits, np.float64)).softmax(1)
    labels = torch.from_numpy(np.asarray(repaired.labels, np.int64))
    return TCE(METRICS["ece"].build(probs, labels, n_bins=n_bins).item(), fitted.temperature, by)
