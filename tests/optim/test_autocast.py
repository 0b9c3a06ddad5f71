"""Under ``torch.autocast``, which keeps rounded copies of the weights for as long as its outermost context lasts."""

from contextlib import ExitStack

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from surefoot.curvature import perturbed
from surefoot.ensembles.snapshot import Snapshot
from surefoot.optim.sam import SAM
from tests.optim.problems import losses, make, names

METHODS = [*names(), "amp:steps=3", "looksam:k=2", "csam:every=2", "sam:m=8", "wsam:rho=0.5"]
PLACES = ["inside", "around", "both"]


def bf16():
    return torch.autocast("cpu", torch.bfloat16)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 3))


def batches(n_steps=3):
    draw = torch.Generator().manual_seed(1)
    return [(torch.randn(32, 12, generator=draw), torch.randint(3, (32,), generator=draw)) for _ in range(n_steps)]


class Rounded(nn.Module):
    """A network that turns autocast on for itself, or leaves that to others."""

    def __init__(self, model, inside):
        super().__init__()
        self.model, self.inside = model, inside

    def forward(self, x):
        with ExitStack() as stack:
            if self.inside:
                stack.enter_context(bf16())
            return self.model(x).float()


def advance(form, model, optimizer, x, y):
    if form == "closure":
        optimizer.step(losses(model, x, y))
        return
    if form == "backward":

        def closure():
            loss = optimizer.loss(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)
        return
    optimizer.zero_grad()
    optimizer.loss(model(x), y).backward()
    if optimizer.climbs:
        with optimizer.perturbed():
            optimizer.loss(model(x), y).backward()
    optimizer.step()


def trained(method, form, place):
    """Weights after some steps, and the loss that a forward pass right after them sees."""
    model = network()
    optimizer = make(method, model)
    wrapped = Rounded(model, place in ("inside", "both"))
    with ExitStack() as stack:
        if place in ("around", "both"):
            stack.enter_context(bf16())
        for x, y in batches():
            advance(form, wrapped, optimizer, x, y)
        x, y = batches()[0]
        after = F.cross_entropy(wrapped(x), y).item()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]), after


@pytest.mark.parametrize("place", ["around", "both"])
@pytest.mark.parametrize("method", METHODS)
def test_it_does_not_matter_where_the_context_is(method, place):
    """An inner context forgets its copies at its end, so it is right by itself."""
    weights, after = trained(method, "closure", place)
    expected, after_expected = trained(method, "closure", "inside")
    torch.testing.assert_close(weights, expected, atol=1e-6, rtol=0)
    assert after == pytest.approx(after_expected, abs=1e-6)
    start = torch.cat([parameter.detach().flatten() for parameter in network().parameters()])
    assert (expected - start).norm() > 1e-3  # the comparison can fail


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", ["backward", "explicit"])
@pytest.mark.parametrize("method", ["sam:rho=0.5", "csam:rho=0.5", "gsam:rho=0.5", "looksam:k=2"])
def test_nor_does_the_form_of_the_loop(method, form, place):
    weights, after = trained(method, form, place)
    expected, after_expected = trained(method, "closure", "inside")
    torch.testing.assert_close(weights, expected, atol=1e-6, rtol=0)
    assert after == pytest.approx(after_expected, abs=1e-6)


@pytest.mark.parametrize("place", PLACES)
def test_the_perturbed_loss_is_that_of_sam_written_out(place):
    """It was the clean one: copies from before the climb were used."""
    model, (x, y) = network(), batches(1)[0]
    grads = torch.autograd.grad(F.cross_entropy(model(x), y), list(model.parameters()))
    norm = torch.stack([grad.norm() for grad in grads]).norm()
    with torch.no_grad():
        climbed = {name: p + 2 * g / norm for (name, p), g in zip(model.named_parameters(), grads, strict=True)}
    expected = F.cross_entropy(torch.func.functional_call(model, climbed, (x,)), y).item()
    optimizer = SAM(torch.optim.SGD(model.parameters(), lr=0.1), model, rho=2.0)
    wrapped = Rounded(model, place in ("inside", "both"))
    with ExitStack() as stack:
        if place in ("around", "both"):
            stack.enter_context(bf16())
        clean = optimizer.step(losses(wrapped, x, y)).item()
    assert optimizer.facts.perturbed_loss == pytest.approx(expected, rel=0.01)
    assert optimizer.facts.perturbed_loss > 1.5 * clean


def test_samples_of_a_posterior():
    model, (x, y) = network(), batches(1)[0]
    optimizer = make("bsam:n_train=32", model)
    optimizer.step(losses(model, x, y))
    with bf16(), torch.no_grad():
        seen = [model(x).float()]
        for seed in range(2):
            with optimizer.sampled(torch.Generator().manual_seed(seed)):
                seen.append(model(x).float())
        seen.append(model(x).float())
    assert torch.equal(seen[0], seen[3])
    assert not torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[1], seen[2])


def test_members_of_an_ensemble():
    model, (x, _) = network(), batches(1)[0]
    ensemble = Snapshot()
    ensemble.members = [{name: scale * value for name, value in model.state_dict().items()} for scale in (0.5, 2.0)]
    with bf16(), torch.no_grad():
        own = model(x).float()
        seen = [model(x).float() for _ in ensemble.forward_passes(model, make("sgd", model), 0)]
        assert torch.equal(model(x).float(), own)
    assert not torch.equal(seen[0], own)
    assert not torch.equal(seen[0], seen[1])


def test_weights_that_are_moved_to_be_looked_at():
    model, (x, _) = network(), batches(1)[0]
    direction = torch.ones(sum(parameter.numel() for parameter in model.parameters()))
    with bf16(), torch.no_grad():
        own = model(x).float()
        with perturbed(model, direction):
            there = model(x).float()
        assert torch.equal(model(x).float(), own)
    assert (there - own).abs().max() > 1
