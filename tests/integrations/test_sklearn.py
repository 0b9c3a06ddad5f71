"""Networks as scikit-learn classifiers: scikit-learn's own checks, and what people build around an estimator."""

from __future__ import annotations

import copy
import pickle
import random
import sys
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from skorch.callbacks import Callback, GradientNormClipping
from torch import nn
from torch.nn import functional as F

from surefoot.errors import InputError, OptionError
from surefoot.integrations.sklearn import Calibrated, SurefootClassifier
from surefoot.optim import CSAM

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]


def rounding(estimator):
    return {
        "check_sample_weight_equivalence_on_dense_data": "The check allows 1e-9. Sums of float32 in another order "
        "differ by 1e-7; that weights are repetitions up to there is shown by test_weights_are_repetitions."
    }


@parametrize_with_checks([SurefootClassifier(max_epochs=15)], expected_failed_checks=rounding, xfail_strict=False)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def quick(**options):
    return SurefootClassifier(**{"max_epochs": 3, "module__width": 8, "batch_size": 64, "random_state": 0, **options})


def test_texts_and_frames_in_a_pipeline():
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = (
        make_pipeline(StandardScaler(), quick(max_epochs=30, module__width=32))
        .set_output(transform="pandas")
        .fit(frame, NAMES)
    )
    assert set(model.predict(frame)) <= set(NAMES)
    assert model.score(frame, NAMES) > 0.9
    probs = model.predict_proba(frame)
    assert probs.shape == (150, 3)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-6)
    assert list(model[-1].feature_names_in_) == ["a", "b", "c", "d"]
    assert len(cross_val_score(make_pipeline(StandardScaler(), quick()), frame, NAMES, cv=2)) == 2


def test_grids_over_methods_and_their_options():
    grid = {"method": ["sgd", "csam:gamma=2"], "lr": [0.05], "module__width": [4, 8]}
    search = GridSearchCV(quick(), grid, cv=2, error_score="raise").fit(X, Y)
    assert search.best_params_["method"] in grid["method"]
    grid = {"quick__method__rho": np.array([0.05, 0.4])}
    found = GridSearchCV(_named(quick(max_epochs=1)), grid, cv=2, error_score="raise").fit(X, Y)
    assert found.best_estimator_[-1].method__rho in (0.05, 0.4)
    weights = [quick(method__rho=rho).fit(X, Y).module_.state_dict() for rho in (0.05, 0.05, 0.4)]
    last = list(weights[0])[-1]
    assert torch.equal(weights[0][last], weights[1][last])
    assert not torch.equal(weights[0][last], weights[2][last])


def _named(estimator):
    return Pipeline([("scale", StandardScaler()), ("quick", estimator)])


def test_copies_and_pickles():
    model = quick(method="focal:gamma=2 + sam", method__rho=0.1, class_weight="balanced")
    same = clone(model)
    assert same.get_params() == model.get_params()
    assert same.get_params()["method__rho"] == 0.1
    model.fit(X, NAMES)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(clone(model).fit(X, NAMES).predict_proba(X), model.predict_proba(X))
    assert "method__rho=0.1" in repr(model)


def drawn():
    return torch.rand(1).item(), np.random.rand(), random.random()


def test_a_random_state_determines_everything_and_disturbs_nothing():
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3))
    found = []
    for seed in (5, 5, 6):
        torch.manual_seed(len(found))
        np.random.seed(len(found))
        random.seed(len(found))
        wanted = drawn()
        torch.manual_seed(len(found))
        np.random.seed(len(found))
        random.seed(len(found))
        found.append(SurefootClassifier(module, max_epochs=2, random_state=seed).fit(X, Y).predict_proba(X))
        assert drawn() == wanted
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    np.random.seed(0)
    free = [quick(random_state=None).fit(X, Y).predict_proba(X) for _ in range(2)]
    assert not np.array_equal(*free)


class Net(nn.Module):
    def __init__(self, n_features, n_classes, width=6):
        super().__init__()
        self.count = 0
        self.body = nn.Sequential(
            nn.Linear(n_features, width), nn.BatchNorm1d(width), nn.Tanh(), nn.Linear(width, n_classes)
        )  # fmt: skip

    def forward(self, x):
        self.count += self.training
        return self.body(x)


