"""Lanczos: the ends of a spectrum from a few products, with an error estimate for each value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from surefoot.curvature.operator import Operator, as_operator
from surefoot.errors import InputError, OptionError

End = Literal["top", "bottom", "both"]


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues at one end or both ends, their vectors, and how far to trust them.

    Attributes:
        values: Descending for the top end, ascending for the bottom; ``both`` lists the top ones first.
        vectors: Columns of unit length, shape ``(d, k)``.
        residuals: ‖A v − θ v‖ of each pair. A true eigenvalue lies within it of θ, always.
        errors: Estimated |θ − λ| of each value: min(residual, residual² / gap), where gap is the distance to the
            nearest value outside a cluster of its own size. An estimate, not a bound: see ``docs/curvature.md``.
        n_products: Products spent.
        converged: Whether every error is within the tolerance.
    """

    values: Tensor
    vectors: Tensor
    residuals: Tensor
    errors: Tensor
    n_products: int
    converged: bool


class Krylov:
    """An orthonormal basis grown by products, and the matrix in that basis. Full re-orthogonalisation, twice.

    The matrix in the basis is measured (``basisᵀ A basis``) and not assumed tridiagonal, so the basis may start with
    more than one vector, and rounding shows in the residuals.
    """

    def __init__(self, operator: Operator, start: Tensor, capacity: int) -> None:
        self.operator = operator
        self.capacity = min(capacity, operator.shape[0])
        self.size = 0
        self._used = 0  # basis vectors whose image has been taken as a direction
        self.basis, self.images = self._rows(0), self._rows(0)
        self.small = torch.zeros(self.capacity, self.capacity, dtype=torch.float64)
        self._pending: list[Tensor] = []
        self.add(start)

    def add(self, start: Tensor) -> None:
        """Queue directions, ``(d,)`` or ``(d, j)``, that the space is to contain next."""
        self._pending += list((start if start.ndim == 2 else start[:, None]).T)

    def _rows(self, n: int) -> Tensor:
        return torch.empty(n, self.operator.shape[0], dtype=self.operator.dtype, device=self.operator.device)

    def _make_room(self) -> None:
        """Double the buffers when they are full, so that memory follows the products actually made."""
        if self.size == len(self.basis):
            more = min(max(8, self.size), self.capacity - self.size)
            self.basis = torch.cat([self.basis, self._rows(more)])
            self.images = torch.cat([self.images, self._rows(more)])

    def _next_direction(self) -> Tensor | None:
        """The next queued vector, else the image of the first basis vector not used yet, orthogonal to the basis."""
        while self._pending or self._used < self.size:
            if self._pending:
                w = self._pending.pop(0).to(self.basis)
            else:
                w = self.images[self._used]
                self._used += 1
            scale = w.norm()
            basis = self.basis[: self.size]
            for _ in range(2):
                w = w - basis.T @ (basis @ w)
            norm = w.norm()
            if bool(norm > 50 * torch.finfo(w.dtype).eps * scale) and bool(torch.isfinite(norm)):
                unit: Tensor = w / norm
                return unit
        return None

    def grow(self) -> bool:
        """Add a direction and its product; False when the space is invariant or full."""
        if self.size == self.capacity:
            return False
        direction = self._next_direction()
        if direction is None:
            return False
        self._make_room()
        self.basis[self.size] = direction
        self.images[self.size] = self.operator @ direction
        self.size += 1
        column = (self.basis[: self.size] @ self.images[self.size - 1]).double().cpu()
        self.small[: self.size, self.size - 1] = self.small[self.size - 1, : self.size] = column
        return True

    def ritz(self) -> tuple[Tensor, Tensor]:
        """Ritz values, ascending, and their coordinates in the basis, in float64."""
        values, coordinates = torch.linalg.eigh(self.small[: self.size, : self.size])
        return values, coordinates

    def residuals(self, values: Tensor, coordinates: Tensor) -> Tensor:
        """‖A v − θ v‖ for the given Ritz pairs (columns of coordinates)."""
        c = coordinates.to(self.basis)
        moved = self.images[: self.size].T @ c - self.basis[: self.size].T @ (c * values.to(c))
        lengths: Tensor = moved.norm(dim=0).double().cpu()
        return lengths

    def scale(self, theta: Tensor, end: End) -> Tensor:
        """What errors are relative to: |θ|, or 1 % of the largest |θ| seen where the bottom end may be near zero."""
        if end == "top":
            return theta.abs()
        return theta.abs().clamp_min(1e-2 * self.ritz()[0].abs().max().item())

    def vectors(self, coordinates: Tensor) -> Tensor:
        """Ritz vectors of the given coordinates, shape ``(d, k)``."""
        return self.basis[: self.size].T @ coordinates.to(self.basis)


