"""Per-step facts against numbers computed apart."""

import json
import math

import pytest
import torch
from torch.nn import functional as F

from surefoot.optim.asam import ASAM
from surefoot.optim.csam import CSAM, damp
from surefoot.optim.sam import SAM
from tests.optim.problems import batches, losses, make, mlp, names, net, train

RHO, GAMMA = 0.3, 1.5


@pytest.fixture
def seen():
    """A CSAM step, and everything about it computed by hand."""
    model = mlp(dtype=torch.float64)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(4)  # so that some examples are sure and some are not
    x, y = batches(1, n=64, shape=(12,))[0]
    x = x.double()
    params = list(model.parameters())
    clean = F.cross_entropy(model(x), y, reduction="none")
    g = torch.cat([v.flatten() for v in torch.autograd.grad(clean.mean(), params)])
    eps = RHO * g / g.norm()
    there = torch.nn.utils.parameters_to_vector(params) + eps
    twin = mlp(dtype=torch.float64)
    torch.nn.utils.vector_to_parameters(there, twin.parameters())
    perturbed = F.cross_entropy(twin(x), y, reduction="none")
    outer = damp(perturbed, perturbed, GAMMA).mean()
    g_tilde = torch.cat([v.flatten() for v in torch.autograd.grad(outer, list(twin.parameters()))])
    optimizer = CSAM(torch.optim.SGD(params, lr=0.1), model, rho=RHO, gamma=GAMMA)
    optimizer.step(losses(model, x, y))
    return optimizer.facts, clean.detach(), perturbed.detach(), g, g_tilde, outer


def test_losses_and_norms(seen):
    facts, clean, _, g, g_tilde, outer = seen
    assert facts.loss == pytest.approx(clean.mean().item())
    assert facts.perturbed_loss == pytest.approx(outer.item())
    assert facts.grad_norm == pytest.approx(g.norm().item())
    assert facts.perturbed_grad_norm == pytest.approx(g_tilde.norm().item())
    assert facts.eps_norm == pytest.approx(RHO)
    assert facts.passes == 2
    assert facts.climbed


def test_probabilities_and_the_papers_coefficients(seen):
    facts, clean, perturbed, g, _, _ = seen
    assert facts.p_y == pytest.approx((-clean).exp().mean().item())
    assert facts.perturbed_p_y == pytest.approx((-perturbed).exp().mean().item())
    damped = ((-perturbed).exp() > 0.5).double().mean().item()
    assert 0 < damped < 1
    assert facts.damped == pytest.approx(damped)
    p, p_tilde = math.exp(-clean.mean()), math.exp(-perturbed.mean())  # geometric means
    assert facts.lam == pytest.approx((1 - p_tilde) / (1 - p))
    assert facts.lam0 == pytest.approx((1 - p_tilde) / (1 - math.exp(RHO * g.norm().item() / 2) * p_tilde))
    assert facts.lam >= facts.lam0 > 1  # Equation 2


def test_facts_cost_nothing_until_they_are_read(seen):
    facts = seen[0]
    assert not {"p_y", "lam", "lam0", "damped"} & set(vars(facts))
    assert facts.p_y is not None
    assert "p_y" in vars(facts)


def test_without_damping_there_is_no_share():
    model = mlp()
    optimizer = SAM(torch.optim.SGD(model.parameters(), lr=0.1), model)
    train(model, optimizer, batches(1, shape=(12,)))
    assert optimizer.facts.damped is None
    assert optimizer.facts.p_y is not None


def test_the_length_of_other_climbs_is_measured_on_request():
    model = mlp()
    optimizer = ASAM(torch.optim.SGD(model.parameters(), lr=0.1), model)
    train(model, optimizer, batches(1, shape=(12,)))
    assert optimizer.facts.eps_norm is None
    optimizer.detail = True
    x, y = batches(1, shape=(12,))[0]
    seen = []

    def closure():
        seen.append(torch.cat([p.detach().flatten().clone() for p in model.parameters()]))
        return F.cross_entropy(model(x), y, reduction="none")

    optimizer.step(closure)
    assert optimizer.facts.eps_norm == pytest.approx((seen[1] - seen[0]).norm().item(), rel=1e-5)


def test_closures_that_call_backward_give_the_same_facts():
    x, y = batches(1, shape=(12,))[0]
    found = []
    for own_backward in (True, False):
        model = mlp()
        optimizer = CSAM(torch.optim.SGD(model.parameters(), lr=0.1), model)

        def closure(model=model, optimizer=optimizer):
            loss = optimizer.loss(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure if own_backward else losses(model, x, y))
        found.append(optimizer.facts.to_json())
    assert found[0] == found[1]


@pytest.mark.parametrize("name", names())
def test_facts_of_every_optimizer_are_plain_numbers(name):
    model = net()
    optimizer = make(name, model)
    train(model, optimizer, batches(3))
    facts = optimizer.facts.to_json()
    json.dumps(facts)
    assert facts["loss"] > 0
    assert facts["grad_norm"] > 0


def test_a_step_without_climb_says_so():
    model = net()
    optimizer = make("csam:every=2", model)
    train(model, optimizer, batches(2))
    facts = optimizer.facts
    assert (facts.climbed, facts.passes, facts.perturbed_loss, facts.lam) == (False, 1, None, None)
