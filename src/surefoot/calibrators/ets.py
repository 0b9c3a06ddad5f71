"""Ensemble temperature scaling (Mix-n-Match)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.optimize import minimize, minimize_scalar
from torch import Tensor

from surefoot.calibrators._base import Array, Calibrator
from surefoot.calibrators._fitting import fitting_data, fitting_weights
from surefoot.calibrators._scale import best_scale
from surefoot.errors import OptionError
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
        return torch.logsumexp(torch.stack([scaled, plain, _log_uniform(plain)], 2) + values.weights.log(), 2)


def _log_uniform(log_p: Tensor) -> Tensor:
    """Return the logarithm of a uniform distribution over the choices that a row has."""
    absent = log_p == -torch.inf
    count = (~absent).sum(1, keepdim=True).to(log_p.dtype)
    return torch.where(absent, -torch.inf, -count.log())


@CALIBRATORS.register("ets", reference="Zhang et al. 2020, arXiv:2003.07329", keeps_order=True, any_columns=True)
def fit_ets(predictions: Predictions, *, by: str = "nll") -> EnsembleTemperature:
    """Ensemble temperature scaling: T and three weights on the simplex, never worse on these rows than to do nothing.

    T comes first, then the weights. To leave everything as it is and to scale by T alone are corners of the simplex,
    and are taken where the search ends at nothing better.

    Args:
        predictions: Of the calibration split.
        by: What to make small: ``nll``, or ``mse``, the squared error as published, with T in [0.05, 5].

    Returns:
        The fitted calibrator.

    Raises:
        OptionError: If there is no such choice.
    """
    if by not in ("nll", "mse"):
        raise OptionError(f"Expected by to be nll or mse, but got {by!r}.")
    logits, labels = fitting_data(predictions, any_columns=True)
    weights = fitting_weights(predictions)
    share = torch.ones(len(labels), dtype=torch.float64) if weights is None else weights
    share = share / share.sum()
    t = (
        1 / best_scale(logits, labels, 0.05, 20.0, weights=weights)
        if by == "nll"
        else _by_squares(logits, labels, share)
    )
    plain = logits.log_softmax(1)
    members = torch.stack([(logits / t).softmax(1), plain.exp(), _log_uniform(plain).exp()])
    found = (_mix_by_nll if by == "nll" else _mix_by_squares)(members, labels, share)
    return EnsembleTemperature(t, found, predictions.split)


def _by_squares(logits: Tensor, labels: Tensor, share: Tensor) -> float:
    truth = torch.nn.functional.one_hot(labels, logits.shape[1]).double()

    def error(log_t: float) -> float:
        return (((logits / math.exp(log_t)).softmax(1) - truth).square().sum(1) @ share).item()

    bounds = (math.log(LOWEST), math.log(HIGHEST))
    return math.exp(minimize_scalar(error, bounds=bounds, method="bounded", options={"xatol": 1e-8}).x)


def _mix_by_nll(members: Tensor, labels: Tensor, share: Tensor) -> Array:
    truth = members[:, torch.arange(len(labels)), labels].numpy()  # each member's probability of the true class
    counted = share.numpy()

    def loss(w: Array) -> tuple[float, Array]:
        mixed = np.maximum(w @ truth, 1e-300)
        return -float(np.log(mixed) @ counted), -truth @ (counted / mixed)

    return _on_simplex(loss)


def _mix_by_squares(members: Tensor, labels: Tensor, share: Tensor) -> Array:
    truth = torch.nn.functional.one_hot(labels, members.shape[2]).double()
    # |Σ w_m p_m − y|² is a quadratic form of the residuals, because the weights sum to one.
    residuals = ((members - truth) * share.sqrt()[:, None]).flatten(1)
    gram = (residuals @ residuals.T).numpy()
    return _on_simplex(lambda w: (float(w @ gram @ w), 2 * gram @ w))


def _on_simplex(loss: Callable[[Array], tuple[float, Array]]) -> Array:
    """Find the weights of three members with the smallest loss, which is convex."""
    found = minimize(
        loss,
        [0.9, 0.05, 0.05],
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(3)},
        options={"ftol": 1e-14, "maxiter": 200},
    )
    inside = np.clip(np.nan_to_num(found.x), 0, None)
    ends = [inside / max(inside.sum(), 1e-300), np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])]
    return min(ends, key=lambda w: loss(w)[0])
