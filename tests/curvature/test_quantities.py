from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from surefoot.curvature.eigenbasis import alignment, hessian_top_eigenpairs
from surefoot.curvature.hessian import Hessian
from surefoot.curvature.jacobian import jacobian_grams, jacobian_norms
from surefoot.curvature.logit_gram import LogitGram
from surefoot.curvature.objective import cross_entropy, mse
from surefoot.curvature.path import ascent_path, perturbed
from surefoot.curvature.perceptron import is_perceptron
from surefoot.curvature.preconditioned import adam_diagonal
from surefoot.curvature.rayleigh import batch_sharpness, mean_quotient, rayleigh_quotient
from surefoot.curvature.sharpness import Measurement, Sharpness, gauss_newton_top_eigenvalue
from surefoot.curvature.thresholds import batch_thresholds, gd_threshold
from surefoot.errors import InputError, OptionError
from tests.curvature.problems import NETWORKS, problem
from tests.oracles.dense_curvature import (
    dense_gauss_newton,
    dense_gradient,
    dense_hessian,
    dense_jacobian,
    dense_softmax_gauss_newton,
)

DENSE = [name for name in NETWORKS if name != "attention"]


def eigenvalues(kind: str, model: nn.Module, x: torch.Tensor, y: torch.Tensor, loss=cross_entropy) -> torch.Tensor:
    model.eval()
    matrix = (dense_gauss_newton if kind == "gn" else dense_hessian)(model, x, y, loss)
    model.train()
    return torch.linalg.eigvalsh(matrix)


@pytest.mark.parametrize("loss", [cross_entropy, mse])
@pytest.mark.parametrize("kind", ["gn", "kappa_max", "kappa_min"])
@pytest.mark.parametrize("network", DENSE)
def test_cold_and_warm_measurements_equal_the_dense_eigenvalue(network: str, kind: str, loss) -> None:
    model, x, y = problem(network, n=12)
    follow = Sharpness(kind, tol=1e-8, loss=loss)
    end = 0 if kind == "kappa_min" else -1
    for visit in range(3):
        exact = eigenvalues(kind, model, x, y, loss)[end].item()
        found = follow.measure(model, x, y)
        assert found.value == pytest.approx(exact, rel=1e-6, abs=1e-9), visit
        assert found.n_examples == 12
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1.01)
    assert model.training


def test_the_search_is_cheap_when_warm_and_falls_back_when_the_vector_has_turned() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 5)).double()
    x, y = torch.randn(60, 20, dtype=torch.float64), torch.randint(5, (60,))
    for kind in ("gn", "kappa_max"):
        follow = Sharpness(kind)
        cold = follow.measure(model, x, y)
        warm = follow.measure(model, x, y)
        assert not cold.warm
        assert warm.warm
        assert warm.n_products <= 5 < cold.n_products
        other = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 5)).double()
        turned = follow.measure(other, x, y)  # nothing of the old vector is of use here
        assert not turned.warm
        exact = eigenvalues("gn" if kind == "gn" else "h", other, x, y)[-1].item()
        assert turned.value == pytest.approx(exact, rel=1e-3)


