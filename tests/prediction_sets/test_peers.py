"""The same sets as MAPIE 1.x where both are defined, and the same p-values as crepes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from surefoot.prediction_sets import aps, fit_sets, lac, raps
from surefoot.prediction_sets._quantile import threshold
from tests.prediction_sets.made import drawn, softmax


class Given(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose inputs are its probabilities."""

    def __init__(self, n_classes: int = 5) -> None:
        self.n_classes = n_classes

    def fit(self, x: np.ndarray, y: np.ndarray) -> Given:
        self.classes_ = np.arange(self.n_classes)
        self.n_features_in_ = self.n_classes
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x)

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x).argmax(1)


@pytest.fixture(scope="module")
def rows() -> dict[str, np.ndarray]:
    fit, new = drawn(400), drawn(300, seed=1)
    return {"fit": softmax(fit.logits), "labels": fit.labels, "new": softmax(new.logits)}


def of_mapie(rows: dict[str, np.ndarray], score: str, coverage: float, **params: Any) -> tuple[Any, np.ndarray]:
    mapie = pytest.importorskip("mapie.classification", reason="mapie is not installed")
    model = mapie.SplitConformalClassifier(
        Given().fit(rows["fit"], rows["labels"]),
        confidence_level=coverage,
        conformity_score=score,
        prefit=True,
        random_state=0,
    )
    model.conformalize(rows["fit"], rows["labels"])
    return model, model.predict_set(rows["new"], conformity_score_params=params)[1][:, :, 0]


def drawn_by_mapie(n: int) -> np.ndarray:
    """MAPIE takes u of the class's own probability off; we put the rest of it on."""
    return 1 - np.random.RandomState(0).uniform(size=n)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
def test_lac_is_mapies(rows: dict[str, np.ndarray], coverage: float) -> None:
    _, theirs = of_mapie(rows, "lac", coverage)
    ours = fit_sets(drawn(400), "lac", coverage=coverage)
    np.testing.assert_array_equal(ours.sets(rows["new"]), theirs)
    scores = lac(rows["fit"], np.zeros(400))[np.arange(400), rows["labels"]]
    np.testing.assert_array_equal(rows["new"] >= -threshold(scores, coverage), theirs)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
def test_aps_with_their_random_numbers_is_mapies(rows: dict[str, np.ndarray], coverage: float) -> None:
    _, theirs = of_mapie(rows, "aps", coverage, include_last_label="randomized")
    scores = aps(rows["fit"], drawn_by_mapie(400))[np.arange(400), rows["labels"]]
    ours = aps(rows["new"], drawn_by_mapie(300)) <= threshold(scores, coverage)
    np.testing.assert_array_equal(ours, theirs)
    _, whole = of_mapie(rows, "aps", coverage, include_last_label=True)  # their default: randomised fit, whole sets
    kept = np.concatenate([np.zeros((300, 1)), np.cumsum(-np.sort(-rows["new"], 1), 1)[:, :-1]], 1)
    sizes = (kept < threshold(scores, coverage)).sum(1)
    np.testing.assert_array_equal(whole.sum(1), sizes)


def test_raps_with_their_options_has_mapies_threshold_and_nearly_its_sets(rows: dict[str, np.ndarray]) -> None:
    """MAPIE keeps the last class by another rule where it is penalised; all other classes of the sets are the same."""
    model, theirs = of_mapie(rows, "raps", 0.9, include_last_label="randomized")
    inner = model._mapie_classifier.conformity_score_function_
    k_reg, lam = int(inner.k_star[0]), float(inner.lambda_star)
    kept = _rows_of_mapie(rows)
    scores = raps(rows["fit"][kept], drawn_by_mapie(len(kept)), k_reg=k_reg, lam=lam)
    limit = threshold(scores[np.arange(len(kept)), rows["labels"][kept]], 0.9)
    assert float(np.ravel(inner.quantiles_)[0]) == pytest.approx(limit)
    ours = raps(rows["new"], drawn_by_mapie(300), k_reg=k_reg, lam=lam) <= limit
    differ = np.abs(ours.sum(1) - theirs.sum(1))
    assert differ.max() <= 1
    assert (differ > 0).mean() < 0.05


def _rows_of_mapie(rows: dict[str, np.ndarray]) -> np.ndarray:
    """The rows that MAPIE has not chosen k and λ on."""
    from sklearn.model_selection import StratifiedShuffleSplit

    split = StratifiedShuffleSplit(n_splits=1, random_state=0)
    return next(split.split(rows["fit"], rows["labels"]))[0]


@pytest.mark.parametrize("per_class", [False, True])
def test_lac_is_crepes(rows: dict[str, np.ndarray], per_class: bool) -> None:
    crepes = pytest.importorskip("crepes", reason="crepes is not installed")
    model = crepes.ConformalClassifier()
    alphas = 1 - rows["fit"][np.arange(400), rows["labels"]]
    model.fit(alphas, bins=rows["labels"] if per_class else None, seed=0)
    new = 1 - rows["new"]
    if per_class:
        theirs = np.stack(
            [
                model.predict_set(new[:, [k]], bins=np.full(300, k), confidence=0.9, smoothing=False)[:, 0]
                for k in range(5)
            ],
            axis=1,
        )
    else:
        theirs = model.predict_set(new, confidence=0.9, smoothing=False)
    ours = fit_sets(drawn(400), "lac", per_class=per_class).sets(rows["new"])
    np.testing.assert_array_equal(ours, np.asarray(theirs, bool))
