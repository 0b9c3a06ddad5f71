"""Products layer by layer: those of the dense Gauss–Newton matrix and Hessian, also among few input directions."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from surefoot.curvature.chain import layers
from surefoot.curvature.chain_matrix import ChainMatrix
from surefoot.curvature.gauss_newton import GaussNewton
from surefoot.curvature.hessian import Hessian
from surefoot.curvature.objective import LossFunction, cross_entropy, mse
from surefoot.curvature.operator import Operator
from surefoot.schema import LossTerms

CHAINS = {
    "tanh": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)
    ),
    "kinks": lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)),
    "two activations": lambda: nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Sigmoid(), nn.Linear(5, 3)),
    "no activation": lambda: nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3)),
    "no biases": lambda: nn.Sequential(nn.Linear(6, 5, bias=False), nn.SiLU(), nn.Linear(5, 3, bias=False)),
    "one layer": lambda: nn.Sequential(nn.Linear(6, 3)),
}


def focal(logits: Tensor, labels: Tensor) -> LossTerms:
    loss = cross_entropy(logits, labels)
    return LossTerms((1 - (-loss).exp()).square() * loss)


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(12, 6, generator=generator, dtype=torch.float64)
    return x, torch.randint(3, (12,), generator=generator)


def dense(model: nn.Module, loss: LossFunction, gauss_newton: bool) -> Tensor:
    x, y = data()
    whole: Operator = GaussNewton(model, x, y, loss=loss) if gauss_newton else Hessian(model, x, y, loss=loss)
    return whole.dense()


def chain_matrix(model: nn.Module, loss: LossFunction, gauss_newton: bool, basis: Tensor | None = None) -> ChainMatrix:
    x, y = data()
    logits, found = layers(model, x, bends=not gauss_newton)
    if basis is not None:
        found[0] = replace(found[0], inputs=found[0].inputs @ basis)
    return ChainMatrix(found, logits, y, loss=loss, gauss_newton=gauss_newton)


@pytest.mark.parametrize("loss", [cross_entropy, mse, focal])
@pytest.mark.parametrize("gauss_newton", [True, False], ids=["gn", "hessian"])
@pytest.mark.parametrize("name", CHAINS)
def test_it_is_the_matrix_that_autograd_multiplies(name: str, gauss_newton: bool, loss: LossFunction) -> None:
    torch.manual_seed(1)
    model = CHAINS[name]().double()
    ours = chain_matrix(model, loss, gauss_newton)
    torch.testing.assert_close(ours.dense(), dense(model, loss, gauss_newton), rtol=1e-9, atol=1e-12)
    x, y = data()
    torch.testing.assert_close(ours.gradient, Hessian(model, x, y, loss=loss).gradient)


@pytest.mark.parametrize("gauss_newton", [True, False], ids=["gn", "hessian"])
@pytest.mark.parametrize("frozen", ["1.bias", "3.weight", "3.bias", "5.weight"])
def test_frozen_weights_are_left_out(frozen: str, gauss_newton: bool) -> None:
    torch.manual_seed(2)
    model = CHAINS["tanh"]().double()
    model.get_parameter(frozen).requires_grad_(False)
    ours = chain_matrix(model, cross_entropy, gauss_newton).dense()
    torch.testing.assert_close(ours, dense(model, cross_entropy, gauss_newton), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("gauss_newton", [True, False], ids=["gn", "hessian"])
def test_few_input_directions_restrict_the_first_weights(gauss_newton: bool) -> None:
    """With inputs xP the matrix is BᵀAB, where B puts U into the first weights as UPᵀ."""
    torch.manual_seed(3)
    model = CHAINS["tanh"]().double()
    basis = torch.linalg.qr(torch.randn(6, 2, dtype=torch.float64)).Q
    inside = torch.block_diag(*[basis] * 5)
    rest = sum(p.numel() for p in model.parameters()) - len(inside)
    embed = torch.block_diag(inside, torch.eye(rest, dtype=torch.float64))
    restricted = embed.T @ dense(model, cross_entropy, gauss_newton) @ embed
    ours = chain_matrix(model, cross_entropy, gauss_newton, basis)
    torch.testing.assert_close(ours.dense(), restricted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("gauss_newton", [True, False], ids=["gn", "hessian"])
def test_what_arrives_at_the_first_layer_gives_its_part_for_any_directions(gauss_newton: bool) -> None:
    torch.manual_seed(4)
    model = CHAINS["tanh"]().double()
    ours = chain_matrix(model, cross_entropy, gauss_newton)
    v = torch.randn(ours.shape[0], dtype=torch.float64)
    image = ours @ v
    x, _ = data()
    torch.testing.assert_close(ours.delta.T @ x, image[:30].view(5, 6))