def test_errors_cover_the_truth_along_training() -> None:
    """Warm or cold, value ± error holds the exact eigenvalue in at least 95 % of the measurements of real runs."""
    inside = total = 0
    for seed in range(3):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 4)).double()
        x = torch.randn(80, 10, dtype=torch.float64)
        y = (x[:, :4] + 0.5 * torch.randn(80, 4, dtype=torch.float64)).argmax(1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
        follow = {kind: Sharpness(kind, tol=1e-2) for kind in ("gn", "kappa_max", "kappa_min")}
        for step in range(60):
            rows = torch.randint(80, (16,))
            optimizer.zero_grad()
            cross_entropy(model(x[rows]), y[rows]).mean().backward()
            optimizer.step()
            if step % 5 == 0:
                hessian = torch.linalg.eigvalsh(dense_hessian(model, x, y, cross_entropy))
                top = torch.linalg.eigvalsh(dense_softmax_gauss_newton(model, x))[-1]
                exact = {"gn": top, "kappa_max": hessian[-1], "kappa_min": hessian[0]}
                for kind, sharpness in follow.items():
                    found = sharpness.measure(model, x, y)
                    inside += abs(found.value - exact[kind].item()) <= found.error + 1e-9
                    total += 1
    assert total == 108
    assert inside / total >= 0.95


def test_preconditioned_sharpness_of_adamw() -> None:
    model, x, y = problem("mlp", n=12)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(5):
        optimizer.zero_grad()
        cross_entropy(model(x), y).mean().backward()
        optimizer.step()
    follow = Sharpness("kappa_max", tol=1e-9, precondition=lambda m: adam_diagonal(optimizer, m))
    diagonal = adam_diagonal(optimizer, model)
    exact = torch.linalg.eigvals(dense_hessian(model, x, y, cross_entropy) / diagonal[:, None]).real.max().item()
    assert follow.measure(model, x, y).value == pytest.approx(exact, rel=1e-6)
    with pytest.raises(OptionError, match="Expected kind gn"):
        Sharpness("gn", precondition=lambda m: diagonal)


@pytest.mark.parametrize("network", ["mlp", "batchnorm"])
def test_bracket_is_the_rayleigh_quotient_on_other_examples(network: str) -> None:
    model, x, y = problem(network, n=20)
    found = gauss_newton_top_eigenvalue(model, x[:12], y[:12], tol=1e-10, held_out=(x[12:], y[12:]))
    model.eval()
    inside, outside = (dense_gauss_newton(model, *part, cross_entropy) for part in ((x[:12], y[:12]), (x[12:], y[12:])))
    v = torch.linalg.eigh(inside).eigenvectors[:, -1]
    rayleigh = (v @ outside @ v).item()
    assert found.bracket == pytest.approx((found.value, rayleigh, math.sqrt(found.value * rayleigh)), rel=1e-5)
    assert math.isnan(gauss_newton_top_eigenvalue(model, x, y).bracket[2])


@pytest.mark.parametrize(
    ("value", "held_out", "middle"), [(4.0, 1.0, 2.0), (-4.0, -1.0, -2.0), (-4.0, 1.0, math.nan), (4.0, None, math.nan)]
)
def test_the_middle_of_a_bracket_has_the_sign_of_its_ends(value: float, held_out: float | None, middle: float) -> None:
    found = Measurement(value, 0.0, 0.0, 1, False, 8, held_out)
    assert found.bracket[2] == pytest.approx(middle, nan_ok=True)


def test_logit_space_form_has_the_eigenvalues_of_the_gauss_newton_matrix() -> None:
    model, x, y = problem("frozen", n=9)
    for loss in (cross_entropy, mse):
        gram = LogitGram(model, x, y, loss=loss)
        exact = torch.linalg.eigvalsh(dense_gauss_newton(model, x, y, loss))
        torch.testing.assert_close(torch.linalg.eigvalsh(gram.dense())[-15:], exact[-15:])


def test_only_plain_perceptrons_take_the_logit_space_form() -> None:
    assert [name for name in NETWORKS if is_perceptron(problem(name)[0])] == ["mlp", "relu", "frozen"]
    assert not is_perceptron(nn.Sequential(shared := nn.Linear(3, 3), nn.Tanh(), shared))
    assert not is_perceptron(nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
    hooked = nn.Sequential(nn.Linear(3, 3))
    hooked[0].register_forward_hook(lambda module, args, out: out * 2)
    assert not is_perceptron(hooked)
    model, x, y = problem("tied")
    with pytest.raises(InputError, match="Use GaussNewton"):
        LogitGram(model, x, y)


@pytest.mark.parametrize("network", DENSE)
def test_jacobian_norms_are_the_operator_norms(network: str) -> None:
    model, x, _ = problem(network)
    norms = jacobian_norms(model, x, chunk=3)
    grams = jacobian_grams(model, x)
    model.eval()
    jacobian = dense_jacobian(model, x)
    torch.testing.assert_close(norms, torch.linalg.matrix_norm(jacobian, ord=2))
    torch.testing.assert_close(grams, jacobian @ jacobian.mT)


def test_batch_sharpness_of_the_test_vector() -> None:
    ratios = [
        rayleigh_quotient(torch.diag(torch.tensor(h, dtype=torch.float64)), torch.tensor(g, dtype=torch.float64))
        for h, g in (((1.0, 10.0), (1.0, 10.0)), ((2.0, 4.0), (2.0, 4.0)))
    ]
    assert ratios == pytest.approx([9.910891, 3.6], abs=1e-6)
    assert mean_quotient(ratios).value == pytest.approx(6.755446, abs=1e-6)  # the ratio of means would be 8.867769
    assert mean_quotient(ratios[:1]).error == math.inf


@pytest.mark.parametrize("network", ["batchnorm", "mlp", "relu", "frozen", "tied"])
def test_batch_sharpness_equals_the_dense_one_and_stops_in_time(network: str) -> None:
    model, x, y = problem(network, n=40)
    batches = [(x[i : i + 4], y[i : i + 4]) for i in range(0, 40, 4)]
    found = batch_sharpness(model, batches)
    model.eval()
    ratios = []
    for batch in batches:
        g, h = dense_gradient(model, *batch, cross_entropy), dense_hessian(model, *batch, cross_entropy)
        ratios.append((g @ h @ g / (g @ g)).item())
    exact = torch.tensor(ratios, dtype=torch.float64)
    assert found.value == pytest.approx(exact.mean().item())
    assert found.error == pytest.approx(exact.std().item() / math.sqrt(10))
    assert batch_sharpness(model, batches, relative_error=10.0, min_batches=3).n_batches == 3
    with pytest.raises(InputError, match="at least one batch with a gradient"):
        batch_sharpness(model, [])


def test_batch_sharpness_error_is_honest() -> None:
    """Two standard errors hold the mean over all batches in about 95 % of samples of them."""
    model, x, y = problem("mlp", n=600)
    ratios = torch.tensor([batch_sharpness(model, [b]).value for b in zip(x.split(4), y.split(4), strict=True)])
    generator = torch.Generator().manual_seed(0)
    inside = 0
    for _ in range(400):
        sample = mean_quotient(ratios[torch.randint(len(ratios), (30,), generator=generator)].tolist())
        inside += abs(sample.value - ratios.mean().item()) <= 2.05 * sample.error
    assert inside >= 0.92 * 400


def test_path_from_weights_to_perturbed_weights() -> None:
    model, x, y = problem("batchnorm", n=12)
    before = [p.clone() for p in model.parameters()]
    ts = torch.tensor([0.0, 0.3, 1.0])
    path = ascent_path(model, x, y, rho=0.4, ts=ts, tol=1e-8)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    model.eval()
    g = dense_gradient(model, x, y, cross_entropy)
    u = g / g.norm()
    assert path.gradient_norm == pytest.approx(g.norm().item())
    assert path.bound == pytest.approx(-g.norm().item() / 0.4)
    for i, t in enumerate(ts.tolist()):
        with perturbed(model, t * 0.4 * u):
            h = dense_hessian(model, x, y, cross_entropy)
            assert path.loss[i].item() == pytest.approx(cross_entropy(model(x), y).mean().item())
        assert path.kappa_min[i].item() == pytest.approx(torch.linalg.eigvalsh(h)[0].item(), rel=1e-5)
        assert path.along[i].item() == pytest.approx((u @ h @ u).item())
    with pytest.raises(InputError, match="Expected rho > 0"):
        ascent_path(model, x, y, rho=0.0)


def test_weights_come_back_when_the_body_raises() -> None:
    model, _, _ = problem("mlp")
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(ZeroDivisionError), perturbed(model, torch.ones(43)):
        raise ZeroDivisionError
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_top_eigenbasis_spans_the_top_space_warm_and_cold() -> None:
    model, x, y = problem("tied", n=15)
    u = None
    for _ in range(3):
        u = hessian_top_eigenpairs(model, x, y, k=3, tol=1e-9, start=u).vectors
        model.eval()
        exact = torch.linalg.eigh(dense_hessian(model, x, y, cross_entropy)).eigenvectors[:, -3:]
        model.train()
        torch.testing.assert_close(u @ u.T, exact @ exact.T, rtol=0, atol=1e-4)
        torch.testing.assert_close(u.T @ u, torch.eye(3).double(), rtol=0, atol=1e-9)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(0.99)
    gradient = Hessian(model, x, y).gradient
    share = alignment(gradient, u)
    assert share == pytest.approx(((u.T @ gradient).norm() / gradient.norm()).item() ** 2)
    assert 0 <= share <= 1


def test_a_saturated_model_has_no_sharpness_and_a_diverged_one_is_an_error() -> None:
    model = nn.Linear(2, 2)
    x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1e4, 0.0], [-1e4, 0.0]]))
    for kind in ("gn", "kappa_max", "kappa_min"):
        assert Sharpness(kind).measure(model, x, y).value == 0.0
    with torch.no_grad():
        model.weight.fill_(math.nan)
    with pytest.raises(InputError, match="Expected a finite gradient"):
        Sharpness("kappa_max").measure(model, x, y)


def test_activations_that_work_in_place_are_fine() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 3)).double()
    _, x, y = problem("relu")
    exact = torch.linalg.eigvalsh(dense_softmax_gauss_newton(model, x))[-1].item()
    assert gauss_newton_top_eigenvalue(model, x, y, tol=1e-9).value == pytest.approx(exact)


def test_thresholds_check_their_arguments() -> None:
    with pytest.raises(OptionError, match="Expected lr > 0"):
        gd_threshold(0.0)
    with pytest.raises(OptionError, match=r"momentum in \[0, 1\)"):
        batch_thresholds(0.1, momentum=1.0)