@pytest.mark.parametrize("clip", [None, 0.05])
def test_steps_are_those_of_a_plain_loop(clip):
    """One batch per epoch, so that no order is drawn."""
    start = Net(4, 3)
    callbacks = [GradientNormClipping(clip)] if clip else None
    options = {"method__momentum": 0.8, "method__weight_decay": 0.0, "method__rho": 0.3}
    model = SurefootClassifier(
        start, method="csam", lr=0.2, schedule="constant", max_epochs=6, batch_size=150, callbacks=callbacks, **options
    ).fit(X, Y)
    optimizer = CSAM(torch.optim.SGD(start.parameters(), lr=0.2, momentum=0.8), start, rho=0.3)
    if clip:
        optimizer.register_step_pre_hook(lambda *_: nn.utils.clip_grad_norm_(start.parameters(), clip))
    inputs, labels = torch.from_numpy(X).float(), torch.from_numpy(Y)
    assert start.count == 0  # a copy was trained
    for _ in range(6):
        optimizer.step(lambda: F.cross_entropy(start(inputs), labels, reduction="none"))
    assert model.module_.count == 12
    assert model.module_.body[1].num_batches_tracked == 6
    for name, value in start.state_dict().items():
        assert torch.allclose(model.module_.state_dict()[name].double(), value.double(), atol=1e-5), name


def test_networks_of_ones_own():
    named = SurefootClassifier(Net, module__width=5, max_epochs=1).fit(X, Y)
    assert named.module_.body[0].weight.shape == (5, 4)
    by_name = SurefootClassifier("mlp:width=7,depth=1", module__depth=3, max_epochs=1).fit(X, Y)
    assert sum(isinstance(module, nn.Linear) for module in by_name.module_.modules()) == 4
    images = np.random.default_rng(0).random((40, 1, 8, 8))
    cnn = SurefootClassifier("cnn", max_epochs=1).fit(images, np.arange(40) % 2)
    assert cnn.predict_proba(images).shape == (40, 2)
    with pytest.raises(InputError, match=r"it asks for in_features, out_features. Pass module__in_features=…"):
        SurefootClassifier(nn.Linear).fit(X, Y)
    with pytest.raises(InputError, match=r"Expected model module to return 3 logits per example, but .* \(2, 5\)"):
        SurefootClassifier(nn.Linear, module__in_features=4, module__out_features=5).fit(X, Y)
    with pytest.raises(InputError, match=r"Expected module to make a torch\.nn\.Module, but got a dict"):
        SurefootClassifier(lambda n_classes: {"n": n_classes}).fit(X, Y)
    with pytest.raises(InputError, match="Expected logits, but the module gives probabilities"):
        SurefootClassifier(nn.Sequential(nn.Linear(4, 3), nn.Softmax(1))).fit(X, Y)
    with pytest.raises(InputError, match="Expected epochs ≥ 1 and batch size ≥ 1, but got 0 and 128"):
        SurefootClassifier(max_epochs=0).fit(X, Y)
    with pytest.raises(ValueError, match="Expected a class to give width to, but got a module that is made"):
        SurefootClassifier(Net(4, 3), module__width=3).fit(X, Y)


def test_features_need_no_scaling_by_default():
    far = X * np.array([1e-3, 1e4, 1, 50]) + 1000
    assert SurefootClassifier(max_epochs=20, random_state=0).fit(far, Y).score(far, Y) > 0.9


class Epochs(Callback):
    def initialize(self):
        self.count = 0

    def on_epoch_end(self, net, **kwargs):
        self.count += 1