def _wanted(n: int, k: int, end: End) -> Tensor:
    """Positions, in ascending order of the values, of the k wanted ones at either end."""
    k = min(k, n)
    top = torch.arange(n - 1, n - 1 - k, -1)
    bottom = torch.arange(k)
    return {"top": top, "bottom": bottom, "both": torch.cat([top, bottom])}[end]


def error_estimates(values: Tensor, wanted: Tensor, residuals: Tensor) -> Tensor:
    """Estimate |θ − λ| of the wanted Ritz values by min(r, r² / gap).

    The gap is that to the nearest other Ritz value farther away than the pair's own residual: values closer than
    that are one cluster, and mixing inside it changes θ by no more than the cluster's width.

    Args:
        values: All Ritz values, ascending.
        wanted: Positions of the wanted ones.
        residuals: Their residuals.

    Returns:
        One estimate each.
    """
    distance = (values[wanted][:, None] - values[None, :]).abs()
    distance[distance <= residuals[:, None]] = math.inf
    gap = distance.min(dim=1).values
    return torch.where(gap.isinf(), residuals, torch.minimum(residuals, residuals.square() / gap))


def lanczos(
    matrix: Tensor | Operator,
    k: int = 1,
    *,
    end: End = "top",
    tol: float = 1e-3,
    start: Tensor | None = None,
    generator: torch.Generator | None = None,
    max_products: int = 200,
    min_products: int = 1,
) -> Eigenpairs:
    """Find the k algebraically largest or smallest eigenvalues, or both ends, with full re-orthogonalisation.

    Args:
        matrix: Symmetric tensor or operator.
        k: How many at each wanted end.
        end: ``top``, ``bottom`` or ``both``. Algebraic, not by magnitude.
        tol: Relative error at which to stop, by the estimate in :class:`Eigenpairs`. Relative to the value's own
            magnitude; for ``bottom`` and ``both`` to that of the largest |θ| seen, times 1e-2, where that is more.
        start: First vector ``(d,)`` or several ``(d, j)``; by default drawn from the generator.
        generator: Needed without ``start``.
        max_products: Stop here in any case.
        min_products: Never stop earlier; a start that is nearly an eigenvector makes early estimates blind.

    Returns:
        Values, vectors, residuals and error estimates.

    Raises:
        InputError: If there is neither a start vector nor a generator, or the start is zero.
        OptionError: If an option is out of range.

    Example:
        >>> found = lanczos(torch.diag(torch.tensor([3.0, 1.0, -5.0])), end="both", start=torch.ones(3))
        >>> [round(value, 6) for value in found.values.tolist()]
        [3.0, -5.0]
    """
    operator = as_operator(matrix)
    d = operator.shape[0]
    if not 1 <= k <= d or end not in ("top", "bottom", "both") or tol <= 0:
        raise OptionError(
            f"Expected 1 ≤ k ≤ {d}, end top, bottom or both, and tol > 0, but got {k}, {end!r} and {tol}. "
            "Try k=1, end='top', tol=1e-3."
        )
    if start is None:
        if generator is None:
            raise InputError("Expected a start vector or a generator, but got neither. Pass generator=….")
        start = torch.randn(d, generator=generator, dtype=torch.float64).to(operator.device, operator.dtype)
    space = Krylov(operator, start, max(max_products, k))
    if not space.grow():
        raise InputError("Expected a start vector that is finite and not zero, but got neither. Draw another.")
    floor = min(d, max(min_products, k + 1))
    while True:
        theta, coordinates, residuals, errors = assess(space, k, end)
        done = space.size >= floor and bool((errors <= tol * space.scale(theta, end)).all())
        if done or space.size >= max_products or not space.grow():
            return Eigenpairs(theta, space.vectors(coordinates), residuals, errors, space.size, done)


def assess(space: Krylov, k: int, end: End) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Read the wanted pairs off the space.

    Args:
        space: The space so far.
        k: How many at each wanted end.
        end: Which end.

    Returns:
        Values, coordinates in the basis, residuals, error estimates.
    """
    values, coordinates = space.ritz()
    wanted = _wanted(space.size, k, end)
    theta, c = values[wanted], coordinates[:, wanted]
    residuals = space.residuals(theta, c)
    return theta, c, residuals, error_estimates(values, wanted, residuals)
