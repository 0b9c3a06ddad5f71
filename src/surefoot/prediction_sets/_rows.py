"""Rows that sets are fitted on or made of: finite, of the right number of classes, and all there."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.errors import InputError, SplitError
from surefoot.logs import finite_logs
from surefoot.prediction_sets._quantile import Array, check_weights
from surefoot.schema import Form, Predictions

_TOLERANCE = 1e-3  # of a row's sum; float16 rounds a softmax by up to half of it
_NO_SETS = {
    "multilabel": "several labels can be true at once. Make a set of each label on its own",
    "confidence": "a confidence and whether it was right name no classes. Pass probabilities of all classes",
}


def probs_of(logits: Array) -> Array:
    """Return the softmax in float64.

    Example:
        >>> probs_of(np.array([[0.0, np.log(3.0)]]))
        array([[0.25, 0.75]])
    """
    exps = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return np.asarray(exps / exps.sum(axis=1, keepdims=True))


def check_probs(probs: Any, logits: Any, n_classes: int, form: Form = "multiclass") -> Array:
    """Return rows as logits, or refuse what sets cannot be made of.

    Args:
        probs: Probabilities, shape ``(n, classes)``.
        logits: Logits instead.
        n_classes: How many classes the sets were fitted on.
        form: Of the predictions; ``choices`` may lack some.

    Returns:
        Logits in float64; of probabilities, their logarithms.

    Raises:
        InputError: If both or none is given, the number of classes differs, or a row is no prediction.
    """
    if (probs is None) == (logits is None):
        raise InputError("Expected probs or logits, but got both or none. Pass one of them.")
    is_probs, given = logits is None, logits if probs is None else probs
    rows = _array(given)
    if rows.ndim != 2 or rows.dtype.kind not in "fiu" or rows.shape[1] != n_classes:
        raise InputError(
            f"Expected {'probs' if is_probs else 'logits'} (n, {n_classes}), one column for each class that the sets "
            f"were fitted on, but got {rows.shape}. Pass those of the same model."
        )
    single = rows.dtype.kind == "f" and rows.dtype.itemsize <= 4
    rows = rows.astype(np.float64)
    if is_probs:
        off = (np.abs(rows.sum(1) - 1) > _TOLERANCE) | (rows < 0).any(1) | ~np.isfinite(rows).all(1)
        what = "probabilities that are not negative and sum to 1"
    else:
        off = ~np.isfinite(rows).all(1) if form != "choices" else (np.isnan(rows) | (rows == np.inf)).any(1)
        what = "finite logits"
    if off.any():
        row = int(off.argmax())
        shown = ", ".join(f"{value:.4g}" for value in rows[row][:4])
        hint = " Pass logits as logits=." if is_probs else ""
        raise InputError(f"Expected {what}, but row {row} has {shown}. Correct it, or leave it out.{hint}")
    if not is_probs:
        return rows
    with np.errstate(divide="ignore"):
        logs: Array = np.log(rows)
    return logs if form == "choices" else finite_logs(logs, single=single)


def check_rows(predictions: Predictions) -> tuple[Array, Array, Array | None]:
    """Return logits, labels and weights to fit sets on, or refuse them.

    Args:
        predictions: Of the calibration split.

    Returns:
        Logits in float64, labels in int64, and weights in float64 where there are some.

    Raises:
        SplitError: If the predictions are of the test split.
        InputError: If sets cannot be fitted on them.
    """
    if predictions.split == "test":
        raise SplitError("Expected the calibration split to fit sets on, but got 'test'. Keep test data for scoring.")
    check_form(predictions.form)
    n, n_classes = predictions.logits.shape
    if not n or n_classes < 2:
        raise InputError(f"Expected predictions of at least two classes to fit sets on, but got {n} of {n_classes}.")
    logits = check_probs(None, predictions.logits, n_classes, predictions.form)
    labels = np.asarray(predictions.labels, np.int64)
    if labels.min() < 0 or labels.max() >= n_classes:
        raise InputError(
            f"Expected labels in 0…{n_classes - 1}, but got {labels.min()} to {labels.max()}. Number the classes from "
            "0."
        )
    absent = np.isneginf(logits[np.arange(n), labels])
    if absent.any():
        raise InputError(
            f"Expected the true choice among those of its row, but row {int(absent.argmax())} does not have it. "
            "Correct it."
        )
    weights = None if predictions.weights is None else np.asarray(predictions.weights, np.float64)
    if weights is not None:
        check_weights(weights, n)
    return logits, labels, weights


def check_form(form: Form) -> None:
    """Refuse predictions of which no set of classes can be made."""
    if form in _NO_SETS:
        raise InputError(f"Expected one true class per row for prediction sets, but in {form} rows {_NO_SETS[form]}.")


def _array(given: Any) -> Array:
    """Bring a tensor or an array to NumPy, and types of half precision that NumPy does not know to single."""
    if not hasattr(given, "detach"):
        return np.asarray(given)
    given = given.detach().cpu()
    found: Array = (given.float() if given.is_floating_point() and given.element_size() < 4 else given).numpy()
    return found
