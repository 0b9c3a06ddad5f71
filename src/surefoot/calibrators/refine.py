"""Refine, then calibrate: choose the epoch by what temperature scaling cannot repair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.calibrators._fitting import fitting_data
from surefoot.calibrators._scale import best_scale
from surefoot.calibrators.temperature import Temperature
from surefoot.errors import InputError
from surefoot.schema import Predictions

_WIDEST = math.exp(16)


@dataclass(frozen=True)
class Refinement:
    """The NLL of predictions in two parts, in nats."""

    loss: float
    refinement: float
    """NLL after the best scaling: what no temperature repairs."""
    scale: float
    """The best scaling, 1 / T."""
    smoothed: float
    """NLL of the scaled probabilities mixed with the uniform distribution at weight 1 / (n + 1)."""

    @property
    def calibration(self) -> float:
        """What the scaling removes."""
        return self.loss - self.refinement


@dataclass(frozen=True)
class ChosenEpoch:
    """The epoch to deploy, with the temperature to deploy it with."""

    epoch: int
    temperature: Temperature
    by_loss: int
    """The epoch that the NLL without scaling would have chosen."""
    epochs: tuple[Refinement, ...]


def refinement(predictions: Predictions) -> Refinement:
    """Split the NLL into what temperature scaling repairs and what it does not.

    Args:
        predictions: Of the calibration split. One number is fitted and scored on the same data, which flatters it a
            little.

    Returns:
        Both parts.

    Example:
        >>> import numpy as np
        >>> parts = refinement(Predictions(np.array([[9.0, 0.0]] * 4), np.array([0, 0, 0, 1]), "calibration"))
        >>> round(parts.refinement, 4)  # three of four right: −.75 log .75 − .25 log .25
        0.5623

    Reference: Berta et al. 2025, arXiv:2501.19195.
    """
    logits, labels = fitting_data(predictions)
    scale = best_scale(logits, labels, 1 / _WIDEST, _WIDEST)
    mixed = 1 / (len(labels) + 1)
    p_y = _log_py(scale * logits, labels).exp()
    smoothed = -((1 - mixed) * p_y + mixed / logits.shape[1]).log().mean().item()
    after = -_log_py(scale * logits, labels).mean().item()
    return Refinement(-_log_py(logits, labels).mean().item(), after, scale, smoothed)


def choose_epoch(epochs: Sequence[Predictions], *, smoothed: bool = False) -> ChosenEpoch:
    """Choose the epoch with the smallest NLL after its own best temperature, the earliest of equals.

    Args:
        epochs: Predictions of the calibration split after each epoch.
        smoothed: Compare the smoothed NLL instead, which is finite also where every prediction is right.

    Returns:
        The choice, and every epoch's parts.

    Raises:
        InputError: If there are no epochs.

    Reference: Berta et al. 2025, arXiv:2501.19195.
    """
    if not epochs:
        raise InputError("Expected predictions of at least one epoch, but got none. Record them during training.")
    parts = tuple(refinement(predictions) for predictions in epochs)
    scores = [part.smoothed if smoothed else part.refinement for part in parts]
    best = min(range(len(parts)), key=lambda epoch: scores[epoch])
    by_loss = min(range(len(parts)), key=lambda epoch: parts[epoch].loss)
    return ChosenEpoch(best, Temperature(1 / parts[best].scale, epochs[best].split), by_loss, parts)


def _log_py(logits: Tensor, labels: Tensor) -> Tensor:
    return -torch.nn.functional.cross_entropy(logits, labels, reduction="none")
