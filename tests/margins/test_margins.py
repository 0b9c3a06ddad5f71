from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from surefoot.errors import InputError, OptionError
from surefoot.margins.bounds import log_logit_curvature
from surefoot.margins.calibration import log_ece
from surefoot.margins.lipschitz import certified_margin, margin_lipschitz
from surefoot.margins.margin import log_odds_against, log_one_minus_exp, log_softplus, predicted_margin, true_margin
from surefoot.margins.moments import log_bounded_moment, log_moment, margin_moments
from surefoot.margins.robust import attacked_margin, first_order_margin, linear_margin
from surefoot.metrics.ece import ece

T = torch.tensor([[2, 0.5, -1], [0.1, 0.2, 0.3], [3, -2, 0], [-1, 1.5, 1]], dtype=torch.float64)
LABELS = torch.tensor([0, 2, 1, 1])


def test_margins_and_moments_of_the_test_vector() -> None:
    m = true_margin(T, LABELS)
    torch.testing.assert_close(m, torch.tensor([1.5, 0.1, -5.0, 0.5], dtype=torch.float64))
    torch.testing.assert_close(predicted_margin(T), torch.tensor([1.5, 0.1, 3.0, 0.5], dtype=torch.float64))
    assert log_moment(m).exp().item() == pytest.approx(37.536914, abs=1e-6)
    assert log_bounded_moment(m, 3).exp().item() == pytest.approx(0.624357, abs=1e-6)
    shifted = m - 0.627451  # the robust margins of z = 10 x at ε = 8/255 in linf
    assert log_moment(shifted).exp().item() == pytest.approx(70.300282, rel=1e-6)
    assert log_bounded_moment(shifted, 3).exp().item() == pytest.approx(0.730001, abs=1e-6)
    curvature = torch.tensor([0.295990, 0.351382, 0.092670, 0.448801], dtype=torch.float64)
    torch.testing.assert_close(log_logit_curvature(T).exp(), curvature, atol=1e-6, rtol=0)


def test_everything_is_right_at_margins_of_ten_thousand() -> None:
    logits = torch.tensor([[1e4, 0.0, -5.0], [0.0, 1e4, 0.0]], dtype=torch.float64)
    labels = torch.tensor([0, 0])
    torch.testing.assert_close(true_margin(logits, labels), torch.tensor([1e4, -1e4], dtype=torch.float64))
    assert log_moment(true_margin(logits, labels)).item() == pytest.approx(1e4 - math.log(2))
    assert log_moment(true_margin(logits, torch.tensor([0, 1]))).item() == pytest.approx(-1e4)
    tail = math.log((1 + math.exp(-5) + 2) / 2)  # mean of e^{-10000} (1 + e^{-5}) and e^{-10000} (1 + 1)
    assert log_ece(logits, torch.tensor([0, 1])).item() == pytest.approx(-1e4 + tail, abs=1e-9)
    # one rival carries almost all: H_z has the eigenvalue 2 (1 − p) there
    pair = torch.tensor([[1e4, 0.0]], dtype=torch.float64)
    assert log_logit_curvature(pair).item() == pytest.approx(-1e4 + math.log(2))
    assert log_odds_against(logits.float(), labels)[1].item() == pytest.approx(1e4)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 12), n=st.integers(1, 60), scale=st.floats(0.01, 30))
def test_log_ece_is_the_logarithm_of_the_metric(seed: int, k: int, n: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, k, generator=generator, dtype=torch.float64)
    labels = torch.randint(k, (n,), generator=generator)
    assert log_ece(logits, labels).exp().item() == pytest.approx(ece(logits.softmax(1), labels).item(), abs=1e-11)


def test_log_helpers_keep_their_precision() -> None:
    s = torch.tensor([-800.0, -20.0, 0.0, 30.0], dtype=torch.float64)
    expected = [-800.0, math.log(math.log1p(math.exp(-20))), math.log(math.log(2)), math.log(30 + math.exp(-30))]
    torch.testing.assert_close(log_softplus(s), torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)
    assert log_one_minus_exp(torch.tensor(-1e-300, dtype=torch.float64)).item() == pytest.approx(math.log(1e-300))


def test_moments_are_ordered() -> None:
    m = true_margin(T, LABELS)
    found = margin_moments(m, 3, robust=m - 0.3, lipschitz=torch.full((4,), 2.0), epsilon=0.2)
    assert found.q_minus is not None
    assert found.q_zero is not None
    assert found.q_plus is not None
    assert found.q_minus <= found.q_zero <= found.q_plus
    assert found.q <= found.q_zero
    assert (found.gamma, found.share_negative) == (-5.0, 0.25)
    with pytest.raises(InputError, match="Expected robust margins at most the true ones"):
        margin_moments(m, 3, robust=m + 1)


