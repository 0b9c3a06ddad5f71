"""LookSAM, AE-SAM, RST, ESAM and intervals: what they compute and what they save."""

from functools import partial

import pytest
import torch
from torch import nn

from surefoot.errors import InputError
from surefoot.optim import Parts
from surefoot.optim.aesam import AESAM, WhereSharp
from surefoot.optim.esam import ESAM
from surefoot.optim.looksam import LookSAM
from surefoot.optim.rst import RST, Coin
from surefoot.optim.sam import SAM
from surefoot.schema import LossTerms
from tests.optim.problems import Quadratic, assert_same, batches, losses, make, net, train, weights
from tests.optim.test_oracles import BASES, compare
from tests.oracles import optimizers as oracles


def test_looksam_by_hand():
    model = Quadratic()
    optimizer = LookSAM(torch.optim.SGD(model.parameters(), lr=0.1), rho=0.05)
    optimizer.step(model.closure)
    torch.testing.assert_close(
        optimizer.descent.g_v[0], torch.tensor([-0.04433334, 0.00443333], dtype=torch.float64), atol=1e-8, rtol=0
    )
    optimizer.step(model.closure)
    expected = torch.tensor([0.88114987, -0.00715976], dtype=torch.float64)
    torch.testing.assert_close(model.weight.detach(), expected, atol=1e-8, rtol=0)
    torch.testing.assert_close(
        model.weight.grad, torch.tensor([0.18352607, -0.42592095], dtype=torch.float64), atol=1e-8, rtol=0
    )


def test_aesam_by_hand():
    cadence = WhereSharp(n_steps=100)
    assert cadence.wanted(0, 101**0.5)
    cadence.commit()
    assert cadence.mu == pytest.approx(10.1)
    assert cadence.var**0.5 == pytest.approx(28.745104)


@pytest.mark.parametrize("base", BASES)
def test_looksam_on_the_whole_vector(base):
    """Two ports take the projections tensor by tensor; the paper's formula is on the whole vector."""
    make_it = partial(LookSAM, rho=0.1, k=5, alpha=0.7)
    # g_v is a small difference that is scaled up again, and rounding with it.
    compare(make_it, oracles.LookSam(0.1, 5, 0.7), BASES[base][0], BASES[base][1](), tolerance=1e-7)


def test_aesam_against_its_reference():
    oracle = oracles.AeSam(0.1, 0.9, -1.0, 1.0, 50)
    make_it = partial(AESAM, rho=0.1, n_steps=50)
    compare(make_it, oracle, BASES["sgd"][0], BASES["sgd"][1]())
    assert 5 < sum(oracle.climbed) < 45  # both kinds of steps were compared


def test_rst_against_its_reference():
    coin = Coin(0.4, seed=3)
    tosses = [coin.due(t) for t in range(50)]

    class Tossed:
        t = -1

        def gradient(self, w, problem):
            self.t += 1
            return (oracles.Sam(0.1) if tosses[self.t] else oracles.Plain()).gradient(w, problem)

    make_it = partial(RST, rho=0.1, p=0.4, seed=3)
    compare(make_it, Tossed(), BASES["sgd"][0], BASES["sgd"][1]())
    assert 10 < sum(tosses) < 30


def test_rst_probability_follows_a_line():
    coin = Coin(0.0, 1.0, n_steps=100)
    assert [coin.probability(t) for t in (0, 50, 100, 200)] == [0.0, 0.5, 1.0, 1.0]
    assert not coin.due(0)
    assert coin.due(100)
    many = [Coin(0.3).due(t) for t in range(2000)]
    assert sum(many) / 2000 == pytest.approx(0.3, abs=0.03)
    with pytest.raises(InputError, match="Expected the number of steps from p to p_end"):
        Coin(0.0, 1.0)


