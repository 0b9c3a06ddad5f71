"""The classifier turns ρ and γ by the rows that it holds out, the same way every time."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Callback

from surefoot.errors import InputError, OptionError
from surefoot.integrations.sklearn import SurefootClassifier

X, Y = make_classification(400, 10, n_informative=4, flip_y=0.4, random_state=0)


def steered(method="csam:tune=auto", **options):
    given = {"validation_fraction": 0.4, "max_epochs": 12, "lr": 0.5, "module__width": 64, "random_state": 0, **options}
    return SurefootClassifier(method=method, schedule="constant", **given)


class Watching(Callback):
    """Notes the optimizer's own ρ and γ at the end of every epoch."""

    def initialize(self):
        self.seen = []

    def on_epoch_end(self, net, **_):
        self.seen.append((net.optimizer_.param_groups[0]["rho"], net.optimizer_.outer.gamma))
        self.keeper = net.keeper_


def test_the_optimizers_knobs_move_and_are_recorded():
    watching = Watching()
    model = steered(callbacks=[watching]).fit(X, Y)
    recorded = list(zip(model.history_[:, "steering/rho"], model.history_[:, "steering/gamma"], strict=True))
    assert recorded == watching.seen
    assert len(set(watching.seen)) > 2
    assert watching.seen[-1] != (0.1, 1.0)
    assert watching.keeper.facts.signal.rows == 160  # those that were held out, and no others
    assert model.history_[-1, "steering/log_temperature"] == watching.keeper.facts.signal.log_temperature
    plain = steered("csam").fit(X, Y)
    assert not np.array_equal(plain.predict_proba(X), model.predict_proba(X))
    assert "steering/rho" not in plain.history_[-1]


def test_it_is_deterministic_and_clones_and_pickles():
    torch.manual_seed(3)
    model = steered().fit(X, Y)
    torch.manual_seed(4)
    again = clone(model).fit(X, Y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.history_[:, "steering/gamma"] == model.history_[:, "steering/gamma"]
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict_proba(X), model.predict_proba(X))
    assert copied.history_[:, "steering/rho"] == model.history_[:, "steering/rho"]
    assert clone(copied).get_params() == model.get_params()


def test_methods_with_and_without_it_can_be_searched():
    grid = {"method": ["csam", "csam:tune=auto", "sam:tune=rho"]}
    search = GridSearchCV(steered(max_epochs=2), grid, cv=2, error_score="raise").fit(X, Y)
    assert search.best_params_["method"] in grid["method"]


@pytest.mark.parametrize("options", [{"validation_fraction": None}, {"validation_fraction": 0}])
def test_without_held_out_rows_it_is_refused_before_anything_is_trained(options):
    with pytest.raises(InputError, match=r"Expected held-out rows for tune=auto.* Pass validation_fraction=0\.1"):
        steered(module=lambda n_classes: pytest.fail("a network was made"), **options).fit(X, Y)
    with pytest.raises(OptionError, match="Expected tune to be none, auto, rho"):
        steered("csam:tune=much").fit(X, Y)
    with pytest.raises(InputError, match="Expected an optimizer with gamma above 0 to steer, but SGD has none"):
        steered("sgd:tune=gamma").fit(X, Y)


def test_rows_that_are_held_out_to_stop_by_steer_too():
    model = steered(early_stopping=True, validation_fraction=None).fit(X, Y)
    assert model.history_[-1, "steering/gamma"] != 1.0
