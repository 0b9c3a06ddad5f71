from __future__ import annotations

import pytest
import torch
from torch import nn

from surefoot.curvature.gauss_newton import GaussNewton, fastest_form
from surefoot.curvature.hessian import Hessian
from surefoot.curvature.objective import cross_entropy, mse
from surefoot.curvature.operator import Dense, Operator, as_operator
from surefoot.curvature.preconditioned import Preconditioned, adam_diagonal
from surefoot.errors import InputError, OptionError
from surefoot.schema import LossTerms
from tests.curvature.problems import NETWORKS, problem
from tests.oracles.dense_curvature import dense_gauss_newton, dense_gradient, dense_hessian, difference_hessian


def focal(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    log_py = logits.log_softmax(-1).gather(-1, labels[:, None])[:, 0]
    return -((1 - log_py.exp()) ** 2) * log_py


LOSSES = {"ce": cross_entropy, "mse": mse, "focal": focal}
OPERATORS = {"hessian": (Hessian, dense_hessian), "gauss_newton": (GaussNewton, dense_gauss_newton)}


@pytest.mark.parametrize("chunk", [None, 3])
@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("network", NETWORKS)
def test_equals_the_dense_matrix(network: str, loss: str, kind: str, chunk: int | None) -> None:
    if network == "attention" and (loss, chunk) not in {("ce", None), ("mse", 3)}:
        pytest.skip("two of its six cases: its dense matrices take seconds")
    model, x, y = problem(network)
    make, oracle = OPERATORS[kind]
    layer_norm = network == "attention" and kind == "hessian"
    oracle, exact = (difference_hessian, 1e-8) if layer_norm else (oracle, 1e-11)
    operator: Operator = make(model, x, y, loss=LOSSES[loss], chunk=chunk, cache=chunk is None)
    matrix = operator.dense()
    assert all(module.training for module in model.modules())  # the modes came back
    model.eval()
    torch.backends.mha.set_fastpath_enabled(False)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = oracle(model, x, y, LOSSES[loss])
    torch.backends.mha.set_fastpath_enabled(True)
    torch.testing.assert_close(matrix, expected, rtol=100 * exact, atol=exact)
    torch.testing.assert_close(matrix, matrix.T, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("network", NETWORKS)
def test_both_forms_of_the_gauss_newton_product_agree(network: str) -> None:
    model, x, y = problem(network)
    v = torch.randn(GaussNewton(model, x, y).shape[0], dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    reverse = GaussNewton(model, x, y, form="reverse") @ v
    torch.testing.assert_close(GaussNewton(model, x, y, form="forward") @ v, reverse, rtol=1e-10, atol=1e-13)


def test_hessian_brings_loss_and_gradient() -> None:
    model, x, y = problem("batchnorm")
    operator = Hessian(model, x, y, chunk=2)
    model.eval()
    torch.testing.assert_close(operator.gradient, dense_gradient(model, x, y, cross_entropy))
    assert operator.loss == pytest.approx(cross_entropy(model(x), y).mean().item())


def test_measuring_leaves_the_model_alone() -> None:
    model, x, y = problem("batchnorm")
    model[0].eval()  # a mixed state must come back as it was
    before = {key: value.clone() for key, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    rng = torch.get_rng_state()
    for make, _ in OPERATORS.values():
        operator = make(model, x, y)
        operator @ torch.ones(operator.shape[0], dtype=torch.float64)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(rng, torch.get_rng_state())


def test_modes_come_back_when_the_model_raises() -> None:
    model, x, y = problem("mlp")
    with pytest.raises(RuntimeError):
        Hessian(model, x[:, :2], y)
    assert model.training


def test_a_stale_graph_is_an_error_not_a_wrong_number() -> None:
    model, x, y = problem("mlp")
    operator = Hessian(model, x, y)
    with torch.no_grad():
        model[0].weight.add_(1.0)
        model[2].weight.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        operator @ torch.ones(operator.shape[0], dtype=torch.float64)


def test_the_pulled_vector_is_the_transposed_jacobian() -> None:
    model, x, y = problem("mlp")
    v = torch.linspace(-1, 1, 43, dtype=torch.float64)
    first = GaussNewton(model, x, y)
    product = first @ v
    for form in ("reverse", "forward"):
        again = GaussNewton(model, x, y, cotangent=first.pushed, form=form, chunk=3)
        torch.testing.assert_close(again.pulled, product)  # Jᵀ (H_z J v / n)


def test_penalties_need_all_rows_in_one_chunk() -> None:
    model, x, y = problem("mlp")

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> LossTerms:
        return LossTerms(cross_entropy(logits, labels), penalty=logits.mean().square())

    model.eval()

    def oracle_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return cross_entropy(logits, labels) + logits.mean().square()

    expected = dense_hessian(model, x, y, oracle_loss)
    torch.testing.assert_close(Hessian(model, x, y, loss=loss).dense(), expected)
    with pytest.raises(InputError, match="Expected all 7 examples in one chunk"):
        Hessian(model, x, y, loss=loss, chunk=3)


def test_preconditioned_hessian_of_adamw() -> None:
    model, x, y = problem("frozen")
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1, betas=(0.9, 0.99))
    with pytest.raises(InputError, match=r"Expected a second moment for '0\.bias'"):
        adam_diagonal(optimizer, model)
    for _ in range(3):
        optimizer.zero_grad()
        cross_entropy(model(x), y).mean().backward()
        optimizer.step()
    diagonal = adam_diagonal(optimizer, model)
    nu = torch.cat([optimizer.state[p]["exp_avg_sq"].reshape(-1) for p in model.parameters() if p.requires_grad])
    expected = (1 - 0.9**3) * ((nu / (1 - 0.99**3)).sqrt() + 1e-8)
    torch.testing.assert_close(diagonal, expected)
    model.eval()
    hessian = dense_hessian(model, x, y, cross_entropy)
    scale = expected.rsqrt()
    torch.testing.assert_close(
        Preconditioned(Hessian(model, x, y), diagonal).dense(), scale[:, None] * hessian * scale, rtol=1e-8, atol=1e-8
    )


def test_products_are_counted_and_shapes_checked() -> None:
    operator = as_operator(torch.eye(3))
    operator @ torch.ones(3, 2)
    operator @ torch.ones(3)
    assert operator.n_products == 3
    assert (operator.shape, operator.dtype, operator.device.type) == ((3, 3), torch.float32, "cpu")
    with pytest.raises(InputError, match=r"Expected a vector \(3,\)"):
        operator @ torch.ones(4)
    with pytest.raises(InputError, match="Expected a symmetric matrix"):
        Dense(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    with pytest.raises(InputError, match="Expected a square matrix"):
        Dense(torch.ones(2, 3))


def test_wrong_arguments_are_named() -> None:
    model, x, y = problem("mlp")
    with pytest.raises(OptionError, match="Expected form reverse, forward or auto, but got 'sideways'"):
        GaussNewton(model, x, y, form="sideways")
    with pytest.raises(InputError, match="Expected one loss per example"):
        Hessian(model, x, y, loss=nn.CrossEntropyLoss())
    with pytest.raises(InputError, match="Expected as many inputs as labels"):
        Hessian(model, x, y[:2])
    with pytest.raises(InputError, match="at least one row, but got chunk=0"):
        Hessian(model, x, y, chunk=0)
    with pytest.raises(InputError, match="all are frozen"):
        Hessian(model.requires_grad_(False), x, y)
    with pytest.raises(InputError, match="Expected a positive diagonal"):
        Preconditioned(torch.eye(2), torch.tensor([1.0, 0.0]))


def test_the_form_is_timed_once_per_model() -> None:
    model, x, y = problem("conv")
    assert fastest_form(model, x, y) == fastest_form(model, x, y)
    assert GaussNewton(model, x, y).form == fastest_form(model, x, y)