def test_esam_against_its_reference():
    """All tensors climb (β = 1), half of the examples descend."""

    class Selected:
        def gradient(self, w, problem):
            g = problem.grad(w)
            there = w + 0.1 * g / oracles.norm(g)
            grown = problem.losses(there) - problem.losses(w)
            kept = grown.argsort()[::-1][: round(0.5 * len(grown))]
            return problem.grad(there, keep=sorted(kept))

    make_it = partial(ESAM, rho=0.1, beta=1.0, gamma=0.5)
    compare(make_it, Selected(), BASES["sgd"][0], BASES["sgd"][1]())


def test_esam_perturbs_some_tensors_by_rho_over_beta():
    model = nn.ModuleList([nn.Linear(3, 3) for _ in range(20)])
    optimizer = ESAM(torch.optim.SGD(model.parameters(), lr=0.1), rho=0.06, beta=0.6, seed=1)

    def losses():
        return sum(layer(torch.ones(1, 3)) for layer in model).flatten()

    optimizer.reduce(LossTerms(losses())).backward()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with optimizer.perturbed():
        moved = [parameter.detach() - old for parameter, old in zip(model.parameters(), before, strict=True)]
        optimizer.reduce(LossTerms(losses())).backward()
    kept = [d for d in moved if d.abs().max() > 0]
    assert 10 < len(kept) < 35
    assert torch.cat([d.flatten() for d in kept]).norm().item() == pytest.approx(0.1, rel=1e-4)


def test_esam_gives_the_same_with_and_without_parts():
    """Where examples do not see each other; only what it costs differs."""
    results = []
    for parts in (True, False):
        model = net(norm=False, dropout=0.0)
        optimizer = make("esam:gamma=0.5", model)
        for x, y in batches(4):
            closure = losses(model, x, y)
            optimizer.step(closure if parts else lambda closure=closure: closure())
        results.append((weights(model), optimizer.facts.passes))
    torch.testing.assert_close(results[0][0], results[1][0], atol=1e-6, rtol=1e-5)
    assert [passes for _, passes in results] == [1.5, 2]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("looksam:k=5", 1.2),
        ("sam:every=5", 1.2),
        ("csam:every=5", 1.2),
        ("csam:every=5,ascent=asam", 1.2),
        ("esam:gamma=0.5", 1.5),
        ("sam", 2.0),
    ],
)
def test_passes_saved(method, expected):
    """pytorch-optimizer's LookSAM runs two passes at every step and saves nothing."""
    model = net()
    optimizer = make(method, model)
    counted = 0.0
    for x, y in batches(20):

        def evaluate(part, x=x, y=y):
            nonlocal counted
            out = losses(model, x, y)(part)
            counted += len(out) / len(y) * torch.is_grad_enabled()
            return out

        optimizer.step(Parts(evaluate, n=len(y)))
    assert counted / 20 == pytest.approx(expected)


def test_random_and_adaptive_savings():
    for method, low, high in [("rst:p=0.25", 1.1, 1.45), ("aesam", 1.05, 1.95)]:
        model = net()
        optimizer = make(method, model)
        passes = 0
        for batch in batches(40):
            train(model, optimizer, [batch])
            passes += optimizer.facts.passes
        assert low < passes / 40 < high


def test_an_interval_of_one_is_always():
    data = batches(3)
    models = net(), net()
    for model, method in zip(models, ("sam", "looksam:k=1"), strict=True):
        torch.manual_seed(0)
        train(model, make(method, model), data)
    assert_same(weights(models[0]), weights(models[1]))


def test_what_has_no_meaning_is_refused():
    base = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    with pytest.raises(InputError, match="every k-th step with k ≥ 1, or never with 0, but got -1"):
        SAM(base, every=-1)
    with pytest.raises(InputError, match="Expected probabilities p and p_end"):
        RST(base, p=2.0)
    with pytest.raises(InputError, match="Expected beta in"):
        ESAM(base, beta=0.0)
    with pytest.raises(InputError, match="Expected gamma in"):
        ESAM(base, gamma=0.0)
    with pytest.raises(InputError, match="Expected delta in"):
        AESAM(base, delta=1.0)
