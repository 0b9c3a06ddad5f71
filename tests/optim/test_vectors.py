"""Closed-form answers: one or two steps on L = ½ wᵀ diag(1, 10) w from w = (1, 1), lr 0.1, ρ 0.05."""

import pytest
import torch

from surefoot.optim.asam import ASAM
from surefoot.optim.csam import CSAM
from surefoot.optim.fisher_sam import FisherSAM
from surefoot.optim.fsam import FSAM
from surefoot.optim.gnp import GNP
from surefoot.optim.gsam import GSAM
from surefoot.optim.sam import SAM
from surefoot.optim.ssam import SSAM
from surefoot.optim.usam import USAM
from surefoot.optim.vasso import VASSO
from surefoot.optim.wsam import WSAM
from tests.optim.problems import Quadratic

SAM_STEP = (0.89950248, -0.04975186)
ONE_STEP = {
    "sam": (SAM, {}, SAM_STEP),
    "csam gamma 0": (CSAM, {"gamma": 0.0}, SAM_STEP),
    "asam": (ASAM, {"rho": 0.05}, (0.89949751, -0.05024938)),
    "asam rho 0.5": (ASAM, {"rho": 0.5}, (0.89497506, -0.50249378)),
    "asam eta 0": (ASAM, {"rho": 0.05, "eta": 0.0}, SAM_STEP),
    "fisher_sam": (FisherSAM, {"rho": 0.05}, (0.89795199, -0.00405547)),
    "ssam": (SSAM, {}, (0.90422586, -0.00041357)),
    "sam stable": (SAM, {"stable": True}, (0.90422586, -0.00041357)),
    "stable usam": (SSAM, {"ascent": "usam"}, (0.92982260, -0.00253435)),
    "usam": (USAM, {}, (0.895, -0.5)),
    "vasso": (VASSO, {}, SAM_STEP),
    "fsam": (FSAM, {"rho": 0.05}, SAM_STEP),
    "gsam": (GSAM, {"alpha": 0.4}, (0.90119317, -0.04991372)),
    "gnp": (GNP, {"rho": 0.05, "alpha": 0.8}, (0.89960199, -0.03980149)),
    "wsam 0.9": (WSAM, {"gamma": 0.9}, (0.89552233, -0.44776674)),
    "wsam 0.88": (WSAM, {"gamma": 0.88}, (0.89635153, -0.36484697)),
    "wsam 0.5 is sam": (WSAM, {"gamma": 0.5}, SAM_STEP),
    "wsam coupled 0.9": (WSAM, {"gamma": 0.9, "decouple": False}, (0.89552233, -0.44776674)),
    "sam on adamw": (SAM, {"base": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.01)}, (0.899, 0.899)),
}
TWO_STEPS = {
    "vasso 0.9": (VASSO, {"theta": 0.9}, (0.80527831, -0.02594908)),
    "vasso 0.4": (VASSO, {"theta": 0.4}, (0.80873606, -0.04932936)),
    "fsam": (FSAM, {"rho": 0.05, "sigma": 1.0, "lam": 0.6}, (0.80960010, 0.04999771)),
}


def run(cls, options, n_steps):
    options = dict(options)
    model = Quadratic()
    base = options.pop("base", lambda p: torch.optim.SGD(p, lr=0.1))(model.parameters())
    optimizer = cls(base, model, **{"rho": 0.05, **options})
    for _ in range(n_steps):
        optimizer.step(model.closure)
    return model.weight.detach()


@pytest.mark.parametrize("case", ONE_STEP)
def test_one_step(case):
    cls, options, expected = ONE_STEP[case]
    torch.testing.assert_close(run(cls, options, 1), torch.tensor(expected, dtype=torch.float64), atol=1e-8, rtol=0)


@pytest.mark.parametrize("case", TWO_STEPS)
def test_two_steps(case):
    cls, options, expected = TWO_STEPS[case]
    torch.testing.assert_close(run(cls, options, 2), torch.tensor(expected, dtype=torch.float64), atol=1e-8, rtol=0)


@pytest.mark.parametrize(
    ("gamma", "p", "loss", "slope"),
    [
        (0.5, 0.8, 0.166321, -0.977895),
        (1.0, 0.8, 0.123969, -0.763316),
        (2.0, 0.8, 0.068871, -0.462326),
        (0.5, 0.99, 0.007124, -0.717832),
        (1.0, 0.99, 0.005050, -0.510126),
        (2.0, 0.99, 0.002538, -0.257620),
        (1.0, 0.5, 0.693147, -2.0),
        (1.0, 0.4, 0.916291, -2.5),
    ],
)
def test_damped_loss_and_its_slope(gamma, p, loss, slope):
    from surefoot.optim.csam import damp

    p = torch.tensor([p], dtype=torch.float64, requires_grad=True)
    surprise = -p.log()
    value = damp(surprise, surprise, gamma)
    value.backward()
    assert value.item() == pytest.approx(loss, abs=1e-6)
    assert p.grad.item() == pytest.approx(slope, abs=1e-6)


def test_fsam_follows_the_paper_where_the_code_differs():
    """With σ ≠ 1 the authors' code takes σ times the old average away; the paper updates the average first."""
    model = Quadratic()
    optimizer = FSAM(torch.optim.SGD(model.parameters(), lr=0.0), rho=0.05, sigma=0.5, lam=0.6)
    optimizer.ascent.m = [torch.tensor([2.0, 0.0], dtype=torch.float64)]
    optimizer.detail = True
    model().sum().backward()
    with optimizer.perturbed():
        moved = (model.weight - 1).detach().clone()
        model().sum().backward()
    g, m = torch.tensor([1.0, 10.0], dtype=torch.float64), torch.tensor([2.0, 0.0], dtype=torch.float64)
    paper = g - 0.5 * (0.6 * m + 0.4 * g)
    code = g - 0.5 * m
    torch.testing.assert_close(moved, 0.05 * paper / paper.norm())
    assert not torch.allclose(moved, 0.05 * code / code.norm(), atol=1e-4)


def test_fisher_sam_lies_on_the_ellipsoid():
    """A popular port divides by ‖F⁻¹g‖; the maximiser on the ellipsoid has εᵀFε = ρ²."""
    model = Quadratic()
    optimizer = FisherSAM(torch.optim.SGD(model.parameters(), lr=0.0), rho=0.05)
    model().sum().backward()
    fisher = 1 + model.weight.grad**2
    with optimizer.perturbed():
        eps = (model.weight - 1).detach().clone()
        model().sum().backward()
    assert (eps * fisher * eps).sum().sqrt().item() == pytest.approx(0.05, rel=1e-9)
    assert eps.norm().item() != pytest.approx(0.05, rel=0.1)


def test_gsam_radius_follows_the_learning_rate():
    model = Quadratic()
    optimizer = GSAM(torch.optim.SGD(model.parameters(), lr=0.1), rho=0.6, rho_min=0.1)
    for lr, expected in [(0.1, 0.6), (0.05, 0.35), (0.0, 0.1)]:
        optimizer.param_groups[0]["lr"] = lr
        assert optimizer.radius(optimizer.param_groups[0]) == pytest.approx(expected)