def test_early_stopping_takes_the_best_weights():
    x, y = make_classification(200, 20, flip_y=0.4, random_state=0)
    epochs = Epochs()
    model = SurefootClassifier(
        method="sgd", early_stopping=True, validation_fraction=0.3, patience=3, max_epochs=60, schedule="constant",
        callbacks=[epochs], random_state=0,
    ).fit(x, y)  # fmt: skip
    losses = model.history_[:, "valid_loss"]
    assert epochs.count == model.n_iter_ == len(losses) < 60
    assert np.argmin(losses) == len(losses) - 1 - 3
    longer = copy.deepcopy(model).set_params(max_epochs=int(np.argmin(losses)) + 1, early_stopping=False).fit(x, y)
    np.testing.assert_allclose(longer.predict_proba(x), model.predict_proba(x), atol=1e-6)
    with pytest.raises(InputError, match="Expected held-out rows to stop by, but got validation_fraction=0"):
        quick(early_stopping=True, validation_fraction=0).fit(x, y)


def test_weights_are_repetitions():
    weights = np.random.default_rng(0).integers(0, 4, len(Y))
    options = {"batch_size": 1000, "schedule": "constant", "max_epochs": 5}
    weighed = quick(**options).fit(X, Y, sample_weight=weights).predict_proba(X)
    repeated = quick(**options).fit(X.repeat(weights, 0), Y.repeat(weights)).predict_proba(X)
    np.testing.assert_allclose(weighed, repeated, atol=1e-5)
    assert not np.allclose(weighed, quick(**options).fit(X, Y).predict_proba(X), atol=1e-3)
    scaled = quick(**options).fit(X, Y, sample_weight=7.0 * weights).predict_proba(X)
    np.testing.assert_allclose(weighed, scaled, atol=1e-5)
    wanted = quick(**options).fit(X, Y, sample_weight=np.where(Y == 1, 3.0, 1.0)).predict_proba(X)
    np.testing.assert_allclose(quick(**options, class_weight={1: 3.0}).fit(X, Y).predict_proba(X), wanted, atol=1e-6)
    with pytest.raises(InputError, match="which weights cannot reach"):
        quick(method="mmce + csam", class_weight="balanced").fit(X, Y)


@pytest.mark.parametrize("method", ["mixup + csam", "crl + sam", "brier + csam:base=adamw", "sam:m=16", "esam", "bsam"])
def test_methods_of_all_kinds(method):
    assert quick(method=method, max_epochs=2).fit(X, Y).predict_proba(X).shape == (150, 3)


def test_losses_that_look_at_held_out_rows():
    with pytest.raises(InputError, match=r"Expected held-out rows.*Pass validation_fraction=0.1"):
        quick(method="adafocal + sam").fit(X, Y)
    assert quick(method="adafocal + sam", validation_fraction=0.2).fit(X, Y).score(X, Y) > 0.3


def test_a_network_can_be_calibrated():
    model = Calibrated(quick(), cv=2, method="temperature").fit(X, NAMES)
    assert model.estimator_.n_iter_ == 3
    assert set(model.predict(X)) <= set(NAMES)


@pytest.mark.parametrize("name", ["sklearn", "skorch"])
def test_a_missing_package_is_named(name, monkeypatch):
    for module in [module for module in sys.modules if module.startswith("surefoot.integrations.s")]:
        monkeypatch.delitem(sys.modules, module)
    for module in ("skorch", "skorch.utils"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"skorch.*Run pip install 'surefoot\[sklearn\]'"):
        import_module(f"surefoot.integrations.{name}")


def test_what_is_not_meant_is_refused():
    with pytest.raises(InputError, match="Expected a method of one network, but got 'deep'"):
        quick(method="deep:members=2 + csam").fit(X, Y)
    with pytest.raises(OptionError, match=r"Unknown option 'rhoo' for 'csam'. Did you mean 'rho'"):
        quick(method__rhoo=1).fit(X, Y)
    with pytest.raises(OptionError, match="Expected csam:rho to be a number, but got 'much'"):
        quick(method__rho="much").fit(X, Y)
    with pytest.raises(OptionError, match=r"takes no parameter 'rho'.*method__rho"):
        clone(SurefootClassifier(rho=0.1)).fit(X, Y)
    with pytest.raises(ValueError, match="Invalid parameter 'epochs'"):
        quick().set_params(epochs=3)
    with pytest.raises(ValueError, match="but got one class"):
        quick().fit(X[:50], Y[:50])
