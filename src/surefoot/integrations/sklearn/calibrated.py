"""Any scikit-learn classifier, with the calibrator behind it that held-out rows call for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, assert_all_finite, column_or_1d, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from surefoot.calibrators import Unchanged, compare_calibrators, fit
from surefoot.integrations.sklearn._errors import ValueInputError
from surefoot.schema import Predictions

Array = np.ndarray[Any, Any]
_TINY = float(np.finfo(np.float32).tiny)
_FOLDS = 5  # in which calibrators are compared


class Calibrated(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier whose probabilities are repaired by the calibrator that rows it has not seen call for.

    The estimator is fitted on all folds but one and predicts that one, until every row has a prediction that was made
    without it. On those, all calibrators are compared by cross-validation: the NLL on rows that a calibrator was not
    fitted on decides, and of those within one standard error of the best the one with the fewest parameters is taken.
    Doing nothing is among them. Then the calibrator is fitted on all of these predictions, the estimator on all rows.

    An estimator that is trained already comes in ``sklearn.frozen.FrozenEstimator``: it is left as it is, and the rows
    given to ``fit`` are for the calibrator alone. Give rows that it was not trained on.

    Args:
        estimator: A classifier with ``predict_proba`` or ``decision_function``; logistic regression where it is None.
        method: None chooses among all calibrators. A name, such as ``"temperature"``, takes that one; several names
            choose among those.
        cv: How to divide the rows: a number of folds, or whatever scikit-learn takes.
        n_jobs: How many folds are fitted at once.

    Attributes:
        estimator_: The estimator, fitted on all rows.
        calibrator_: The calibrator; ``calibrator_.save("x.json")`` keeps it.
        comparison_: All candidates with their scores; None where one was asked for by name.
        reason_: Which one was taken, and why, in a sentence.
        classes_: Labels of the classes, in the order of the columns of ``predict_proba``.
        floor_: What is taken for a probability of exactly 0, which forests and neighbours give and no logarithm takes:
            half of the smallest positive one, and at most one in all rows. No probability of 0 comes out.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.naive_bayes import GaussianNB
        >>> x, y = load_iris(return_X_y=True)
        >>> Calibrated(GaussianNB(), method="temperature").fit(x, y).predict_proba(x).shape
        (150, 3)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str | Iterable[str] | None = None,
        cv: Any = 5,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, *, groups: Any = None, **fit_params: Any) -> Calibrated:
        """Fit the estimator, and the calibrator on predictions of rows that it has not seen.

        Args:
            X: Rows, as the estimator takes them.
            y: Labels, shape ``(n,)``.
            groups: Which rows belong together, for a ``cv`` that keeps them so.
            **fit_params: For the estimator's ``fit``, such as ``sample_weight``; what has an entry per row is divided
                like the rows. Calibrators count all rows alike: probabilities are those of the rows as they come.

        Returns:
            The estimator.

        Raises:
            InputError: If a class has fewer rows than there are folds, or the estimator gives no scores.
        """
        if y is None:
            raise ValueInputError("Calibrated requires y to be passed, but the target y is None. Pass labels.")
        X, y = indexable(X, y)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y)
        check_classification_targets(y)
        estimator = LogisticRegression() if self.estimator is None else self.estimator
        if isinstance(estimator, FrozenEstimator):
            if fit_params:
                raise ValueInputError(
                    f"Expected nothing to fit a frozen estimator with, but got {', '.join(fit_params)}. Leave it out."
                )
            self.estimator_ = estimator
            self.classes_ = np.asarray(estimator.classes_)
            labels = _numbered(y, self.classes_)
            scores = _scores(estimator, X)
        else:
            self.classes_, labels = np.unique(y, return_inverse=True)
            if len(self.classes_) < 2:
                raise ValueInputError("Expected y to have two classes or more, but got one class. Give others too.")
            scores = self._held_out_scores(estimator, X, y, labels, groups, fit_params)
            self.estimator_ = clone(estimator).fit(X, y, **fit_params)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self._choose(scores, labels)
        return self

    def _held_out_scores(
        self, estimator: Any, X: Any, y: Any, labels: Array, groups: Any, params: dict[str, Any]
    ) -> Array:
        """Let each row be predicted by an estimator that was fitted without it."""
        cv = check_cv(self.cv, y, classifier=True)
        rarest = np.bincount(labels).min()
        if isinstance(self.cv, int) and rarest < self.cv:
            raise ValueInputError(
                f"Expected at least {self.cv} rows of every class for {self.cv} folds, but one class has {rarest}. "
                "Pass a smaller cv, or merge rare classes."
            )
        folds = list(cv.split(X, y, groups))
        if (np.bincount(np.concatenate([test for _, test in folds]), minlength=len(labels)) != 1).any():
            raise ValueInputError(
                "Expected cv to predict every row once, but some are in no fold or in several. Pass a number of folds."
            )
        found = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_and_score)(clone(estimator), X, y, train, test, params, self.classes_) for train, test in folds
        )
        scores = np.empty((len(labels), len(self.classes_)))
        for (_, test), part in zip(folds, found, strict=True):
            scores[test] = part
        return scores

    def _choose(self, scores: Array, labels: Array) -> None:
        """Fit the calibrator that was asked for, or compare them and take one."""
        is_probs = hasattr(self.estimator_, "predict_proba")
        positive = scores[scores > 0] if is_probs else scores[:0]
        self.floor_ = max(_TINY, min(positive.min(initial=1.0) / 2, 1 / (len(labels) + 1)))
        predictions = Predictions(self._logits(scores), labels, "calibration")
        if isinstance(self.method, str):
            self.comparison_ = None
            self.calibrator_ = Unchanged("calibration") if self.method == "none" else fit(self.method, predictions)
            self.reason_ = f"{self.method} was asked for."
            return
        folds = max(2, min(_FOLDS, len(labels)))
        self.comparison_ = compare_calibrators(predictions, self.method, n_folds=folds)
        self.calibrator_ = self.comparison_.calibrator or Unchanged("calibration")
        self.reason_ = self.comparison_.reason

    def _logits(self, scores: Array) -> Array:
        """Turn probabilities into logits; scores of a decision function are logits as they are."""
        if hasattr(self.estimator_, "predict_proba"):
            logits: Array = np.log(np.maximum(scores, self.floor_))
            return logits
        return scores

    def predict_proba(self, X: Any) -> Array:
        """Return the calibrated probability of each class, a column each, in the order of ``classes_``."""
        check_is_fitted(self)
        scores = _scores(self.estimator_, X)
        probs = self.calibrator_.probs(self._logits(scores))
        if isinstance(self.calibrator_, Unchanged) and hasattr(self.estimator_, "predict_proba"):
            return np.where((scores >= self.floor_).all(1, keepdims=True), scores, probs)  # to the last digit
        return probs

    def predict(self, X: Any) -> Array:
        """Return the likeliest class of each row, by calibrated probabilities."""
        likeliest: Array = self.predict_proba(X).argmax(1)
        return self.classes_[likeliest]

    def __sklearn_tags__(self) -> Any:
        """Take whatever the estimator takes."""
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _fit_and_score(estimator: Any, X: Any, y: Any, train: Array, test: Array, params: Any, classes: Array) -> Array:
    """Fit on some rows and score others, with a column for every class."""
    own = {name: _safe_indexing(each, train) if _per_row(each, len(y)) else each for name, each in params.items()}
    estimator.fit(_safe_indexing(X, train), y[train], **own)
    scores = _scores(estimator, _safe_indexing(X, test))
    if len(estimator.classes_) == len(classes):
        return scores
    if not hasattr(estimator, "predict_proba"):
        raise ValueInputError("Expected every class in every fold, but one is missing from a fold. Pass a smaller cv.")
    whole = np.zeros((len(test), len(classes)))  # a class that it has not met has probability 0
    whole[:, _numbered(estimator.classes_, classes)] = scores
    return whole


def _per_row(value: Any, n: int) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | dict) and len(value) == n


def _scores(estimator: Any, X: Any) -> Array:
    """Return probabilities, or a decision function as logits of all classes, in float64."""
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(X), np.float64)
    if not hasattr(estimator, "decision_function"):
        raise ValueInputError(
            f"Expected a classifier with predict_proba or decision_function, but got {type(estimator).__name__}. "
            "Take one that gives scores."
        )
    last = getattr(estimator, "_final_estimator", estimator)  # of a pipeline
    if getattr(last, "decision_function_shape", "ovr") != "ovr" and len(estimator.classes_) > 2:
        raise ValueInputError(
            "Expected a score per class, but got one per pair of classes. Pass decision_function_shape='ovr'."
        )
    scores = np.asarray(estimator.decision_function(X), np.float64)
    return np.stack([-scores / 2, scores / 2], 1) if scores.ndim == 1 else scores


def _numbered(y: Array, classes: Array) -> Array:
    """Return the places of labels among the classes."""
    places = {label: place for place, label in enumerate(classes.tolist())}
    y = np.asarray(y)
    if unknown := [label for label in np.unique(y).tolist() if label not in places]:
        raise ValueInputError(
            f"Expected labels among the estimator's classes, but got {unknown[0]!r}. Leave those rows out."
        )
    return np.array([places[label] for label in y.tolist()])
