"""One violation anywhere is a bug: the theorems on random logits, random networks and a real training run.

Drawn per run of the tests: 1,000 sets of logits and 1,000 of confidences before and after a step, and networks with all
their curvature, which take longer, 150 for the margins and 75 for the sharpness-aware step; new ones each time.
``SUREFOOT_RANDOM_NETWORKS=2000`` draws thousands of these as well, in some minutes.
"""

from __future__ import annotations

import math
import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.certificate import certify, step_checks
from surefoot.data.fashion import fashion
from surefoot.errors import InputError
from surefoot.margins.ascent import AscentStep, ascent_checks, csam_loss, mean_log_odds, sam_coefficients
from surefoot.margins.bounds import Evidence, bound_checks
from surefoot.margins.check import Check
from surefoot.schema import Split

NETWORKS = int(os.environ.get("SUREFOOT_RANDOM_NETWORKS", "150"))


def violated(checks: list[Check]) -> list[Check]:
    return [check for check in checks if check.violated]


def applied(checks: list[Check]) -> set[str]:
    return {check.name for check in checks if check.applies}


logits_cases = st.fixed_dictionaries({
    "seed": st.integers(0, 10**9),
    "k": st.integers(2, 30),
    "n": st.integers(1, 80),
    "scale": st.sampled_from([1e-8, 0.1, 1.0, 5.0, 50.0, 1e3, 1e4]),
    "right": st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    "ties": st.booleans(),
})


def draw(case: dict[str, object]) -> tuple[Tensor, Tensor]:
    """Random logits; a share of the labels is the predicted class, and some logits may be equal."""
    generator = torch.Generator().manual_seed(int(case["seed"]))
    n, k = int(case["n"]), int(case["k"])
    logits = float(case["scale"]) * torch.randn(n, k, generator=generator, dtype=torch.float64)
    if case["ties"]:
        logits = logits.round()
    random = torch.randint(k, (n,), generator=generator)
    keep = torch.rand(n, generator=generator) < float(case["right"])
    return logits, torch.where(keep, logits.argmax(1), random)


@settings(max_examples=1000, deadline=None)
@given(case=logits_cases, n_bins=st.sampled_from([1, 2, 15, 100]))
def test_margin_theorems_on_random_logits(case: dict[str, object], n_bins: int) -> None:
    logits, labels = draw(case)
    checks = bound_checks(Evidence(logits, labels, n_bins))
    assert violated(checks) == []
    assert {"theorem 4.1 (i)", "theorem 4.1 (i), bounded", "lemma B.4"} <= applied(checks)


