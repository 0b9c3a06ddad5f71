"""Perceptrons with wide inputs: search among few input directions, then check against the whole matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from surefoot.curvature.chain import is_chain, modules_of
from surefoot.curvature.gauss_newton import GaussNewton
from surefoot.curvature.hessian import Hessian
from surefoot.curvature.lanczos import Krylov, assess
from surefoot.curvature.objective import LossFunction, still
from surefoot.errors import InputError
from surefoot.seeding import generator

WIDTH = 96  # input directions to begin with
WIDEST = 256  # beyond it, start again from the first ones
ADDED = 64  # directions that a failed check adds
KEPT = 3  # Ritz vectors that the next search starts from: the next top eigenvector is likely among them
MIXED = 0.3  # share of each further vector in a start
FLOOR = 7  # narrow products before an estimate is believed
MOST = 40  # narrow products in one search
ROUNDS = 3  # checks before giving up
GAP = 0.5  # θ − κ in units of θ, with κ the curvature outside the basis
STRICTER = 4.0  # the narrow search must be better than the tolerance by this


@dataclass(frozen=True)
class Narrowly:
    """What a narrow search found, and how it stands in the whole space.

    Attributes:
        value: A Rayleigh quotient of the whole matrix: never above its top eigenvalue.
        error: Estimate of the distance: that of the narrow search, and what the directions outside could add.
        residual: r = ‖A v − value · v‖ in the whole space.
        vector: v, a unit vector of the whole space.
        n_products: Products with the whole matrix.
        n_narrow: Products with the narrow one, each at a fraction of the price.
    """

    value: float
    error: float
    residual: float
    vector: Tensor
    n_products: int
    n_narrow: int


def is_wide(model: nn.Module, inputs: Tensor) -> bool:
    """Say whether a narrow search pays: a chain with a trainable first layer that sees many directions of many rows.

    Args:
        model: Any module.
        inputs: Shape ``(n, *shape)``.

    Returns:
        Whether :class:`NarrowSearch` can take it.
    """
    if not is_chain(model):
        return False
    first = next(module for module in modules_of(model) if isinstance(module, nn.Linear))
    return first.weight.requires_grad and first.in_features >= 4 * WIDTH and len(inputs) >= 4 * WIDTH


class _NarrowChain(nn.Module):
    """The chain with first weights W₁ + U Pᵀ, of which only U moves; takes rows [Pᵀx, W₁x − W₁PPᵀx]."""

    def __init__(self, first: nn.Linear, after: list[nn.Module], basis: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(first.weight.detach() @ basis)
        self.bias = first.bias
        self.after = nn.Sequential(*after)

    def forward(self, rows: Tensor) -> Tensor:
        width = self.weight.shape[1]
        out: Tensor = self.after(linear(rows[:, :width], self.weight, self.bias) + rows[:, width:])
        return out


class NarrowSearch:
    r"""Top eigenvalue of a perceptron's Gauss–Newton matrix or Hessian, mostly by narrow products.

    The first layer's part of an eigenvector is :math:`\sum_i \delta_i x_i^\top`, so its rows lie among the leading
    directions of the inputs. With P an orthonormal basis of some of them, the matrix restricted to directions
    :math:`UP^\top` in the first layer is that of a network with few inputs, and a product costs a fraction. What the
    restriction leaves out shows in one product with the whole matrix, as the part s of Av outside. It lifts the top
    eigenvalue above θ by about ‖s‖²/(θ − κ), with κ the curvature outside (Kato and Temple), which is small because
    the leading directions are inside; κ ≤ θ/2 is taken for granted. Where that lift is too much for the tolerance,
    the directions of s join P.

    Args:
        model: A chain that :func:`is_wide` accepts.
        inputs: The probe, shape ``(n, *shape)``.

    Attributes:
        basis: P. Its first columns are the inputs' leading directions.
        kept: The last Ritz vectors in narrow coordinates, best first; None before the first search.
    """

    def __init__(self, model: nn.Module, inputs: Tensor) -> None:
        self._entering = _split(model, inputs)[1]
        self.basis = _leading(self._entering)
        self.kept: Tensor | None = None
        self._projected = self._entering @ self.basis

    def find(
        self, model: nn.Module, labels: Tensor, *, gauss_newton: bool, loss: LossFunction, tol: float
    ) -> Narrowly | None:
        """Search, check, and widen until the check is passed.

        Args:
            model: The chain, with its weights of now.
            labels: Shape ``(n,)``.
            gauss_newton: Whose eigenvalue: the Gauss–Newton matrix's, or the Hessian's.
            loss: One value per example, or ``LossTerms``.
            tol: Relative error to reach.

        Returns:
            What was found; None where the tolerance was not reached, or there is no gradient to start from.
        """
        first, _, after = _split(model, self._entering[:0])
        hidden = linear(self._entering, first.weight.detach())
        n_narrow = 0
        for n_products in range(1, ROUNDS + 1):
            narrow = _NarrowChain(first, after, self.basis).train(model.training)
            offset = hidden - linear(self._projected, narrow.weight.detach())
            rows = torch.cat([self._projected, offset], dim=1).requires_grad_()
            operator, gradient = _operator(narrow, rows, labels, loss, gauss_newton)
            space = Krylov(operator, self._start(gradient), MOST)
            if not _settle(space, tol / STRICTER):
                return None
            n_narrow += space.size
            found, outside = self._check(space, operator, rows)
            if found.error <= tol * abs(found.value):
                return replace(found, n_products=n_products, n_narrow=n_narrow)
            self._widen(outside)
        return None

    def _start(self, gradient: Tensor) -> Tensor:
        """Add up the last Ritz vectors and the gradient: Lanczos takes them apart again."""
        start: Tensor = gradient / gradient.norm().clamp_min(torch.finfo(gradient.dtype).tiny)
        if self.kept is None or len(self.kept) != len(gradient):
            return start
        mixed: Tensor = self.kept[:, 0] + MIXED * (self.kept[:, 1:].sum(1) + start)
        return mixed

    def _check(self, space: Krylov, operator: GaussNewton | Hessian, rows: Tensor) -> tuple[Narrowly, Tensor]:
        """Put the best Ritz pair before the whole matrix; also give the first layer's image outside the basis."""
        _, coordinates = space.ritz()
        self.kept = space.vectors(coordinates[:, -KEPT:].flip(1))
        theta, _, inner, errors = assess(space, 1, "top")
        v = self.kept[:, 0]
        width = self.basis.shape[1]
        deltas = operator.at_inputs(v, rows)[:, width:]
        image = deltas.T @ self._entering
        outside = image - (image @ self.basis) @ self.basis.T
        missed = outside.double().square().sum().cpu()
        residual = (inner.square() + missed).sqrt()
        error = torch.minimum(errors + missed / (GAP * theta.abs()), residual)
        inside, rest = v[: deltas.shape[1] * width].view(-1, width), v[deltas.shape[1] * width :]
        vector = torch.cat([(inside @ self.basis.T).reshape(-1), rest])
        return Narrowly(theta[0].item(), error[0].item(), residual[0].item(), vector, 0, 0), outside

    def _widen(self, outside: Tensor) -> None:
        """Take the strongest directions of what was left out into the basis; with too many, begin again."""
        old = self.basis.shape[1]
        keep = old if old + ADDED <= WIDEST else WIDTH
        directions = torch.linalg.svd(outside, full_matrices=False).Vh[:ADDED].T
        directions = directions - self.basis[:, :keep] @ (self.basis[:, :keep].T @ directions)
        added = torch.linalg.qr(directions).Q
        if self.kept is not None:
            self.kept = _recut(self.kept, len(outside), old, keep, added.shape[1])
        self.basis = torch.cat([self.basis[:, :keep], added], dim=1)
        self._projected = torch.cat([self._projected[:, :keep], self._entering @ added], dim=1)

    def state_dict(self) -> dict[str, Tensor | None]:
        """Give basis and vectors."""
        return {"basis": self.basis, "kept": self.kept}

    def load_state_dict(self, state: dict[str, Tensor | None]) -> None:
        """Take up what :meth:`state_dict` gave."""
        basis = state["basis"]
        if basis is not None:
            self.basis, self.kept = basis.to(self._entering), state["kept"]
            self._projected = self._entering @ self.basis


