"""Products against curvlinops, where it is installed: it wants torchvision, so it is not part of any extra."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from surefoot.curvature.gauss_newton import GaussNewton
from surefoot.curvature.hessian import Hessian
from tests.curvature.problems import problem

curvlinops = pytest.importorskip("curvlinops", reason="curvlinops is not installed; see docs/curvature.md")


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # of curvlinops' own dependencies
@pytest.mark.parametrize("network", ["mlp", "batchnorm", "conv"])
def test_products_equal_those_of_curvlinops(network: str) -> None:
    model, x, y = problem(network)
    model.eval()
    v = torch.randn(Hessian(model, x, y).shape[0], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data, params = [(x, y)], list(model.parameters())
    peer = curvlinops.HessianLinearOperator(model, nn.CrossEntropyLoss(), params, data) @ v
    torch.testing.assert_close(Hessian(model, x, y) @ v, peer)
    peer = curvlinops.GGNLinearOperator(model, nn.CrossEntropyLoss(), params, data) @ v
    torch.testing.assert_close(GaussNewton(model, x, y) @ v, peer)