def test_theorem_4_2_applies_exactly_when_all_margins_are_positive() -> None:
    logits = torch.tensor([[3.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    right = bound_checks(Evidence(logits, torch.tensor([0, 1])))
    wrong = bound_checks(Evidence(logits, torch.tensor([0, 0])))
    tie = bound_checks(Evidence(torch.zeros(1, 2), torch.tensor([0])))
    assert "theorem 4.2 (i), lower" in applied(right)
    assert "theorem 4.2 (i), lower" not in applied(wrong) | applied(tie)
    reasons = {check.name: check.why for check in wrong}
    assert reasons["theorem 4.2 (i), lower"] == "needs all true margins > 0, but 50.00% are not"
    assert "pass a model" in reasons["theorem 4.1 (ii)"]


def test_a_violation_would_be_seen() -> None:
    """Feed the checks numbers that no network has: they must protest."""
    logits, labels = torch.tensor([[3.0, 0.0]], dtype=torch.float64), torch.tensor([0])
    norms = torch.tensor([1.0])
    bad = bound_checks(Evidence(logits, labels, gn_sharpness=10.0, jacobian_norms=norms))
    assert {"theorem 4.1 (ii)", "theorem 4.2 (ii)", "remark B.6"} <= {check.name for check in violated(bad)}
    far = Evidence(
        logits,
        labels,
        epsilon=0.1,
        robust=torch.tensor([2.9]),
        robust_kind="certified",
        shifted=-logits,
        distance=torch.tensor([0.05]),
    )
    assert {check.name for check in violated(bound_checks(far))} == {
        "proposition B.7",
        "corollary B.8",
        "corollary B.8, bounded",
    }
    step = AscentStep(torch.tensor([0.0]).double(), torch.tensor([0.0]).double(), 1.0, 1.0, kappa_min=0.0)
    assert "lemma 1" in {check.name for check in violated(ascent_checks(step))}
    nan = Check("x", "x", math.nan, 1.0)
    assert nan.violated


def network(seed: int, kind: str, d: int, k: int, scale: float) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        make = {
            "linear": lambda: nn.Linear(d, k),
            "tanh": lambda: nn.Sequential(nn.Linear(d, 6), nn.Tanh(), nn.Linear(6, k)),
            "relu": lambda: nn.Sequential(nn.Linear(d, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, k)),
            "batchnorm": lambda: nn.Sequential(nn.Linear(d, 6), nn.BatchNorm1d(6), nn.GELU(), nn.Linear(6, k)),
        }[kind]
        model = make().double()
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(scale)
    return model


@settings(max_examples=NETWORKS, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["linear", "tanh", "relu", "batchnorm"]),
    d=st.integers(1, 6),
    k=st.integers(2, 5),
    n=st.integers(1, 10),
    scale=st.sampled_from([0.3, 1.0, 3.0, 10.0]),
    epsilon=st.floats(0, 0.5),
    norm=st.sampled_from(["l2", "linf"]),
    separable=st.booleans(),
)
def test_all_theorems_on_random_networks(
    seed: int, kind: str, d: int, k: int, n: int, scale: float, epsilon: float, norm: str, separable: bool
) -> None:
    model = network(seed, kind, d, k, scale).eval()
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    y = model(x).argmax(1) if separable else torch.randint(k, (n,), generator=generator)
    checks = certify(model, Split(x, y), epsilon=epsilon, norm=norm)
    assert violated(checks) == []
    names = applied(checks)
    assert {"theorem 4.1 (ii)", "remark B.6", "theorem 4.1 (i), robust"} <= names
    assert ("corollary B.8" in names) == (kind != "batchnorm")  # no certificate without Lipschitz constants
    assert not separable or "theorem 4.2 (ii)" in names


@settings(max_examples=NETWORKS // 2, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["linear", "tanh", "batchnorm"]),
    m=st.integers(1, 8),
    scale=st.sampled_from([0.3, 1.0, 3.0, 10.0]),
    rho=st.sampled_from([1e-3, 0.05, 0.3, 1.0, 5.0]),
)
def test_step_theorems_on_random_networks(seed: int, kind: str, m: int, scale: float, rho: float) -> None:
    model = network(seed, kind, 4, 3, scale).eval()
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(m, 4, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (m,), generator=generator)
    before = [p.clone() for p in model.parameters()]
    checks = step_checks(model, x, y, rho=rho)
    assert violated(checks) == []
    assert any(check.name == ("lemma 1" if m == 1 else "lemma 2") for check in checks)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    if kind == "linear":  # convex: the κ_min condition always holds
        assert ("lemma 1" if m == 1 else "lemma 2") in applied(checks)


@settings(max_examples=1000, deadline=None)
@given(
    before=st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=6),
    rises=st.lists(st.floats(0, 50), min_size=6, max_size=6),
    gamma=st.floats(0, 2),
)
def test_entropy_theorems_for_any_confidences(before: list[float], rises: list[float], gamma: float) -> None:
    s = torch.tensor(before, dtype=torch.float64)
    step = AscentStep(s, s + torch.tensor(rises[: len(before)], dtype=torch.float64), 0.0, 0.1)
    checks = ascent_checks(step, gammas=(gamma,))
    assert violated(checks) == []
    assert ("theorem 1" if len(before) == 1 else "theorem 2") in applied(checks)


def test_curvature_of_a_saturated_network_is_no_rounding() -> None:
    """With p within 1e-16 of 1, diag(p) − ppᵀ as it is written down is off by tens of per cent."""
    model = network(6, "batchnorm", 6, 2, 10.0).eval()
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(6, 6, generator=generator, dtype=torch.float64)
    assert violated(certify(model, Split(x, torch.randint(2, (6,), generator=generator)))) == []


def test_a_gradient_whose_squares_are_zero_is_still_one() -> None:
    model = network(516, "relu", 4, 4, 10.0).eval()
    x = torch.randn(1, 4, generator=torch.Generator().manual_seed(516), dtype=torch.float64)
    assert violated(certify(model, Split(x, model(x).argmax(1)))) == []


def test_without_a_gradient_nothing_is_violated() -> None:
    model = nn.Linear(2, 2).double()
    nn.init.constant_(model.weight, 0.0)
    with torch.no_grad():
        model.bias.copy_(torch.tensor([1e4, 0.0]))
    checks = step_checks(model, torch.zeros(1, 2).double(), torch.tensor([0]), rho=0.1)
    assert checks
    assert violated(checks) == []


def test_the_lemma_does_not_apply_where_the_path_bends_down_too_much() -> None:
    step = AscentStep(torch.tensor([0.0]).double(), torch.tensor([0.1]).double(), 1.0, 0.5, kappa_min=-3.0)
    lemma = next(check for check in ascent_checks(step) if check.name == "lemma 1")
    assert not lemma.applies
    assert lemma.why == "needs κ_min ≥ −‖g‖/ρ = -2, but it is -3"
    condition = next(check for check in ascent_checks(step) if check.name == "κ_min condition")
    assert not condition.holds
    assert not condition.violated  # an assumption that fails is a finding
    kinked = AscentStep(step.before, step.after, 1.0, 0.5, kappa_min=0.0, rough="ReLU")
    assert "ReLU has kinks" in next(check for check in ascent_checks(kinked) if check.name == "lemma 1").why
    with pytest.raises(InputError, match="Expected one value per example before and after"):
        AscentStep(torch.zeros(2), torch.zeros(3), 1.0, 0.5)


def test_csam_loss_of_the_test_vector() -> None:
    p = torch.tensor([0.8, 0.99, 0.5, 0.4], dtype=torch.float64)
    found = csam_loss(torch.log((1 - p) / p), 1.0)
    torch.testing.assert_close(
        found, torch.tensor([0.123969, 0.005050, 0.693147, 0.916291], dtype=torch.float64), atol=1e-6, rtol=0
    )


def test_geometric_mean_and_coefficients_by_hand() -> None:
    p, p_tilde = torch.tensor([0.9, 0.6]).double(), torch.tensor([0.7, 0.5]).double()
    step = AscentStep(torch.log(1 / p - 1), torch.log(1 / p_tilde - 1), 0.4, 0.5)
    g, g_tilde = p.prod().sqrt().item(), p_tilde.prod().sqrt().item()
    assert torch.sigmoid(-mean_log_odds(step.before)).item() == pytest.approx(g)
    lam, lam_zero = sam_coefficients(step)
    assert lam == pytest.approx((1 - g_tilde) / (1 - g))
    assert lam_zero == pytest.approx((1 - g_tilde) / (1 - math.exp(0.1) * g_tilde))


def test_logits_cannot_have_robust_margins() -> None:
    with pytest.raises(InputError, match="Expected a model for epsilon or rho, but got logits"):
        certify(torch.zeros(1, 2), Split(torch.zeros(1, 1), torch.tensor([0])), epsilon=0.1)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
def test_no_violation_along_a_real_training_run(activation: type[nn.Module]) -> None:
    """From chance to interpolation on embedded data: theorem 4.1 all the way, theorem 4.2 at the end."""
    splits = fashion()
    rows = slice(0, 96)
    train = Split(splits.train.inputs[rows], splits.train.labels[rows])
    test = Split(splits.test.inputs[rows], splits.test.labels[rows])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(784, 20), activation(), nn.Linear(20, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    seen: set[str] = set()
    for step in range(121):
        if step in (0, 5, 20, 60, 120):
            checks = certify(model, train, epsilon=0.05, rho=0.05) + certify(model, test, epsilon=0.05)
            assert violated(checks) == []
            seen |= applied(checks)
        optimizer.zero_grad()
        F.cross_entropy(model(train.inputs), train.labels).backward()
        optimizer.step()
    assert {"theorem 4.1 (i)", "theorem 4.2 (i), lower", "theorem 4.2 (ii)", "remark B.6", "corollary B.8"} <= seen
    assert ("lemma 2" in seen) == (activation is nn.Tanh)
