"""The search for one end of a spectrum that goes on from what the last one found, and knows when to stop."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.curvature.gauss_newton import GaussNewton
from surefoot.curvature.krylov import End, Krylov, assess
from surefoot.curvature.operator import Operator
from surefoot.errors import InputError


@dataclass(frozen=True)
class StoppingRule:
    """When a search at one end of the spectrum may stop, and how its error is reported; measured on training runs.

    Attributes:
        warm_floor: Products before a warm estimate can be believed.
        cold_floor: Products before a cold one can.
        turned_floor: Products before that of a warm start whose vector has turned can.
        stricter: A warm estimate must be better than the tolerance by this.
        safety: An estimate times this covers the truth in at least 95 % of cases.
        cap: The error is at most so many residuals. Within one lies some eigenvalue; in a bulk, not always the last.
        least: The error is at least so many tolerances: an estimate cannot know of a vector that it has not seen.
    """

    warm_floor: int
    cold_floor: int
    turned_floor: int
    stricter: float
    safety: float
    cap: float
    least: float

    def error_bar(self, value: float, estimate: float, residual: float, tol: float) -> float:
        """Return the error to report of a value that was searched to a relative tolerance."""
        return max(min(self.safety * estimate, self.cap * residual), self.least * tol * abs(value))


TOP = StoppingRule(warm_floor=5, cold_floor=6, turned_floor=8, stricter=2.0, safety=4.0, cap=1.0, least=1.0)
BOTTOM = StoppingRule(  # the edge of a bulk, where neighbours are near
    warm_floor=20, cold_floor=20, turned_floor=20, stricter=4.0, safety=16.0, cap=2.0, least=10.0
)
KEPT = 3  # Ritz vectors that the next search starts from: the one that takes over is most likely among them
SHARE = 0.1  # of each further one


@dataclass(frozen=True)
class SearchResult:
    """One end of a spectrum, as far as a search has found it.

    Attributes:
        value: The eigenvalue.
        error: Estimated |value − exact|, made to cover in at least 95 % of cases.
        residual: ‖A v − value · v‖.
        vector: v, in the operator's space.
        start: v with a share of the next Ritz vectors: where the next search begins.
        pushed: What pulls back to ``start``, in logit space, where the operator gives it.
        n_products: Products with the operator.
        warm: Whether the start was good enough.
    """

    value: float
    error: float
    residual: float
    vector: Tensor
    start: Tensor
    pushed: Tensor | None
    n_products: int
    warm: bool


def search(
    operator: Operator,
    start: Tensor,
    *,
    bottom: bool,
    tol: float,
    warm: bool,
    warm_products: int,
    max_products: int,
) -> SearchResult:
    """Grow a space until the estimate is good enough; a warm start that fails goes on as a cold one.

    Args:
        operator: The matrix.
        start: First vector; where it is zero, all ones.
        bottom: Whether the smallest eigenvalue is wanted.
        tol: Relative error to reach.
        warm: Whether the start is a former eigenvector, so that early estimates can be believed.
        warm_products: Products granted to a warm start.
        max_products: Stop here in any case.

    Returns:
        The eigenvalue.

    Raises:
        InputError: If the start is not finite.
    """
    end: End = "bottom" if bottom else "top"
    rule = BOTTOM if bottom else TOP
    if not bool(start.any()):  # a saturated model: no gradient, and very likely no curvature
        start, warm = torch.ones_like(start), False
    start = start / start.abs().max()  # of an almost saturated one, whose squares would be zero
    granted = max(warm_products, rule.warm_floor)
    space = Krylov(operator, start, max_products)
    pushed: list[Tensor] = []
    turned = False
    while space.grow():
        if isinstance(operator, GaussNewton) and operator.pushed is not None:
            pushed.append(operator.pushed)
        theta, c, residuals, errors = assess(space, 1, end)
        aim = tol * space.scale(theta, end)[0] / (rule.stricter if warm else 1.0)
        floor = rule.warm_floor if warm else rule.turned_floor if turned else rule.cold_floor
        if bool(errors[0] <= aim) and space.size >= floor:
            break
        turned = turned or (warm and space.size >= granted)
        warm = warm and space.size < granted
    if space.size == 0:
        raise InputError("Expected a finite gradient, but it is not. Check whether training has diverged.")
    residual = residuals[0].item()
    error = rule.error_bar(theta[0].item(), errors[0].item(), residual, tol)
    mixed, pulling = _next_start(space, end)
    push = torch.stack(pushed, dim=-1) @ pulling.to(pushed[0]) if pushed else None
    vector, following = space.vectors(torch.stack([c[:, 0], mixed], dim=1)).T.contiguous()
    return SearchResult(theta[0].item(), error, residual, vector, following, push, space.size, warm)


def _next_start(space: Krylov, end: End) -> tuple[Tensor, Tensor]:
    """Mix the wanted Ritz vectors, in coordinates of the basis; also so that the products' H_z J pull back to them."""
    values, coordinates = space.ritz()
    order = torch.arange(len(values)) if end == "bottom" else torch.arange(len(values) - 1, -1, -1)
    chosen = order[:KEPT]
    shares = torch.full((len(chosen),), SHARE, dtype=values.dtype)
    shares[0] = 1.0
    scale = values[chosen].abs().clamp_min(torch.finfo(values.dtype).tiny)
    pulling = torch.where(scale > 1e-3 * scale[0], shares / scale, 0)  # Jᵀ H_z J v = θ v: too small a θ is noise
    return coordinates[:, chosen] @ shares, coordinates[:, chosen] @ pulling
