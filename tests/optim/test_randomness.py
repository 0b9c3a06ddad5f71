"""Every pass of a step draws the same numbers, whichever global generator they come from."""

import random

import numpy as np
import pytest
import torch

from surefoot.losses._base import Batch
from surefoot.optim import Parts
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms, PartSpec
from surefoot.seeding import replaying, rng_state, seeded
from tests.optim.problems import batches, losses, make, net, wrappers

SOURCES = {
    "numpy": lambda: np.random.beta(0.4, 0.4),
    "numpy's second normal": np.random.standard_normal,  # kept from the first, beside the state's words
    "random": random.random,
    "random's second normal": lambda: random.gauss(0, 1),
    "torch": lambda: torch.rand(()).item(),
}
OPTIONS = {"rst": "p=1", "aesam": "lambda1=-100,lambda2=-100", "looksam": "k=1", "amp": "steps=3"}


def make_climbing(name, model):
    """One that climbs at this step."""
    return make(f"{name}:{OPTIONS[name]}" if name in OPTIONS else name, model)


def mixed(model, x, y, draw, seen):
    """Mixup, with λ drawn in the closure."""

    def evaluate(part):
        lam = draw()
        seen.append(lam)
        shares = losses(model, x + 0.1 * lam, y)(part)
        return LossTerms((1 + 0.01 * lam) * shares, log_py=-shares)

    return Parts(evaluate, n=len(y))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", wrappers())
def test_all_passes_draw_the_same_and_the_next_step_goes_on(name, source):
    np.random.seed(0)
    random.seed(0)
    torch.manual_seed(0)
    draw = SOURCES[source]
    expected = [draw() for _ in range(4)]
    np.random.seed(0)
    random.seed(0)
    model = net(dropout=0.0)
    optimizer = make_climbing(name, model)
    torch.manual_seed(0)
    for step, (x, y) in enumerate(batches(4)):
        seen = []
        optimizer.step(mixed(model, x, y, draw, seen))
        assert len(seen) >= 2
        assert seen == [expected[step]] * len(seen)


@pytest.mark.parametrize("source", SOURCES)
def test_loops_without_a_closure_draw_the_same_too(source):
    np.random.seed(0)
    random.seed(0)
    torch.manual_seed(0)
    draw, model = SOURCES[source], net(dropout=0.0)
    optimizer = make("sam", model)
    seen = []
    for x, y in batches(2):
        optimizer.zero_grad()
        closure = mixed(model, x, y, draw, seen)
        optimizer.loss(model(x + closure().per_example.mean().detach()), y).backward()
        with optimizer.perturbed():
            optimizer.loss(model(x + closure().per_example.mean().detach()), y).backward()
        optimizer.step()
    assert seen[0] == seen[1]
    assert seen[2] == seen[3]
    assert seen[0] != seen[2]


def test_a_climb_of_several_steps_keeps_its_masks():
    """From the third pass on they were fresh ones: the gradients belonged to different networks."""
    model = net(dropout=0.5)
    masks = []
    model.dropout.register_forward_hook(lambda module, args, out: masks.append(out.detach() != 0))
    optimizer = make("amp:steps=4", model)
    optimizer.param_groups[0]["rho"] = 1e-12  # so that nothing else changes the mask
    optimizer.step(losses(model, *batches(1)[0]))
    assert len(masks) == 5
    assert all(torch.equal(mask, masks[0]) for mask in masks)
    optimizer.step(losses(model, *batches(1)[0]))
    assert len(masks) == 10
    assert not torch.equal(masks[0], masks[5])


@pytest.mark.parametrize("failing", [1, 2])
def test_a_closure_that_raises_leaves_the_generators_where_it_left_them_in_the_clean_pass(failing):
    np.random.seed(0)
    random.seed(0)
    torch.manual_seed(0)
    model, calls = net(), []
    optimizer = make("sam", model)

    def closure():
        calls.append((np.random.rand(), random.random(), torch.rand(()).item()))
        if len(calls) == failing:
            raise KeyError("lost")
        return losses(model, *batches(1)[0])()

    with pytest.raises(KeyError):
        optimizer.step(closure)
    after = np.random.rand(), random.random()
    np.random.seed(0)
    random.seed(0)
    np.random.rand()
    random.random()
    assert after == (np.random.rand(), random.random())


def test_replaying_and_seeding_leave_no_trace():
    before = rng_state()
    first = [draw() for draw in SOURCES.values()]
    now = rng_state()
    with replaying(before):
        assert [draw() for draw in SOURCES.values()] == first
        np.random.rand(3)
    with seeded(1, "a purpose"):
        one = [draw() for draw in SOURCES.values()]
    with seeded(1, "a purpose"):
        assert [draw() for draw in SOURCES.values()] == one
    later = [draw() for draw in SOURCES.values()]
    with replaying(now):
        assert [draw() for draw in SOURCES.values()] == later


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize("source", SOURCES)
def test_passes_may_draw_more_or_less_than_the_one_before(source, waiting):
    """Normal numbers are made in pairs, and the second one waits where words in memory do not show it."""
    draw = SOURCES[source]
    for first in range(4):
        for second in range(4):
            np.random.seed(0)
            random.seed(0)
            torch.manual_seed(0)
            for _ in range(waiting):
                draw()
            before = rng_state()
            drawn = [draw() for _ in range(first)]
            later = rng_state()
            expected = [draw() for _ in range(3)]
            np.random.set_state(later.numpy)
            random.setstate(later.python)
            torch.set_rng_state(later.torch)
            with replaying(before):
                again = [draw() for _ in range(second)]
            both = min(first, second)
            assert again[:both] == drawn[:both]
            assert [draw() for _ in range(3)] == expected


class Stochastic(torch.nn.Module):
    """Drops its layer by Python's generator, as networks with stochastic depth do."""

    def __init__(self):
        super().__init__()
        self.layer, self.seen = torch.nn.Linear(12, 3), []

    def forward(self, x):
        self.seen.append(random.random())
        return self.layer(x) * (1 + self.seen[-1])


def test_a_loss_that_looks_elsewhere_looks_with_the_same_network():
    model = Stochastic()
    x, y = batches(1, shape=(12,))[0]
    LOSSES.build(PartSpec("calmo", {"robust": 1.0})).evaluate(model, Batch(x, y, torch.arange(len(y))))
    assert len(model.seen) > 2  # the attack in between draws its own
    assert model.seen[0] == model.seen[-1]
