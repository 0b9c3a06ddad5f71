"""Dirichlet calibration with off-diagonal and intercept regularisation (ODIR)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from surefoot.calibrators._base import Array, Calibrator
from surefoot.calibrators._fitting import fitting_data, fitting_weights
from surefoot.calibrators._linear import fit_linear, linear_seconds
from surefoot.errors import OptionError
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions, SplitName

_SMALLEST = -708.0  # log of the smallest normal float64, about


@dataclass(frozen=True, eq=False)
class Dirichlet(Calibrator):
    """Maps log-probabilities by a matrix and a bias: softmax(W log p + b).

    Example:
        >>> import numpy as np
        >>> Dirichlet(2 * np.eye(2), np.zeros(2), "calibration").probs(np.log([[0.75, 0.25]])).round(4)
        array([[0.9, 0.1]])
    """

    name: ClassVar[str] = "dirichlet"
    weight: Array
    bias: Array
    fitted_on: SplitName

    @staticmethod
    def repair(values: Any, logits: Tensor) -> Tensor:
        """Multiply log-probabilities and shift."""
        repaired: Tensor = _log_probs(logits) @ values.weight.T + values.bias
        return repaired


def _log_probs(logits: Tensor) -> Tensor:
    return logits.log_softmax(1).clamp(min=_SMALLEST)


def odir_penalty(weight: Tensor, bias: Tensor, *, odir: float, mu: float, normalised: bool = False) -> Tensor:
    """Return λ Σ W_ij² over i ≠ j plus μ Σ b_i².

    Args:
        weight: W, shape ``(classes, classes)``.
        bias: b, shape ``(classes,)``.
        odir: λ.
        mu: μ.
        normalised: Divide λ by classes · (classes − 1) and μ by classes.

    Returns:
        Scalar.

    Example:
        >>> from torch import eye, tensor
        >>> odir_penalty(eye(2) + 0.1, tensor([1.0, 0.0]), odir=1.0, mu=0.5)  # 2 · .1² + .5
        tensor(0.5200)
    """
    k = len(bias)
    if normalised:
        odir, mu = odir / (k * (k - 1)), mu / k
    off_diagonal = weight.square().sum() - weight.diagonal().square().sum()
    return odir * off_diagonal + mu * bias.square().sum()


@CALIBRATORS.register(
    "dirichlet",
    reference="Kull et al. 2019, arXiv:1910.12656",
    keeps_order=False,
    class_pairs=True,
    seconds=linear_seconds,
)
def fit_dirichlet(predictions: Predictions, *, odir: float = 0.01, mu: float = 0.01) -> Dirichlet:
    """Dirichlet calibration: a matrix on log-probabilities, chosen by NLL, held near the diagonal by a penalty.

    Args:
        predictions: Of the calibration split.
        odir: λ, the weight of squared off-diagonal entries.
        mu: μ, the weight of squared biases.

    Returns:
        The fitted calibrator.

    Raises:
        OptionError: If a weight is negative.
    """
    if odir < 0 or mu < 0:
        raise OptionError(f"Expected odir ≥ 0 and mu ≥ 0, but got {odir} and {mu}. 0 is no penalty.")
    logits, labels = fitting_data(predictions)
    off_diagonal = 1 - torch.eye(logits.shape[1])
    counted = fitting_weights(predictions)
    weight, bias = fit_linear(_log_probs(logits), labels, counted, weight_cost=odir * off_diagonal, bias_cost=mu)
    return Dirichlet(weight.numpy(), bias.numpy(), predictions.split)
