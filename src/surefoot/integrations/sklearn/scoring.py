"""surefoot's metrics where scikit-learn looks for scores: ``scoring=scorer("ece")``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from surefoot.errors import InputError
from surefoot.registry import METRICS

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Metric:
    """A metric as a function of labels and probabilities, in scikit-learn's order; see :func:`metric`."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def __name__(self) -> str:
        """What scikit-learn calls it."""
        return self.name

    def __call__(self, y_true: Any, y_prob: Any, *, labels: Any = None, pos_label: Any = None) -> float:
        """Measure.

        Args:
            y_true: Labels, shape ``(n,)``.
            y_prob: Probabilities, shape ``(n, classes)``; or of the positive one of two classes, shape ``(n,)``.
            labels: The classes, in the order of the columns; those in ``y_true``, sorted, where it is None.
            pos_label: The class that ``y_prob`` is the probability of, if it has one column; the last one by default.

        Returns:
            The value.

        Raises:
            InputError: If the classes cannot be told.
        """
        truth, probs = np.asarray(y_true), np.asarray(y_prob)
        classes = np.unique(truth) if labels is None else np.asarray(labels)
        if probs.ndim == 1:
            probs = np.stack([1 - probs, probs], 1)
            if pos_label is not None:
                others = classes[classes != pos_label]
                other = others if len(others) else [object()]  # not among these rows
                classes = np.array([*other, pos_label], dtype=object)
        if len(classes) != probs.shape[1]:
            raise InputError(
                f"Expected a column per class, but got {probs.shape[1]} columns and labels of {len(classes)} classes. "
                "Pass labels=, all classes in the order of the columns."
            )
        return _measure(self, truth, probs, classes)


@dataclass(frozen=True)
class Scorer:
    """A metric of an estimator's probabilities, larger where it is better; see :func:`scorer`."""

    metric: Metric
    sign: int

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Score a fitted classifier.

        Args:
            estimator: Has ``predict_proba`` and ``classes_``.
            X: Rows.
            y: Their labels. Some classes may be missing; one that the estimator has never met has probability 0.

        Returns:
            The metric, with a minus before it where lower is better.

        Raises:
            InputError: If it gives no probabilities.
        """
        if not hasattr(estimator, "predict_proba"):
            raise InputError(
                f"Expected a classifier with predict_proba, but got {type(estimator).__name__}. Put it into Calibrated."
            )
        return self.sign * _measure(
            self.metric, np.asarray(y), estimator.predict_proba(X), np.asarray(estimator.classes_)
        )


def metric(text: str) -> Metric:
    """Return a metric as scikit-learn's ``make_scorer`` takes one: of labels and probabilities, in this order.

    Args:
        text: A registered metric, with options as ``"ece:n_bins=10"``.

    Returns:
        A function of ``(y_true, y_prob)``, to be given as ``make_scorer(metric("ece"),
        response_method="predict_proba", greater_is_better=False)``. :func:`scorer` knows sign and classes itself.

    Example:
        >>> round(metric("brier")(["no", "yes"], [0.5, 0.5]), 6)
        0.5
    """
    spec = METRICS.parse(text)
    return Metric(spec.name, dict(spec.options))


def scorer(text: str) -> Scorer:
    """Return a metric as ``scoring=`` takes one, with its sign: larger is better.

    Args:
        text: A registered metric, with options as ``"ece:n_bins=10"``.

    Returns:
        A function of an estimator, rows and labels.

    Raises:
        InputError: If neither direction of the metric is better.
    """
    found = metric(text)
    lower = METRICS[found.name].facts["lower_is_better"]
    if lower is None:
        raise InputError(f"Expected a metric to be made better, but {found.name} has no better end. Try nll or ece.")
    return Scorer(found, -1 if lower else 1)


def _measure(wanted: Metric, truth: Array, probs: Array, classes: Array) -> float:
    known = classes.tolist()
    unknown = [label for label in np.unique(truth).tolist() if label not in known]
    places = {label: place for place, label in enumerate([*known, *unknown])}
    labels = torch.tensor([places[label] for label in truth.tolist()])
    whole = np.concatenate([probs, np.zeros((len(probs), len(unknown)), probs.dtype)], 1)
    value = METRICS[wanted.name].build(torch.from_numpy(np.ascontiguousarray(whole)), labels, **wanted.options)
    return float(value)


ece_scorer = scorer("ece")