def net(seed: int, activation: type[nn.Module] = nn.Tanh, sizes: tuple[int, ...] = (6, 8, 7, 4)) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for fan_in, fan_out in pairwise(sizes):
            layers += [nn.Linear(fan_in, fan_out), activation()]
        return nn.Sequential(*layers[:-1]).double()


def data(seed: int, n: int = 12, d: int = 6, k: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64), torch.randint(k, (n,), generator=generator)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    epsilon=st.floats(0, 2),
    norm=st.sampled_from(["l2", "linf"]),
    activation=st.sampled_from([nn.Tanh, nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid]),
)
def test_a_certificate_is_below_every_point_of_the_ball(
    seed: int, epsilon: float, norm: str, activation: type[nn.Module]
) -> None:
    model, (x, y) = net(seed, activation), data(seed)
    clean = true_margin(model(x), y).detach()
    lower = certified_margin(model, x, y, epsilon=epsilon, norm=norm)
    upper, where = attacked_margin(model, x, y, epsilon=epsilon, norm=norm, n_steps=8)
    delta = (where - x).norm(dim=1) if norm == "l2" else (where - x).abs().amax(1)
    assert bool((delta <= epsilon * (1 + 1e-12) + 1e-15).all())
    torch.testing.assert_close(true_margin(model(where), y), upper)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(50, *x.shape, generator=generator, dtype=torch.float64)
    noise = noise / noise.norm(dim=-1, keepdim=True) if norm == "l2" else noise.clamp(-1, 1)
    around = torch.stack([true_margin(model(x + epsilon * step), y).detach() for step in noise]).amin(0)
    assert bool((lower <= torch.minimum(upper, around) + 1e-10).all())
    assert bool((upper <= clean).all())


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_linear_models_have_an_exact_robust_margin(norm: str) -> None:
    model, (x, y) = net(1, sizes=(6, 4)), data(1)
    exact = linear_margin(model, x, y, epsilon=0.3, norm=norm)
    attack, _ = attacked_margin(model, x, y, epsilon=0.3, norm=norm, n_steps=200)
    assert bool((attack >= exact - 1e-10).all())
    assert (attack - exact).median() < 1e-3  # an attack may stop short where two rivals compete
    assert (attack - exact).max() < 0.05
    weight = model[0].weight
    for i in range(len(x)):
        leads = [
            (model(x)[i, y[i]] - model(x)[i, j]).item()
            - 0.3
            * ((weight[y[i]] - weight[j]).norm() if norm == "l2" else (weight[y[i]] - weight[j]).abs().sum()).item()
            for j in range(4)
            if j != y[i]
        ]
        assert exact[i].item() == pytest.approx(min(leads))
    torch.testing.assert_close(first_order_margin(model, x, y, epsilon=0.3, norm=norm), exact)


def test_first_order_margin_is_right_to_second_order() -> None:
    model, (x, y) = net(2), data(2)
    for epsilon in (1e-2, 1e-3):
        first = first_order_margin(model, x, y, epsilon=epsilon)
        attack, _ = attacked_margin(model, x, y, epsilon=epsilon, n_steps=40)
        assert (first - attack).abs().max() < 30 * epsilon**2


def test_modes_come_back() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 4)).double().train()
    x, y = data(0)
    before = torch.get_rng_state()
    attacked_margin(model, x, y, epsilon=0.1)
    first_order_margin(model, x, y, epsilon=0.1)
    certified_margin(model, x, y, epsilon=0.1)
    assert all(module.training for module in model.modules())
    assert torch.equal(before, torch.get_rng_state())


def test_wrong_input_is_named() -> None:
    with pytest.raises(InputError, match=r"Expected logits \(n, classes ≥ 2\)"):
        true_margin(torch.zeros(3, 1), torch.zeros(3, dtype=torch.long))
    with pytest.raises(InputError, match="Expected finite logits"):
        predicted_margin(torch.tensor([[math.nan, 0.0]]))
    with pytest.raises(InputError, match=r"Expected 2 labels in 0 … 1"):
        true_margin(torch.zeros(2, 2), torch.tensor([0, 2]))
    with pytest.raises(InputError, match="Expected a linear model, but got Sequential"):
        linear_margin(net(0), *data(0), epsilon=0.1)
    with pytest.raises(InputError, match="but got BatchNorm1d"):
        margin_lipschitz(nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)), torch.tensor([0]))
    with pytest.raises(OptionError, match="Expected epsilon ≥ 0"):
        attacked_margin(net(0), *data(0), epsilon=-1.0)
    with pytest.raises(OptionError, match="Expected n_bins ≥ 1"):
        log_ece(T, LABELS, n_bins=0)
    with pytest.raises(InputError, match="Expected one value per example"):
        log_moment(torch.zeros(2, 2))
