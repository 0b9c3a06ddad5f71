"""Any classifier of scikit-learn with a calibrator behind it, and surefoot's metrics as scores."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, RepeatedStratifiedKFold, ShuffleSplit, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from surefoot import ece
from surefoot.calibrators import Temperature, Unchanged, fit
from surefoot.errors import InputError
from surefoot.integrations.sklearn import Calibrated, ece_scorer, metric, scorer
from surefoot.schema import Predictions

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
SICK_X, SICK = load_breast_cancer(return_X_y=True)


# One of the checks has classes of three rows, hence cv=3, as scikit-learn checks its own. All ten would take long.
@parametrize_with_checks([Calibrated(LogisticRegression(), method=["temperature"], cv=3)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_forest_that_says_zero(n_classes):
    x, y = make_classification(
        900, 8, n_informative=5, n_classes=n_classes, flip_y=0.2, class_sep=0.7, random_state=0
    )  # fmt: skip
    forest = RandomForestClassifier(10, random_state=0)
    model = Calibrated(forest).fit(x[:450], y[:450])
    plain = forest.fit(x[:450], y[:450]).predict_proba(x[450:])
    assert (plain == 0).any()
    probs = model.predict_proba(x[450:])
    assert np.isfinite(np.log(probs)).all()
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-12)
    assert log_loss(y[450:], probs) < 0.8 * log_loss(y[450:], plain)
    assert model.floor_ == pytest.approx(min(0.05, 1 / 451))
    assert model.comparison_.best == model.calibrator_.name
    assert "on examples it was not fitted on" in model.reason_


def test_rows_are_predicted_by_estimators_that_have_not_seen_them():
    """A nearest neighbour is always sure of its own rows, whose labels are drawn at random here."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 3)), rng.integers(0, 2, 400)
    neighbour = KNeighborsClassifier(1)
    believed = Calibrated(FrozenEstimator(clone(neighbour).fit(x, y)), method="platt").fit(x, y).predict_proba(x)
    assert believed.max() > 0.95
    assert Calibrated(neighbour, method="platt").fit(x, y).predict_proba(x).max() < 0.65


def test_a_frozen_estimator_stays_as_it_is():
    half = np.arange(len(SICK)) % 2 == 0
    trained = GaussianNB().fit(SICK_X[half], SICK[half])
    model = Calibrated(FrozenEstimator(trained), method="temperature").fit(SICK_X[~half], SICK[~half])
    logits = np.log(np.maximum(trained.predict_proba(SICK_X[~half]), model.floor_))
    assert model.calibrator_ == fit("temperature", Predictions(logits, SICK[~half], "calibration"))
    assert model.estimator_.estimator is trained
    one_class = Calibrated(FrozenEstimator(trained), method="temperature").fit(SICK_X[SICK == 1], SICK[SICK == 1])
    assert one_class.predict_proba(SICK_X).shape == (len(SICK), 2)
    with pytest.raises(InputError, match="Expected labels among the estimator's classes, but got 7"):
        Calibrated(FrozenEstimator(trained)).fit(SICK_X, SICK + 7)


@pytest.mark.parametrize(("x", "y"), [(SICK_X, SICK), (X, Y)], ids=["two classes", "three classes"])
def test_decision_functions_will_do(x, y):
    model = Calibrated(make_pipeline(StandardScaler(), LinearSVC()), method="vector").fit(x, y)
    assert log_loss(y, model.predict_proba(x)) < 0.3
    assert model.score(x, y) > 0.9


def test_texts_frames_grids_and_pickles():
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = Calibrated(GaussianNB(), method=["temperature", "ets"]).fit(frame, NAMES)
    assert {each.name for each in model.comparison_.candidates} == {"none", "temperature", "ets"}
    assert set(model.predict(frame)) == set(NAMES)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(frame), model.predict_proba(frame))
    grid = {"method": ["none", "temperature"], "estimator__var_smoothing": [1e-9, 1e-2]}
    search = GridSearchCV(Calibrated(GaussianNB(), cv=2), grid, cv=2, scoring=scorer("nll"), error_score="raise")
    assert search.fit(frame, NAMES).best_score_ < 0


def test_none_gives_what_the_estimator_gives():
    model = Calibrated(RandomForestClassifier(5, random_state=0), method="none", cv=2).fit(X, Y)
    assert isinstance(model.calibrator_, Unchanged)
    own, probs = model.estimator_.predict_proba(X), model.predict_proba(X)
    has_zero = (own == 0).any(1)
    assert has_zero.sum() > 0
    assert probs.min() == pytest.approx(model.floor_, rel=0.02)  # and zeros are what they were taken for
    np.testing.assert_array_equal(probs[~has_zero], own[~has_zero])
    plain = Calibrated(GaussianNB(), method="none", cv=2).fit(X, Y)
    np.testing.assert_allclose(plain.predict_proba(X), plain.estimator_.predict_proba(X), atol=1e-12)


class Weighed(GaussianNB):
    """Remembers how much weight it was fitted with."""

    def fit(self, X, y, sample_weight=None):
        assert len(sample_weight) == len(y)
        self.weight_ = float(np.sum(sample_weight))
        return super().fit(X, y, sample_weight)


