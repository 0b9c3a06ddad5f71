"""What calibrators are fitted on: logits, labels and weights, or one sentence why not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import InputError, SplitError
from surefoot.schema import Predictions


def check_fitting_data(predictions: Predictions, *, any_columns: bool = False) -> tuple[Tensor, Tensor]:
    """Return logits, as they are, and labels to fit on, or refuse them; rows of weight 0 are left out.

    Args:
        predictions: Of the calibration split.
        any_columns: The calibrator does the same to every column, so that choices, whose columns mean something else in
            every row and may be −∞, can be fitted on.

    Returns:
        Shapes ``(n, classes)`` and ``(n,)``.

    Raises:
        SplitError: If the predictions are of the test split.
        InputError: If there are none, some are not finite, there is one class only, labels are outside the classes, or
            they are of a form that the calibrator is not for.
    """
    if predictions.split == "test":
        raise SplitError("Expected the calibration split to fit on, but got 'test'. Keep test data for scoring.")
    check_form(predictions, any_columns)
    kept = _kept(predictions)
    logits = torch.from_numpy(np.asarray(predictions.logits if kept is None else predictions.logits[kept]))
    logits = logits if logits.dtype in (torch.float32, torch.float64) else logits.double()
    labels = torch.from_numpy(np.asarray(predictions.labels if kept is None else predictions.labels[kept], np.int64))
    n, n_classes = logits.shape
    if not n or n_classes < 2:
        raise InputError(f"Expected predictions of at least two classes to fit on, but got {n} of {n_classes}.")
    if int(labels.min()) < 0 or int(labels.max()) >= n_classes:
        raise InputError(
            f"Expected labels in 0…{n_classes - 1}, but got {int(labels.min())} to {int(labels.max())}. "
            "Number the classes from 0."
        )
    if not all(math.isfinite(float(end)) for end in torch.aminmax(logits)):  # NaN would be both ends
        _check_infinite(logits, labels, predictions.form == "choices")
    return logits, labels


def check_form(predictions: Predictions, any_columns: bool) -> None:
    """Refuse predictions of a form that a calibrator is not for.

    Args:
        predictions: Of any form.
        any_columns: The calibrator does the same to every column.

    Raises:
        InputError: If it is not for them.
    """
    if predictions.form == "multilabel":
        raise InputError(
            "Expected one true class per row to fit on, but labels are each true or not by themselves. Calibrate one "
            "label at a time, as two classes."
        )
    if predictions.form == "choices" and not any_columns:
        raise InputError(
            "Expected the same classes in every row, but columns mean something else in every row. Use temperature or "
            "ets, which treat all columns alike."
        )


def _check_infinite(logits: Tensor, labels: Tensor, are_choices: bool) -> None:
    """Refuse logits that are not finite, but for choices that a row does not have."""
    fine = logits.isfinite() | (logits.isneginf() if are_choices else torch.zeros_like(logits, dtype=torch.bool))
    fine.scatter_(1, labels[:, None], logits.gather(1, labels[:, None]).isfinite())
    bad = (~fine.all(1)).to(torch.uint8)
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"Expected finite logits to fit on, but row {row} is {logits[row].tolist()[:8]}. Leave it out."
        )


def _kept(predictions: Predictions) -> Any:
    """Return which rows count, or None where all do."""
    if predictions.weights is None:
        return None
    weights = np.asarray(predictions.weights, np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise InputError(
            f"Expected finite weights of at least 0, not all 0, but got {weights.min():g} to {weights.max():g}. "
            "Leave rows out that must not count."
        )
    return weights > 0


def fitting_data(predictions: Predictions, *, any_columns: bool = False) -> tuple[Tensor, Tensor]:
    """Do what :func:`check_fitting_data` does, with logits in float64."""
    logits, labels = check_fitting_data(predictions, any_columns=any_columns)
    return logits.double(), labels


def fitting_weights(predictions: Predictions) -> Tensor | None:
    """Return how much each row of :func:`fitting_data` counts.

    A row of weight 2 counts as two rows. Weights whose mean is below 1 are no numbers of rows but shares of
    something; they are multiplied to a mean of 1, so that what depends on how many rows there are stays sensible.

    Args:
        predictions: Of the calibration split.

    Returns:
        Float64, shape ``(rows of weight above 0,)``; None where all count alike.

    Example:
        >>> rows = Predictions(np.zeros((3, 2)), np.zeros(3, int), "calibration", weights=np.array([2.0, 0.0, 1.0]))
        >>> fitting_weights(rows)
        tensor([2., 1.], dtype=torch.float64)
    """
    kept = _kept(predictions)
    if kept is None:
        return None
    weights = torch.from_numpy(np.asarray(predictions.weights, np.float64)[kept])
    return weights / min(1.0, weights.mean().item())


def count_rows(labels: Tensor, weights: Tensor | None) -> float:
    """Return how many rows there are, each counted by its weight."""
    return float(len(labels)) if weights is None else weights.sum().item()
