"""bSAM: its step, its noise, its posterior."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from surefoot.assembly import assemble, splits_of
from surefoot.ensembles import build_ensemble
from surefoot.optim import Parts
from surefoot.optim.bsam import BSAM
from surefoot.seeding import generator
from surefoot.studies.compare import make_spec
from tests.optim.problems import Quadratic, assert_same, batches, losses, make, net, weights
from tests.optim.test_oracles import K, N, batch, flat
from tests.oracles import optimizers as oracles

QUIET = 10**30  # so many examples that the noise vanishes


@pytest.mark.parametrize(
    ("beta1", "expected"), [(0.0, (0.895, -0.5)), (0.9, (0.9895, 0.85))], ids=["no momentum", "momentum"]
)
def test_one_step_by_hand(beta1, expected):
    """The precision before the step divides the momentum; a listing that updates it first gives 0.8950105."""
    model = Quadratic()
    options = {"lr": 0.1, "rho": 0.05, "beta1": beta1, "prior_precision": 0.0, "n_train": QUIET}
    optimizer = BSAM(model.parameters(), **options)
    optimizer.step(model.closure)
    torch.testing.assert_close(model.weight.detach(), torch.tensor(expected, dtype=torch.float64), atol=1e-8, rtol=0)
    torch.testing.assert_close(
        optimizer.state[model.weight]["s"], torch.tensor([1.0001, 1.0091], dtype=torch.float64), atol=1e-8, rtol=0
    )


def test_fifty_steps_with_noise_in_parts():
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    model = nn.Linear(5, K, dtype=torch.float64)
    options = {"lr": 0.1, "rho": 0.05, "n_train": 100, "prior_precision": 2.0, "augmentation": 2.0, "seed": 7}
    optimizer = BSAM(model.parameters(), model, m=8, **options)
    w = flat(model).copy()
    oracle = oracles.BSam(len(w), 0.1, 0.05, 0.9, 0.999, 200, 0.1, 0.01)
    for t in range(50):
        x, y = batch(rng)
        problems = [oracles.SoftmaxRegression(x[i : i + 8], y[i : i + 8], K) for i in range(0, N, 8)]
        noises = []
        for part in range(3):
            draw = generator(7, f"bsam/{t}/{part}")
            shapes = [p.shape for p in model.parameters()]
            noises.append(
                torch.cat([torch.randn(s, generator=draw, dtype=torch.float64).flatten() for s in shapes]).numpy()
            )
        w = oracle.step(w, problems, noises)
        inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
        optimizer.step(
            Parts(lambda part: F.cross_entropy(model(inputs[part]), labels[part], reduction="none"), n=N)  # noqa: B023 - called at once
        )
        np.testing.assert_allclose(flat(model), w, atol=1e-9, rtol=1e-9)


def test_samples_follow_the_posterior_and_the_mean_comes_back():
    w = nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = BSAM([w], n_train=100)
    optimizer.posterior.precision(w).copy_(torch.tensor([1.0, 4.0]))
    draw, drawn = torch.Generator().manual_seed(0), []
    for _ in range(4000):
        with optimizer.sampled(draw):
            drawn.append(w.detach().clone())
    assert torch.equal(w.detach(), torch.tensor([1.0, -2.0]))
    samples = torch.stack(drawn)
    torch.testing.assert_close(samples.mean(0), torch.tensor([1.0, -2.0]), atol=0.01, rtol=0)
    torch.testing.assert_close(samples.std(0), torch.tensor([0.1, 0.05]), atol=0.004, rtol=0)


def test_the_explicit_form_is_the_closures():
    results = []
    for explicit in (True, False):
        model = net()
        optimizer = make("bsam:n_train=50", model)
        torch.manual_seed(0)
        for x, y in batches(4):
            if explicit:
                optimizer.zero_grad()
                with optimizer.sampled():
                    optimizer.loss(model(x), y).backward()
                with optimizer.perturbed():
                    optimizer.loss(model(x), y).backward()
                optimizer.step()
            else:
                optimizer.step(losses(model, x, y))
        results.append(weights(model))
    assert_same(*results)


def test_bsam_descends():
    """pytorch-optimizer's port climbs the loss instead."""
    model = Quadratic()
    optimizer = BSAM(model.parameters(), lr=0.02, rho=0.01, n_train=1000, prior_precision=0.0)
    for _ in range(200):
        optimizer.step(model.closure)
    assert model().sum().item() < 0.07


def test_a_run_tells_it_how_many_examples_it_trains_on(small_npz):
    def n_of(method):
        spec = make_spec(method, data=f"npz:{small_npz}", model="mlp:width=4")
        ensemble = build_ensemble(spec.method.ensemble)
        return assemble(spec, splits_of(spec), ensemble).optimizer.n

    assert n_of("bsam") == 90
    assert n_of("bsam:n_train=7,augmentation=2") == 14
