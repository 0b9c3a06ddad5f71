"""BulkSGD and DomSGD: the test vector, the algebra, and who gives them their basis."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from surefoot.curvature.hessian import Hessian
from surefoot.errors import InputError, OptionError
from surefoot.losses.cross_entropy import CrossEntropy
from surefoot.optim import Parts
from surefoot.optim.bulk import BulkSGD, DomSGD
from surefoot.schema import Split
from surefoot.training.eigenbasis import TrainingBasis, join_basis
from tests.optim.problems import Quadratic, batches, losses, make, mlp, net, train, weights

E2 = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
KINDS = {"bulk": BulkSGD, "dom": DomSGD}


@pytest.mark.parametrize(("kind", "after"), [("bulk", [0.9, 1.0]), ("dom", [1.0, 0.0])])
def test_the_vector(kind, after):
    model = Quadratic()
    optimizer = KINDS[kind](torch.optim.SGD(model.parameters(), lr=0.1), model, basis=lambda last: E2)
    optimizer.step(model.closure)
    torch.testing.assert_close(model.weight.data, torch.tensor(after, dtype=torch.float64), atol=1e-12, rtol=0)


@pytest.mark.parametrize("base", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop])
def test_the_base_sees_both_parts_of_the_gradient_and_nothing_else(base):
    """The two projected gradients add up to the gradient and are at right angles, whatever the base."""
    x, y = batches(1, shape=(12,))[0]
    found = {}
    for kind in ("bulk_sgd", "dom_sgd", "sgd"):
        model = mlp(dtype=torch.float64)
        plain = torch.optim.SGD if kind == "sgd" else base
        optimizer = plain(model.parameters(), lr=0.0)
        if kind != "sgd":
            basis = make(f"{kind}:k=3", model).basis
            optimizer = KINDS[kind[:-4]](optimizer, model, basis=basis, k=3)
            optimizer.step(lambda m=model: F.cross_entropy(m(x.double()), y, reduction="none"))
        else:
            F.cross_entropy(model(x.double()), y).backward()
        found[kind] = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    torch.testing.assert_close(found["bulk_sgd"] + found["dom_sgd"], found["sgd"])
    assert abs(found["bulk_sgd"] @ found["dom_sgd"]) < 1e-12
    assert 0 < found["dom_sgd"].norm() < found["sgd"].norm()


def test_the_basis_is_that_of_the_training_loss_and_starts_from_the_last():
    model = mlp(dtype=torch.float64)
    x, y = batches(1, n=50, shape=(12,))[0]
    split = Split(x.double(), y)
    basis = TrainingBasis(model, split, CrossEntropy(), 3)
    values, vectors = torch.linalg.eigh(Hessian(model, *(split.inputs, split.labels)).dense())
    cold, spent = basis(None), basis.spent
    warm = basis(cold)
    for found in (cold, warm):
        angles = torch.linalg.svdvals(vectors[:, -3:].T @ found)
        assert angles.min() > 0.98
    assert basis.spent <= spent
    assert spent >= 50 * 4
    assert values[-1] > 0


def test_the_basis_is_asked_for_every_r_steps_and_costs_are_counted():
    class Counting:
        spent = 16

        def __init__(self):
            self.lasts = []

        def __call__(self, last):
            self.lasts.append(last)
            return torch.eye(sum(p.numel() for p in model.parameters()))[:, :1]

    model = mlp()
    basis = Counting()
    optimizer = BulkSGD(torch.optim.SGD(model.parameters(), lr=0.1), model, basis=basis, r=3)
    passes = []
    for x, y in batches(7, shape=(12,)):
        optimizer.step(losses(model, x, y))
        passes.append(optimizer.facts.passes)
    assert [last is None for last in basis.lasts] == [True, False, False]
    assert passes == [3, 1, 1, 3, 1, 1, 3]


def test_projecting_off_everything_stands_still():
    model = mlp()
    before = weights(model)
    d = sum(p.numel() for p in model.parameters())
    optimizer = BulkSGD(torch.optim.SGD(model.parameters(), lr=0.1), model, basis=lambda last: torch.eye(d), k=d)
    train(model, optimizer, batches(2, shape=(12,)))
    torch.testing.assert_close(weights(model), before, atol=1e-6, rtol=0)


def test_what_cannot_work_is_refused():
    model = net()
    base = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = batches(1)[0]
    step = Parts(lambda part: F.cross_entropy(model(x[part]), y[part], reduction="none"), n=len(y))
    with pytest.raises(OptionError, match="Expected k ≥ 1 and r ≥ 1"):
        BulkSGD(base, model, k=0)
    with pytest.raises(InputError, match=r"has none\. Pass basis="):
        BulkSGD(base, model).step(step)
    with pytest.raises(InputError, match="Expected a basis of shape"):
        DomSGD(base, model, basis=lambda last: torch.zeros(2, 1)).step(step)
    with pytest.raises(InputError, match="with a basis"):
        make("bulk_sgd", model).load_state_dict(make("sgd", model).state_dict())


def test_only_those_that_project_are_given_a_basis():
    model = nn.Linear(2, 2)
    split = Split(torch.randn(4, 2), torch.tensor([0, 1, 0, 1]))
    plain = make("sgd", model)
    join_basis(plain, model, split, CrossEntropy())
    assert not hasattr(plain, "basis")
