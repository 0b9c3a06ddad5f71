"""Muon: which parameters it takes, and what it does with them."""

import numpy as np
import pytest
import torch
from torch import nn

from surefoot.errors import InputError
from surefoot.optim.muon import Muon, hidden_matrices, orthogonalised
from surefoot.optim.plain import Plain
from tests.optim.problems import batches, make, net, train
from tests.oracles.optimizers import newton_schulz


def test_newton_schulz_reference_by_hand():
    found = newton_schulz(np.diag([1.0, 10.0]))
    np.testing.assert_allclose(np.diag(found), [0.70868632, 0.70201074], atol=1e-8)


def with_hidden(weight):
    """A network with one hidden matrix, and a head."""
    model = nn.Sequential(nn.Linear(*reversed(weight.shape), bias=False), nn.Linear(len(weight), 2))
    model[0].weight = nn.Parameter(weight)
    return model


@pytest.mark.parametrize(("precision", "off"), [("bfloat16", 0.02), ("float32", 1e-6)])
def test_one_step_by_hand(precision, off):
    """In bfloat16 two percent, as the reference says."""
    model = with_hidden(torch.eye(2))
    w = model[0].weight
    optimizer = Plain(Muon(model.parameters(), model, lr=0.1, precision=precision))
    optimizer.step(lambda: 4 * 0.5 * torch.tensor([[1.0], [10.0]]) * w**2)
    expected = 1 - 0.1 * torch.tensor(np.diag(newton_schulz(np.diag([1.0, 10.0])))).float()
    torch.testing.assert_close(w.diagonal().detach(), expected, atol=0, rtol=off)


@pytest.mark.parametrize(("precision", "off"), [("bfloat16", 0.05), ("float32", 1e-5)])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6)])
def test_fifty_steps_against_the_reference(precision, off, shape):
    rng = np.random.default_rng(0)
    model = with_hidden(torch.from_numpy(rng.normal(size=shape)).float())
    w = model[0].weight
    options = {"lr": 0.02, "momentum": 0.95, "weight_decay": 0.1, "rest": "sgd", "precision": precision}
    optimizer = Plain(Muon(model.parameters(), model, **options))
    reference, buffer = w.detach().double().numpy().copy(), 0.0
    for _ in range(50):
        target = rng.normal(size=shape)
        g = reference - target
        buffer = 0.95 * buffer + 0.05 * g
        update = newton_schulz(0.05 * g + 0.95 * buffer)
        reference = reference * (1 - 0.02 * 0.1) - 0.02 * np.sqrt(max(1, shape[0] / shape[1])) * update
        goal = torch.from_numpy(target).float()
        optimizer.step(lambda: 24 * 0.5 * (w - goal) ** 2)  # noqa: B023 - called at once
    assert np.abs(w.detach().numpy() - reference).max() < off
    assert np.abs(reference).max() > 0.5


def test_the_split_is_made_and_reported():
    model = net()
    optimizer = make("muon", model)
    assert optimizer.base.split["muon"] == ["hidden.weight"]
    assert set(optimizer.base.split["rest"]) == {
        "unused", "conv.weight", "conv.bias", "norm.weight", "norm.bias", "hidden.bias", "head.weight", "head.bias",
    }  # fmt: skip
    assert [group["kind"] for group in optimizer.param_groups] == ["muon", "rest"]


def test_tied_embeddings_are_no_hidden_matrices():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(7, 4)
            self.hidden = nn.Linear(4, 4)
            self.head = nn.Linear(4, 7)
            self.head.weight = self.embedding.weight

    model = Tied()
    assert hidden_matrices(model, list(model.parameters())) == ["hidden.weight"]


def test_a_base_for_sam_with_sgd_beside_it():
    model = net()
    optimizer = make("csam:base=muon,rest=sgd,rest_lr=0.05", model)
    seen = train(model, optimizer, batches(1, n=32) * 20)
    assert seen[-1] < seen[0]
    assert isinstance(optimizer.base.parts["rest"], torch.optim.SGD)
    assert "momentum_buffer" in optimizer.state[model.hidden.weight]
    assert "momentum_buffer" in optimizer.state[model.head.weight]


def test_a_network_without_hidden_matrices_is_refused():
    model = nn.Linear(3, 2)
    with pytest.raises(InputError, match="Expected hidden matrices and other parameters, but got 0 and 2"):
        Muon(list(model.parameters()), model)


def test_float32_is_torchs_muon_but_for_rounding(monkeypatch):
    """With the orthogonalisation exchanged inside torch's own, both take the same steps."""
    import torch.optim._muon as torchs

    def exchanged(grad, coefficients, steps, eps):
        return orthogonalised(grad, coefficients, steps)

    monkeypatch.setattr(torchs, "_zeropower_via_newtonschulz", exchanged)
    ours, theirs = net(), net()
    for model, precision in ((ours, "float32"), (theirs, "bfloat16")):
        torch.manual_seed(0)  # of the dropout
        train(model, make(f"muon:weight_decay=0.1,precision={precision}", model), batches(1, n=32) * 5)
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-7, rtol=1e-5, msg=name)


def test_a_gradient_of_zeros_moves_nothing():
    model = with_hidden(torch.ones(3, 2))
    optimizer = Plain(Muon(model.parameters(), model, precision="float32"))
    optimizer.step(lambda: 0.0 * model(torch.ones(1, 2)).sum(1))
    assert torch.equal(model[0].weight.detach(), torch.ones(3, 2))
