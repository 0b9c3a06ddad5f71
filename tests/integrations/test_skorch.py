"""skorch nets with surefoot's optimizers, against a plain loop of torch."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier
from skorch.callbacks import Callback, GradientNormClipping
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from surefoot.errors import InputError
from surefoot.integrations.skorch import SharpnessAwareMixin
from surefoot.optim import ASAM, CSAM, SAM
from surefoot.schema import LossTerms

SGD = torch.optim.SGD


class Net(SharpnessAwareMixin, NeuralNetClassifier):
    pass


class Forwards(nn.Module):
    """A network that counts how often it is run in training."""

    def __init__(self, dropout: float = 0.3):
        super().__init__()
        self.count = 0
        self.body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 3))

    def forward(self, x):
        self.count += self.training
        return self.body(x)


class Calls(Callback):
    def initialize(self):
        self.norms = []

    def on_grad_computed(self, net, named_parameters, **kwargs):
        self.norms.append(float(torch.stack([p.grad.norm() for _, p in named_parameters]).norm()))


@pytest.fixture(scope="module")
def data() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x, y = torch.randn(24, 6), torch.arange(24) % 3
    x[:, :3] += F.one_hot(y, 3)
    return x, y


def made(kind, module, *, criterion=nn.CrossEntropyLoss, **options):
    return Net(
        module,
        criterion=criterion,
        optimizer=kind,
        optimizer__base_optimizer=SGD,
        optimizer__momentum=0.9,
        optimizer__rho=0.3,
        lr=0.1,
        max_epochs=2,
        batch_size=8,
        train_split=None,
        verbose=0,
        **options,
    )


def plain_loop(kind, model, data, losses, *, clip=None):
    """What the documentation of the optimizers says to write."""
    optimizer = kind(SGD(model.parameters(), lr=0.1, momentum=0.9), model, rho=0.3)
    if clip is not None:
        optimizer.register_step_pre_hook(lambda *_: nn.utils.clip_grad_norm_(model.parameters(), clip))
    model.train()
    for _ in range(2):
        for x, y in DataLoader(TensorDataset(*data), batch_size=8):
            optimizer.step(lambda x=x, y=y: losses(model(x), y))
    return model.state_dict()


def per_example(logits, labels):
    return F.cross_entropy(logits, labels, reduction="none")


def assert_same(net, wanted, exactly=True):
    for name, value in wanted.items():
        found = net.module_.state_dict()[name]
        assert torch.equal(found, value) if exactly else torch.allclose(found.double(), value.double(), atol=1e-6), name


@pytest.mark.parametrize("kind", [SAM, CSAM, ASAM])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("clip", [None, 0.05])
def test_weights_are_those_of_a_plain_loop(kind, dropout, clip, data):
    start = Forwards(dropout)
    net = made(kind, copy.deepcopy(start), callbacks=[GradientNormClipping(clip)] if clip else None)
    torch.manual_seed(1)
    net.fit(*data)
    torch.manual_seed(1)
    assert_same(net, plain_loop(kind, copy.deepcopy(start), data, per_example, clip=clip))
    assert net.module_.count == 2 * 6  # two passes for each of six batches
    assert net.module_.body[1].num_batches_tracked == 6  # which move the statistics once


def test_callbacks_see_the_gradients_that_are_stepped_on_once_a_step(data):
    calls, clipped = Calls(), Calls()
    net = made(CSAM, Forwards(), callbacks=[("calls", calls), ("clip", GradientNormClipping(0.05)), ("after", clipped)])
    net.fit(*data)
    assert len(calls.norms) == len(clipped.norms) == 6
    assert max(clipped.norms) <= 0.0501 < min(calls.norms)
    assert net.optimizer_.facts.perturbed_grad_norm == pytest.approx(calls.norms[-1], rel=1e-4)


def weighted(logits, labels):
    weight = torch.tensor([1.0, 2.0, 4.0])
    losses = F.cross_entropy(logits, labels, weight, reduction="none")
    log_py = -F.cross_entropy(logits, labels, reduction="none")
    return LossTerms(losses * len(labels) / weight[labels].sum(), log_py=log_py)


def smoothed(logits, labels):
    losses = F.cross_entropy(logits, labels, reduction="none", label_smoothing=0.1)
    return LossTerms(losses, log_py=-F.cross_entropy(logits, labels, reduction="none"))


def summed(logits, labels):
    losses = F.cross_entropy(logits, labels, reduction="none")
    return LossTerms(len(labels) * losses, log_py=-losses)


@pytest.mark.parametrize(
    ("options", "losses"),
    [
        ({"criterion__weight": torch.tensor([1.0, 2.0, 4.0])}, weighted),
        ({"criterion__label_smoothing": 0.1}, smoothed),
        ({"criterion__reduction": "sum"}, summed),
    ],
    ids=["class weights", "label smoothing", "sum"],
)
def test_csam_knows_p_y_of_other_cross_entropies(options, losses, data):
    start = Forwards(0.0)
    net = made(CSAM, copy.deepcopy(start), **options).fit(*data)
    assert_same(net, plain_loop(CSAM, copy.deepcopy(start), data, losses), exactly=False)


def test_ignored_labels_count_nowhere(data):
    x, y = data
    some = torch.where(torch.arange(24) % 4 == 1, -100, y)
    start = Forwards(0.0)
    for options, losses in (({}, per_example), ({"criterion__label_smoothing": 0.1}, smoothed)):
        net = made(CSAM, copy.deepcopy(start), classes=[0, 1, 2], **options)
        net.fit(x, some)
        wanted = plain_loop(
            CSAM, copy.deepcopy(start), (x, some), lambda z, t, losses=losses: _kept(losses(z, t), t != -100)
        )
        assert_same(net, wanted, exactly=False)


def _kept(terms, counted):
    return terms if isinstance(terms, torch.Tensor) else terms._replace(counted=counted)


def test_probabilities_as_skorch_takes_them(data):
    body = nn.Linear(6, 3)
    net = made(CSAM, nn.Sequential(copy.deepcopy(body), nn.Softmax(1)), criterion=nn.NLLLoss)
    net.fit(*data)
    wanted = plain_loop(CSAM, body, data, per_example)
    assert torch.allclose(net.module_[0].weight, wanted["weight"], atol=1e-5)


def test_two_classes_with_one_logit(data):
    class Binary(SharpnessAwareMixin, NeuralNetBinaryClassifier):
        pass

    x, y = data[0], (data[1] == 0).float()
    body = nn.Linear(6, 1)
    net = Binary(
        copy.deepcopy(body), optimizer=CSAM, optimizer__base_optimizer=SGD, lr=0.1, optimizer__momentum=0.9,
        optimizer__rho=0.3, max_epochs=2, batch_size=8, train_split=None, verbose=0,
    ).fit(x, y)  # fmt: skip

    def both(logit, labels):
        losses = F.binary_cross_entropy_with_logits(logit.squeeze(1), labels, reduction="none")
        return LossTerms(losses, log_py=-losses)

    assert torch.allclose(net.module_.weight, plain_loop(CSAM, body, (x, y), both)["weight"], atol=1e-6)


def test_a_penalty_of_ones_own(data):
    class Penalised(Net):
        def get_loss(self, *args, **kwargs):
            return super().get_loss(*args, **kwargs) + 0.1 * self.module_.weight.abs().sum()

    body = nn.Linear(6, 3)
    options = {"criterion": nn.CrossEntropyLoss, "optimizer__base_optimizer": SGD, "train_split": None, "verbose": 0}
    fits = {"optimizer": CSAM, "lr": 0.1, "optimizer__momentum": 0.9, "optimizer__rho": 0.3, "max_epochs": 2}
    net = Penalised(copy.deepcopy(body), batch_size=8, **options, **fits).fit(*data)
    wanted = plain_loop(
        CSAM, body, data, lambda z, t: LossTerms(per_example(z, t), penalty=0.1 * body.weight.abs().sum())
    )
    assert torch.equal(net.module_.weight, wanted["weight"])


def test_what_cannot_be_weighed_is_refused(data):
    with pytest.raises(InputError, match="Expected to know p_y of each example"):
        made(CSAM, nn.Linear(6, 3), criterion=nn.MultiMarginLoss).fit(*data)

    class Odd(nn.Module):
        def forward(self, y_pred, y_true):
            return F.cross_entropy(y_pred, y_true)

    with pytest.raises(InputError, match="Expected a criterion that can give one loss per example, but got Odd"):
        made(CSAM, nn.Linear(6, 3), criterion=Odd).fit(*data)
    made(SAM, nn.Linear(6, 3), criterion=Odd).fit(*data)


def test_options_that_change_afterwards_do_change(data):
    net = made(CSAM, nn.Linear, module__in_features=6, module__out_features=3).fit(*data)
    net.set_params(optimizer__rho=0.7)
    assert net.optimizer_.param_groups[0]["rho"] == 0.7
    net.set_params(optimizer__gamma=2.0)
    assert net.optimizer_.outer.gamma == 2.0
    assert net.optimizer_.model is net.module_
    net.partial_fit(*data)
    again = pickle.loads(pickle.dumps(net))
    assert isinstance(again.optimizer_, CSAM)
    np.testing.assert_array_equal(again.predict_proba(data[0]), net.predict_proba(data[0]))


def test_optimizers_of_torch_are_left_alone(data):
    start = nn.Linear(6, 3)
    plain, ours = (
        kind(copy.deepcopy(start), criterion=nn.CrossEntropyLoss, lr=0.1, train_split=None, verbose=0).fit(*data)
        for kind in (NeuralNetClassifier, Net)
    )
    assert torch.equal(plain.module_.weight, ours.module_.weight)


def test_several_optimizers_are_refused(data):
    class Two(Net):
        def initialize_optimizer(self):
            super().initialize_optimizer()
            self.second_ = SGD(self.module_.parameters(), lr=0.1)
            return self

    with pytest.raises(InputError, match="Expected one optimizer around SAM's closure, but got optimizer, second"):
        Two(
            nn.Linear(6, 3), criterion=nn.CrossEntropyLoss, optimizer=SAM, optimizer__base_optimizer=SGD,
            train_split=None, verbose=0,
        ).fit(*data)  # fmt: skip
