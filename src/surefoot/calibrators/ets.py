"""Ensemble temperature scaling (Mix-n-Match)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.optimize import minimize, minimize_scalar
from torch import Tensor

from surefoot.calibrators._base import Array, Calibrator, fitting_data
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions, SplitName

LOWEST, HIGHEST = 0.05, 5.0


@dataclass(frozen=True, eq=False)
class EnsembleTemperature(Calibrator):
    """Mixes softmax(z / T), softmax(z) and the uniform distribution; leaves every decision as it is.

    Example:
        >>> import numpy as np
        >>> half_uniform = EnsembleTemperature(1.0, np.array([0.5, 0.0, 0.5]), "calibration")
        >>> half_uniform.probs(np.log([[0.8, 0.2]])).round(4)
        array([[0.65, 0.35]])
    """

    name: ClassVar[str] = "ets"
    temperature: float
    weights: Array
    fitted_on: SplitName

    @staticmethod
    def repair(values: Any, logits: Tensor) -> Tensor:
        """Mix, in logarithms so that nothing underflows."""
        scaled, plain = (logits / values.temperature).log_softmax(1), logits.log_softmax(1)
        uniform = torch.zeros_like(plain) - math.log(logits.shape[1])
        return torch.logsumexp(torch.stack([scaled, plain, uniform], 2) + values.weights.log(), 2)


@CALIBRATORS.register("ets", reference="Zhang et al. 2020, arXiv:2003.07329", keeps_order=True)
def fit_ets(predictions: Predictions) -> EnsembleTemperature:
    """Ensemble temperature scaling: T and three weights on the simplex, chosen by squared error as published.

    T comes first, in [0.05, 5]; then the weights, from (1, 0, 0).

    Args:
        predictions: Of the calibration split.

    Returns:
        The fitted calibrator.
    """
    logits, labels = fitting_data(predictions)
    truth = torch.nn.functional.one_hot(labels, logits.shape[1]).double()

    def error(log_t: float) -> float:
        return ((logits / math.exp(log_t)).softmax(1) - truth).square().mean().item()

    bounds = (math.log(LOWEST), math.log(HIGHEST))
    t = math.exp(minimize_scalar(error, bounds=bounds, method="bounded", options={"xatol": 1e-8}).x)
    members = [(logits / t).softmax(1), logits.softmax(1), torch.full_like(logits, 1 / logits.shape[1])]
    # |Σ w_m p_m − y|² is a quadratic form of the residuals, because the weights sum to one.
    residuals = torch.stack([(member - truth).flatten() for member in members])
    gram = (residuals @ residuals.T / len(labels)).numpy()
    found = minimize(
        lambda w: (w @ gram @ w, 2 * gram @ w),
        [1.0, 0.0, 0.0],
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(3)},
        options={"ftol": 1e-14, "maxiter": 200},
    )
    weights = np.clip(found.x, 0, None)
    return EnsembleTemperature(t, weights / weights.sum(), predictions.split)