def _recut(kept: Tensor, fan_out: int, old: int, keep: int, added: int) -> Tensor:
    """Write narrow vectors in a basis that keeps the first directions and has new ones behind them."""
    inside, rest = kept[: fan_out * old].view(fan_out, old, -1), kept[fan_out * old :]
    fresh = inside.new_zeros(fan_out, added, inside.shape[2])
    return torch.cat([torch.cat([inside[:, :keep], fresh], dim=1).reshape(-1, inside.shape[2]), rest])


def _settle(space: Krylov, tol: float) -> bool:
    """Grow the space until the top value's estimate is within the tolerance, and say whether it came to that."""
    while space.grow():
        theta, _, _, errors = assess(space, 1, "top")
        if space.size >= FLOOR and bool(errors[0] <= tol * theta[0].abs()):
            return True
    return False


def _operator(
    model: nn.Module, rows: Tensor, labels: Tensor, loss: LossFunction, gauss_newton: bool
) -> tuple[GaussNewton | Hessian, Tensor]:
    """Give the matrix of the narrow network and the gradient's direction."""
    if not gauss_newton:
        hessian = Hessian(model, rows, labels, loss=loss)
        return hessian, hessian.gradient
    matrix = GaussNewton(model, rows, labels, loss=loss, form="reverse", gradient=1.0)
    return matrix, rows.new_zeros(matrix.shape[0]) if matrix.pulled is None else matrix.pulled


def _split(model: nn.Module, inputs: Tensor) -> tuple[nn.Linear, Tensor, list[nn.Module]]:
    """Take a chain apart: its first linear layer, what enters there, and what follows."""
    modules = list(modules_of(model))
    at = next(i for i, module in enumerate(modules) if isinstance(module, nn.Linear))
    first = modules[at]
    if not isinstance(first, nn.Linear):
        raise InputError("Expected a chain with a linear layer, but got none. Ask is_wide first.")
    with still(model), torch.no_grad():
        entering = inputs
        for module in modules[:at]:
            entering = module(entering)
    return first, entering, modules[at + 1 :]


def _leading(entering: Tensor) -> Tensor:
    """Find the inputs' leading directions, roughly: two rounds of subspace iteration from a fixed draw."""
    draw = torch.randn(entering.shape[1], WIDTH, generator=generator(0, "narrow"), dtype=torch.float64)
    basis = draw.to(entering)
    for _ in range(2):
        basis = torch.linalg.qr(entering.T @ (entering @ basis)).Q
    return basis