def test_what_fit_takes_is_divided_like_the_rows():
    weights = np.random.default_rng(0).random(len(Y))
    model = Calibrated(Weighed(), method="temperature").fit(X, NAMES, sample_weight=weights)
    assert model.estimator_.weight_ == pytest.approx(weights.sum())
    by_name = Calibrated(LogisticRegression(class_weight={"setosa": 1, "versicolor": 2, "virginica": 1}, max_iter=500))
    assert by_name.set_params(method="temperature").fit(X, NAMES).score(X, NAMES) > 0.9
    groups = np.arange(len(Y)) % 5
    grouped = Calibrated(GaussianNB(), method="temperature", cv=GroupKFold(5)).fit(X, Y, groups=groups)
    assert isinstance(grouped.calibrator_, Temperature)


def test_what_cannot_be_calibrated_is_said():
    few = np.r_[np.zeros(20), np.ones(3)].astype(int)
    with pytest.raises(ValueError, match="Expected at least 5 rows of every class for 5 folds, but one class has 3"):
        Calibrated(GaussianNB()).fit(X[:23], few)
    for cv in (ShuffleSplit(2, random_state=0), RepeatedStratifiedKFold(n_splits=2, n_repeats=2)):
        with pytest.raises(InputError, match="Expected cv to predict every row once"):
            Calibrated(GaussianNB(), cv=cv).fit(X, Y)
    with pytest.raises(InputError, match="Expected a score per class, but got one per pair of classes"):
        Calibrated(make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo"))).fit(X, Y)
    with pytest.raises(InputError, match="Expected nothing to fit a frozen estimator with, but got sample_weight"):
        Calibrated(FrozenEstimator(GaussianNB().fit(X, Y))).fit(X, Y, sample_weight=np.ones(150))
    with pytest.raises(InputError, match=r"Unknown calibrator 'temprature'\. Did you mean 'temperature'"):
        Calibrated(GaussianNB(), method="temprature").fit(X, Y)


def test_a_class_that_a_fold_lacks():
    y = np.r_[Y[:-2], 3, 3]
    tests = [np.arange(120, 150), np.arange(30), np.arange(30, 120)]
    folds = [(np.setdiff1d(np.arange(150), test), test) for test in tests]
    model = Calibrated(GaussianNB(), method="temperature", cv=folds).fit(X, y)
    assert model.predict_proba(X).shape == (150, 4)


def test_scorers_have_their_sign():
    model = GaussianNB().fit(X, NAMES)
    probs = model.predict_proba(X)
    assert ece_scorer(model, X, NAMES) == pytest.approx(-float(ece(probs, Y)))
    assert scorer("accuracy")(model, X, NAMES) == pytest.approx(model.score(X, NAMES))
    assert scorer("nll")(model, X, NAMES) == pytest.approx(-log_loss(Y, probs), rel=1e-6)
    assert scorer("ece:n_bins=5")(model, X, NAMES) == pytest.approx(-float(ece(probs, Y, n_bins=5)))
    assert (cross_val_score(model, X, NAMES, scoring=ece_scorer, cv=3, n_jobs=1) < 0).all()
    assert pickle.loads(pickle.dumps(ece_scorer))(model, X, NAMES) == ece_scorer(model, X, NAMES)
    with pytest.raises(InputError, match="Expected a metric to be made better, but entropy has no better end"):
        scorer("entropy")
    with pytest.raises(InputError, match="Expected a classifier with predict_proba, but got LinearSVC"):
        ece_scorer(LinearSVC().fit(X, Y), X, Y)


def test_scores_of_folds_without_some_classes():
    model = GaussianNB().fit(X, NAMES)
    some = NAMES != "setosa"
    assert ece_scorer(model, X[some], NAMES[some]) == pytest.approx(-float(ece(model.predict_proba(X[some]), Y[some])))
    never_met = GaussianNB().fit(X[some], NAMES[some])
    padded = np.c_[np.zeros(150), never_met.predict_proba(X)]
    assert ece_scorer(never_met, X, NAMES) == pytest.approx(-float(ece(padded, Y)))
    assert scorer("nll")(never_met, X, NAMES) == -np.inf


def test_metrics_for_make_scorer():
    made = make_scorer(metric("ece"), response_method="predict_proba", greater_is_better=False)
    three = GaussianNB().fit(X, NAMES)
    assert made(three, X, NAMES) == pytest.approx(ece_scorer(three, X, NAMES))
    texts = np.array(["ill", "well"])[SICK]
    two = GaussianNB().fit(SICK_X, texts)
    assert made(two, SICK_X, texts) == pytest.approx(ece_scorer(two, SICK_X, texts))
    probs = two.predict_proba(SICK_X)
    ill = texts == "ill"
    assert metric("brier")(texts, probs[:, 0], pos_label="ill") == pytest.approx(metric("brier")(texts, probs))
    only = metric("brier")(texts[ill], probs[ill, 0], pos_label="ill")
    assert only == pytest.approx(metric("brier")(texts[ill], probs[ill], labels=["ill", "well"]))
    with pytest.raises(InputError, match=r"but got 2 columns and labels of 1 classes. Pass labels="):
        metric("brier")(texts[ill], probs[ill])
