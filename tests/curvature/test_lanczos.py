from __future__ import annotations

import pytest
import torch
from torch import Tensor

from surefoot.curvature.krylov import Krylov, lanczos
from surefoot.curvature.operator import Dense
from surefoot.errors import InputError, OptionError


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def with_spectrum(values: Tensor, seed: int = 0) -> Tensor:
    basis = torch.linalg.qr(torch.randn(len(values), len(values), generator=rng(seed), dtype=torch.float64)).Q
    matrix = basis @ torch.diag(values) @ basis.T
    return (matrix + matrix.T) / 2


SPECTRA = {
    "outliers": torch.cat([torch.tensor([50.0, 30.0, 20.0]), torch.linspace(-2, 1, 97)]).double(),
    "decaying": (10.0 * 0.8 ** torch.arange(100)).double(),
    "degenerate": torch.cat([torch.full((5,), 3.0), torch.full((45,), 1.0)]).double(),
    "indefinite": torch.linspace(-8, 5, 60).double(),
    "semidefinite": torch.cat([torch.tensor([4.0, 2.0]), torch.zeros(40)]).double(),
}


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("end", ["top", "bottom", "both"])
def test_known_spectra(name: str, end: str) -> None:
    matrix = with_spectrum(SPECTRA[name])
    found = lanczos(matrix, end=end, tol=1e-6, generator=rng(), max_products=100)
    exact = SPECTRA[name].sort(descending=True).values
    expected = {"top": exact[:1], "bottom": exact[-1:], "both": exact[[0, -1]]}[end]
    assert found.converged
    torch.testing.assert_close(found.values, expected, rtol=1e-5, atol=1e-6)
    moved = matrix @ found.vectors - found.vectors * found.values
    torch.testing.assert_close(moved.norm(dim=0), found.residuals, rtol=1e-6, atol=1e-9)


def test_top_k_is_sorted_orthonormal_and_algebraic() -> None:
    matrix = with_spectrum(torch.tensor([-100.0, 5.0, 4.0, 3.0, *torch.linspace(0, 1, 40).tolist()]).double())
    found = lanczos(matrix, 3, tol=1e-8, generator=rng(1))
    torch.testing.assert_close(found.values, torch.tensor([5.0, 4.0, 3.0]).double())
    torch.testing.assert_close(found.vectors.T @ found.vectors, torch.eye(3).double(), atol=1e-8, rtol=0)


def test_the_basis_stays_orthogonal_in_float32() -> None:
    """Without re-orthogonalisation ghosts of the top value appear after it has converged."""
    matrix = with_spectrum(SPECTRA["decaying"]).float()
    space = Krylov(Dense(matrix), torch.ones(100), 60)
    while space.grow():
        pass
    basis = space.basis[: space.size]
    assert (basis @ basis.T - torch.eye(space.size)).abs().max() < 1e-5
    assert (space.ritz()[0] > 9).sum() == 1


def test_a_full_space_gives_the_whole_spectrum() -> None:
    matrix = with_spectrum(torch.arange(6).double())
    found = lanczos(matrix, 6, tol=1e-12, generator=rng(), max_products=50)
    torch.testing.assert_close(found.values, torch.arange(5, -1, -1).double(), atol=1e-9, rtol=0)
    assert found.n_products == 6


def test_warm_and_cold_find_the_same_and_warm_is_cheaper() -> None:
    matrix = with_spectrum(SPECTRA["outliers"])
    noise = torch.randn(100, 100, generator=rng(3), dtype=torch.float64) * 0.02
    cold = lanczos(matrix, 2, tol=1e-8, generator=rng(1))
    later = matrix + noise + noise.T
    warm = lanczos(later, 2, tol=1e-8, start=cold.vectors, min_products=4)
    again = lanczos(later, 2, tol=1e-8, generator=rng(2))
    torch.testing.assert_close(warm.values, again.values, rtol=1e-7, atol=0)
    assert warm.n_products < again.n_products


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3])
def test_error_estimates_are_honest(tol: float) -> None:
    """With the safety factor of Sharpness, the truth is inside in at least 95 % of random cases."""
    inside = total = 0
    for seed in range(60):
        values = torch.randn(80, generator=rng(seed), dtype=torch.float64).exp().sort(descending=True).values
        found = lanczos(with_spectrum(values, seed), tol=tol, generator=rng(seed + 1000), min_products=6)
        inside += bool((found.values[0] - values[0]).abs() <= 4 * found.errors[0] + 1e-12)
        total += 1
        assert (found.values[0] - values).abs().min() <= found.residuals[0] + 1e-12  # this one is a theorem
    assert inside / total >= 0.95


def test_lanczos_names_what_is_wrong() -> None:
    with pytest.raises(InputError, match="Expected a start vector or a generator"):
        lanczos(torch.eye(2))
    with pytest.raises(InputError, match="Expected a start vector that is finite and not zero"):
        lanczos(torch.eye(2), start=torch.zeros(2))
    with pytest.raises(OptionError, match="Expected 1 ≤ k ≤ 2"):
        lanczos(torch.eye(2), 3, generator=rng())
