"""Every method against an independent reference, 50 random steps, a new batch at each."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from surefoot.optim import Parts
from surefoot.optim.asam import ASAM
from surefoot.optim.csam import CSAM
from surefoot.optim.fisher_sam import FisherSAM
from surefoot.optim.fsam import FSAM
from surefoot.optim.gnp import GNP
from surefoot.optim.gsam import GSAM
from surefoot.optim.plain import Plain
from surefoot.optim.sam import SAM
from surefoot.optim.ssam import SSAM
from surefoot.optim.usam import USAM
from surefoot.optim.vasso import VASSO
from surefoot.optim.wsam import WSAM
from tests.oracles import optimizers as oracles

N, D, K, STEPS = 24, 5, 3, 50
IS_WEIGHT = np.arange(K * D + K) < K * D

CASES = {
    "plain": (lambda b, m: Plain(b), lambda: oracles.Plain()),
    "sam": (lambda b, m: SAM(b, m, rho=0.1), lambda: oracles.Sam(0.1)),
    "csam": (lambda b, m: CSAM(b, m, rho=0.1, gamma=1.5), lambda: oracles.Sam(0.1, outer=True)),
    "csam on asam": (
        lambda b, m: CSAM(b, m, rho=0.4, gamma=1.5, ascent="asam"),
        lambda: oracles.Asam(0.4, 0.01, IS_WEIGHT, outer=True),
    ),
    "csam on vasso, stable": (
        lambda b, m: CSAM(b, m, rho=0.1, gamma=1.5, ascent="vasso", stable=True),
        lambda: oracles.Vasso(0.1, 0.9, outer=True, stable=True),
    ),
    "ssam": (lambda b, m: SSAM(b, m, rho=0.1), lambda: oracles.Sam(0.1, stable=True)),
    "usam": (lambda b, m: USAM(b, m, rho=0.1), lambda: oracles.Usam(0.1)),
    "asam": (lambda b, m: ASAM(b, m, rho=0.4), lambda: oracles.Asam(0.4, 0.01, IS_WEIGHT)),
    "fisher_sam": (lambda b, m: FisherSAM(b, m, rho=0.1, eta=5.0), lambda: oracles.FisherSam(0.1, 5.0)),
    "vasso": (lambda b, m: VASSO(b, m, rho=0.1, theta=0.4), lambda: oracles.Vasso(0.1, 0.4)),
    "fsam": (
        lambda b, m: FSAM(b, m, rho=0.1, sigma=0.7, lam=0.9),
        lambda: oracles.FriendlySam(0.1, 0.7, 0.9),
    ),
    "gsam": (lambda b, m: GSAM(b, m, rho=0.1, alpha=0.4), lambda: oracles.Gsam(0.1, 0.4)),
    "gsam stable": (
        lambda b, m: GSAM(b, m, rho=0.1, alpha=0.4, stable=True),
        lambda: oracles.Gsam(0.1, 0.4, stable=True),
    ),
    "gnp": (lambda b, m: GNP(b, m, rho=0.1, alpha=0.8), lambda: oracles.Gnp(0.1, 0.8)),
    "wsam": (lambda b, m: WSAM(b, m, rho=0.1, gamma=0.8), lambda: oracles.Wsam(0.1, 0.8)),
}
BASES = {
    "sgd": (
        lambda p: torch.optim.SGD(p, lr=0.2, momentum=0.9, weight_decay=1e-3),
        lambda: oracles.Sgd(0.2, 0.9, 1e-3),
    ),
    "adamw": (lambda p: torch.optim.AdamW(p, lr=0.02), lambda: oracles.AdamW(0.02)),
}


def batch(rng):
    """Two overlapping clouds, so that some examples are sure and some are not."""
    y = rng.integers(K, size=N)
    return rng.normal(size=(N, D)) + 2.0 * np.eye(K, D)[y], y


def flat(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()


def compare(make, oracle, base, oracle_base, tolerance=1e-9):
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    model = nn.Linear(D, K, dtype=torch.float64)
    optimizer = make(base(model.parameters()), model)
    w = flat(model).copy()
    for _ in range(STEPS):
        x, y = batch(rng)
        problem = oracles.SoftmaxRegression(x, y, K, gamma=1.5)
        g = oracle.gradient(w, problem)
        w = oracle_base.step(w, g) - oracle_base.lr * getattr(oracle, "extra", 0.0)
        inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
        optimizer.step(
            Parts(lambda part: F.cross_entropy(model(inputs[part]), labels[part], reduction="none"), n=N)  # noqa: B023 - called at once
        )
        np.testing.assert_allclose(flat(model), w, atol=tolerance, rtol=tolerance)
    return optimizer


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("case", CASES)
def test_fifty_steps(case, base):
    make, oracle = CASES[case]
    compare(make, oracle(), BASES[base][0], BASES[base][1]())


def test_the_comparison_can_fail():
    with pytest.raises(AssertionError):
        compare(lambda b, m: SAM(b, m, rho=0.1001), oracles.Sam(0.1), BASES["sgd"][0], BASES["sgd"][1]())


def test_damped_examples_are_among_them():
    """Without any p_y > 1/2 the CSAM cases would compare SAM with SAM."""
    optimizer = compare(*[f() if i else f for i, f in enumerate(CASES["csam"])], BASES["sgd"][0], BASES["sgd"][1]())
    assert 0 < optimizer.facts.damped < 1


def test_m_sharpness_averages_over_parts():
    class Parted:
        def gradient(self, w, problem):
            shares, grads = [], []
            for part in (slice(0, 4), slice(4, 9), slice(9, 14), slice(14, 19), slice(19, 24)):
                sub = oracles.SoftmaxRegression(problem.x[part], problem.y[part], K, gamma=1.5)
                grads.append(oracles.Sam(0.1, outer=True).gradient(w, sub))
                shares.append(len(sub.y) / N)
            return np.average(grads, axis=0, weights=shares)

    make = partial(CSAM, rho=0.1, gamma=1.5, m=5)
    compare(make, Parted(), BASES["sgd"][0], BASES["sgd"][1]())
    with pytest.raises(AssertionError):
        compare(lambda b, m: CSAM(b, m, rho=0.1, gamma=1.5), Parted(), BASES["sgd"][0], BASES["sgd"][1]())


def test_csam_on_an_interval_keeps_its_loss_in_between():
    class Interval:
        t = -1

        def gradient(self, w, problem):
            self.t += 1
            if self.t % 3 == 0:
                return oracles.Sam(0.1, outer=True).gradient(w, problem)
            return problem.grad(w, outer=True)

    make = partial(CSAM, rho=0.1, gamma=1.5, every=3)
    compare(make, Interval(), BASES["sgd"][0], BASES["sgd"][1]())
