"""The narrow search: the eigenvalue of the whole matrix, an honest error, and nothing lost over a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from surefoot.curvature import narrow
from surefoot.curvature.gauss_newton import GaussNewton
from surefoot.curvature.hessian import Hessian
from surefoot.curvature.lanczos import lanczos
from surefoot.curvature.narrow import NarrowSearch, is_wide
from surefoot.curvature.objective import cross_entropy
from surefoot.curvature.operator import Operator
from surefoot.curvature.sharpness import Sharpness
from surefoot.training.checkpoint import load_checkpoint, save_checkpoint


def wide(seed: int, n: int = 400, fan_in: int = 400, fan_out: int = 12) -> tuple[nn.Module, Tensor, Tensor]:
    """A perceptron, and inputs whose spectrum falls like that of images."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(fan_in, fan_out), nn.Tanh(), nn.Linear(fan_out, 8), nn.Tanh(), nn.Linear(8, 4)
    )
    scales = 3 / torch.arange(1, fan_in + 1, dtype=torch.float64).sqrt()
    x = torch.randn(n, fan_in, generator=generator, dtype=torch.float64) * scales
    y = (x[:, :4] + torch.randn(n, 4, generator=generator, dtype=torch.float64)).argmax(1)
    return model.double(), x.view(n, 20, -1), y


def matrix(kind: str, model: nn.Module, x: Tensor, y: Tensor) -> Operator:
    return GaussNewton(model, x, y, form="reverse") if kind == "gn" else Hessian(model, x, y)


def exact(operator: Operator) -> float:
    generator = torch.Generator().manual_seed(9)
    return lanczos(operator, tol=1e-10, generator=generator, min_products=60).values[0].item()


@pytest.mark.parametrize("kind", ["gn", "kappa_max"])
def test_it_finds_a_rayleigh_quotient_and_the_residual_of_the_whole_matrix(kind: str) -> None:
    model, x, y = wide(0)
    search = NarrowSearch(model, x)
    found = search.find(model, y, gauss_newton=kind == "gn", loss=cross_entropy, tol=1e-3)
    assert found is not None
    operator = matrix(kind, model, x, y)
    image = operator @ found.vector
    assert found.vector.norm().item() == pytest.approx(1.0)
    assert found.value == pytest.approx((found.vector @ image).item())
    rest = image - found.value * found.vector
    assert found.residual == pytest.approx(rest.norm().item(), rel=0.25)
    first = rest[: 12 * 400].view(12, 400)  # its part outside the basis is known by the sketch, all else exactly
    outside = first - first @ search.basis @ search.basis.T
    known = rest.square().sum() - outside.square().sum() + (outside @ search._draw).square().sum()
    assert found.residual == pytest.approx(known.sqrt().item(), rel=1e-6)
    top = exact(operator)
    assert top * (1 - 1e-3) <= found.value <= top * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["gn", "kappa_max"])
def test_errors_cover_the_truth_along_training_and_the_price_is_small(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fresh networks, ten steps between measurements: at most four whole products, and ± error holds the truth."""
    monkeypatch.setattr("surefoot.curvature.sharpness.GRAM_ROWS", 0)
    inside, products, total = 0, [], 0
    for seed in range(3):
        model, x, y = wide(seed)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
        follow = Sharpness(kind)
        for step in range(100):
            rows = torch.randint(len(y), (64,))
            optimizer.zero_grad()
            cross_entropy(model(x[rows]), y[rows]).mean().backward()
            optimizer.step()
            if step % 10 == 9:
                found = follow.measure(model, x, y)
                fine = Sharpness(kind, tol=1e-9, max_products=120).measure(model, x, y)
                inside += abs(found.value - fine.value) <= found.error + 1e-9
                products.append(found.n_products)
                assert found.value == pytest.approx(fine.value, rel=1e-3)
                assert found.n_narrow > 0
                total += 1
    assert total == 30
    assert inside / total >= 0.95
    assert sum(products) / total <= 4


def test_what_is_outside_the_basis_is_known_to_a_tenth_from_a_few_random_directions() -> None:
    """‖δ̇ᵀ(x − PPᵀx)‖² by a sketch of 128 columns: right on average, relative spread at most √(2/128) = 1/8."""
    ratios = []
    for seed in range(40):
        model, x, _ = wide(seed)
        search = NarrowSearch(model, x)
        delta = torch.randn(len(x), 12, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        entering = x.flatten(1)
        exactly = (delta.T @ (entering - entering @ search.basis @ search.basis.T)).square().sum()
        ratios.append(((delta.T @ search._outside).square().sum() / exactly).item())
    found = torch.tensor(ratios)
    assert found.mean().item() == pytest.approx(1.0, abs=0.08)
    assert found.std().item() < 0.125


def test_directions_that_do_not_suffice_are_widened_or_the_whole_space_is_searched() -> None:
    model, _, y = wide(1)
    flat = torch.randn(400, 20, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)  # no leading ones
    search = NarrowSearch(model, flat)
    before = search.basis.shape[1]
    found = search.find(model, y, gauss_newton=False, loss=cross_entropy, tol=1e-3)
    assert search.basis.shape[1] > before
    top = exact(Hessian(model, flat, y))
    assert found is None or found.value == pytest.approx(top, rel=1e-3)
    assert Sharpness("kappa_max").measure(model, flat, y).value == pytest.approx(top, rel=1e-3)


def test_too_many_directions_begin_again_with_the_leading_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow, "WIDEST", narrow.WIDTH + narrow.ADDED)
    model, x, _ = wide(2)
    search = NarrowSearch(model, x)
    leading = search.basis.clone()
    for seed in range(3):
        outside = torch.randn(12, 400, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        search._widen(outside)
        assert torch.equal(search.basis[:, : narrow.WIDTH], leading)
        assert search.basis.shape[1] == narrow.WIDTH + 12
        torch.testing.assert_close(search.basis.T @ search.basis, torch.eye(search.basis.shape[1]).double())


@pytest.mark.parametrize("fan_out", [8, 10, 12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("inputs", ["leading", "flat"])
def test_a_search_goes_on_from_its_saved_state_to_the_same_bits(
    inputs: str, dtype: torch.dtype, fan_out: int, tmp_path: Path
) -> None:
    """From a file: there tensors have another memory layout and begin anywhere, and bits depend on both."""
    model, x, y = wide(3, fan_out=fan_out)
    if inputs == "flat":  # no directions lead, so that the basis is widened again and again
        x = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    model, x = model.to(dtype), x.to(dtype)
    follow = Sharpness("kappa_max")
    follow.measure(model, x, y)
    for visit in range(3):
        save_checkpoint(tmp_path / str(visit), 1, {}, {"odd": torch.zeros(visit + 1), "search": follow.state_dict()})
        loaded = load_checkpoint(tmp_path / str(visit))
        assert loaded is not None
        resumed = Sharpness("kappa_max")
        resumed.load_state_dict(loaded[1]["search"])
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1.02)
        assert resumed.measure(model, x.clone(), y) == follow.measure(model, x, y)


def test_only_wide_perceptrons_are_searched_narrowly() -> None:
    model, x, _ = wide(0)
    assert is_wide(model, x)
    assert not is_wide(model, x[:10])
    assert not is_wide(nn.Sequential(nn.Flatten(), nn.Linear(20, 3)), x)
    assert not is_wide(nn.Conv2d(1, 1, 1), x)
    model[1].weight.requires_grad_(False)
    assert not is_wide(model, x)
