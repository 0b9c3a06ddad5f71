"""Perceptrons with wide inputs: search among few input directions, then check against the whole matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from surefoot.curvature.chain import entering, is_chain, is_trained, layers, modules_of, split
from surefoot.curvature.chain_matrix import ChainMatrix
from surefoot.curvature.lanczos import Krylov, assess
from surefoot.curvature.objective import LossFunction
from surefoot.seeding import generator

WIDTH = 96  # input directions to begin with
WIDEST = 256  # beyond it, the oldest that were added make room; the inputs' leading ones stay
ADDED = 64  # directions that a failed check adds
KEPT = 3  # Ritz vectors that the next search starts from: the next top eigenvector is likely among them
MIXED = 0.1  # share of each further vector in a start
FLOOR = 7  # narrow products before an estimate is believed
MOST = 40  # narrow products in one search
ROUNDS = 3  # checks before giving up
SKETCHED = 128  # random directions that stand for all those outside the basis: a norm to about a tenth
GAP = 0.5  # θ − κ in units of θ, with κ the curvature outside the basis
STRICTER = 2.0  # the narrow search must be better than the tolerance by this


@dataclass(frozen=True)
class Narrowly:
    """What a narrow search found, and how it stands in the whole space.

    Attributes:
        value: A Rayleigh quotient of the whole matrix: never above its top eigenvalue.
        error: Estimate of the distance: that of the narrow search, and what the directions outside could add.
        residual: r = ‖A v − value · v‖ in the whole space; its part outside the basis to about a tenth.
        vector: v, a unit vector of the whole space.
        n_products: Products with the whole matrix: one for each time that the basis had to be widened.
        n_narrow: Products with the narrow one, each at a fraction of the price.
    """

    value: float
    error: float
    residual: float
    vector: Tensor
    n_products: int
    n_narrow: int


def is_wide(model: nn.Module, inputs: Tensor) -> bool:
    """Return whether a narrow search pays: a chain with a trainable first layer that sees many directions of many rows.

    Args:
        model: Any module.
        inputs: Shape ``(n, *shape)``.

    Returns:
        Whether :class:`NarrowSearch` can take it.
    """
    if not is_chain(model):
        return False
    first = next(module for module in modules_of(model) if isinstance(module, nn.Linear))
    return is_trained(first.weight) and first.in_features >= 4 * WIDTH and len(inputs) >= 4 * WIDTH


class NarrowSearch:
    r"""Top eigenvalue of a perceptron's Gauss–Newton matrix or Hessian, mostly by narrow products.

    The first layer's part of an eigenvector is :math:`\sum_i \delta_i x_i^\top`, so its rows lie among the leading
    directions of the inputs. With P an orthonormal basis of some of them, the matrix restricted to directions
    :math:`UP^\top` in the first layer is that of a network with few inputs, and a product costs a fraction. What the
    restriction leaves out is the part s of Av outside. It lifts the top eigenvalue above θ by about ‖s‖²/(θ − κ), with
    κ the curvature outside (Kato and Temple), which is small because the leading directions are inside; κ ≤ θ/2 is
    taken for granted. ‖s‖ needs no product with the whole matrix: the inputs' parts outside are multiplied once by a
    few random directions, and ‖s‖² is the expected square of what v makes of those. Where the lift is too much for the
    tolerance, a whole product finds s, and its directions join P.

    Args:
        model: A chain that :func:`is_wide` accepts.
        inputs: The probe, shape ``(n, *shape)``.

    Attributes:
        basis: P. Its first columns are the inputs' leading directions.
        kept: The last Ritz vectors in narrow coordinates, best first; None before the first search.
    """

    def __init__(self, model: nn.Module, inputs: Tensor) -> None:
        self._entering = entering(model, inputs)
        self.basis = _leading(self._entering)
        self.kept: Tensor | None = None
        self._draw = _gaussian(self._entering, SKETCHED) / SKETCHED**0.5
        self._drawn = self._entering @ self._draw
        self._project()

    def _project(self) -> None:
        """Take the inputs' coordinates in the basis, and from them the sketch of what is outside.

        Always of the whole basis and in one memory layout: the last bits of a product depend on both, and a search
        that goes on from a saved basis must find the same ones.
        """
        self.basis = self.basis.contiguous()
        self._projected = self._entering @ self.basis
        self._outside = self._drawn - self._projected @ (self.basis.T @ self._draw)

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
        logits, found = layers(split(model)[1], self._entering, bends=not gauss_newton)
        n_narrow = 0
        for n_products in range(ROUNDS):
            found[0] = replace(found[0], inputs=self._projected)
            operator = ChainMatrix(found, logits, labels, loss=loss, gauss_newton=gauss_newton)
            space = Krylov(operator, self._start(operator.gradient), MOST)
            deltas = _settle(space, operator, tol / STRICTER)
            if deltas is None:
                return None
            n_narrow += space.size
            best, delta = self._judge(space, deltas)
            if best.error <= tol * abs(best.value):
                return replace(best, n_products=n_products, n_narrow=n_narrow)
            self._widen(delta.T @ self._entering)
        return None

    def _start(self, gradient: Tensor) -> Tensor:
        """Add up the last Ritz vectors and the gradient: Lanczos takes them apart again."""
        start: Tensor = gradient / gradient.norm().clamp_min(torch.finfo(gradient.dtype).tiny)
        if self.kept is None or len(self.kept) != len(gradient):
            return start
        mixed: Tensor = self.kept[:, 0] + MIXED * (self.kept[:, 1:].sum(1) + start)
        return mixed

    def _judge(self, space: Krylov, deltas: list[Tensor]) -> tuple[Narrowly, Tensor]:
        """Judge the best Ritz pair in the whole space; also give δ̇ of the first layer in its product."""
        _, coordinates = space.ritz()
        self.kept = space.vectors(coordinates[:, -KEPT:].flip(1)).contiguous()
        theta, c, inner, errors = assess(space, 1, "top")
        delta = torch.zeros_like(deltas[0])
        for share, of_product in zip(c[:, 0].tolist(), deltas, strict=True):
            delta.add_(of_product, alpha=share)
        missed = (delta.T @ self._outside).double().square().sum().cpu()
        residual = (inner.square() + missed).sqrt()
        error = torch.minimum(errors + missed / (GAP * theta.abs()), residual)
        v, width = self.kept[:, 0], self.basis.shape[1]
        inside, rest = v[: delta.shape[1] * width].view(-1, width), v[delta.shape[1] * width :]
        vector = torch.cat([(inside @ self.basis.T).reshape(-1), rest])
        return Narrowly(theta[0].item(), error[0].item(), residual[0].item(), vector, 0, 0), delta

    def _widen(self, image: Tensor) -> None:
        """Take the strongest directions of what was left out of an image into the basis, for the oldest ones in it."""
        old = self.basis.shape[1]
        columns = [*range(WIDTH), *range(max(WIDTH, old - (WIDEST - ADDED - WIDTH)), old)]
        basis = self.basis[:, columns]
        outside = image - (image @ basis) @ basis.T
        directions = torch.linalg.svd(outside, full_matrices=False).Vh[:ADDED].T
        added = torch.linalg.qr(directions - basis @ (basis.T @ directions)).Q
        if self.kept is not None:
            self.kept = _recut(self.kept, len(image), old, columns, added.shape[1])
        self.basis = torch.cat([basis, added], dim=1)
        self._project()

    def state_dict(self) -> dict[str, Tensor | None]:
        """Return basis and vectors."""
        return {"basis": self.basis, "kept": self.kept}

    def load_state_dict(self, state: dict[str, Tensor | None]) -> None:
        """Take up what :meth:`state_dict` gave."""
        basis, kept = state["basis"], state["kept"]
        if basis is not None:
            self.basis = basis.to(self._entering)
            self.kept = None if kept is None else kept.to(self._entering)
            self._project()


def _recut(kept: Tensor, fan_out: int, old: int, columns: list[int], added: int) -> Tensor:
    """Write narrow vectors in a basis that keeps some directions and has new ones behind them."""
    inside, rest = kept[: fan_out * old].view(fan_out, old, -1), kept[fan_out * old :]
    fresh = inside.new_zeros(fan_out, added, inside.shape[2])
    return torch.cat([torch.cat([inside[:, columns], fresh], dim=1).reshape(-1, inside.shape[2]), rest])


def _settle(space: Krylov, operator: ChainMatrix, tol: float) -> list[Tensor] | None:
    """Grow the space until the top value's estimate is within the tolerance.

    Returns:
        δ̇ of the first layer in every product; None where it did not come to that.
    """
    deltas = []
    while space.grow():
        deltas.append(operator.delta)
        if space.size >= FLOOR:
            theta, _, _, errors = assess(space, 1, "top")
            if bool(errors[0] <= tol * theta[0].abs()):
                return deltas
    return None


def _leading(inputs: Tensor) -> Tensor:
    """Find the inputs' leading directions, roughly: two rounds of subspace iteration from a fixed draw."""
    basis = _gaussian(inputs, WIDTH)
    for _ in range(2):
        basis = torch.linalg.qr(inputs.T @ (inputs @ basis)).Q
    return basis


def _gaussian(inputs: Tensor, width: int) -> Tensor:
    """Draw random directions of the inputs, the same ones every time."""
    draw = torch.randn(inputs.shape[1], width, generator=generator(width, "narrow"), dtype=torch.float64)
    return draw.to(inputs)
