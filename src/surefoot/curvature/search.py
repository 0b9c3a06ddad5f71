"""The search for one end of a spectrum that goes on from what the last one found, and knows when to stop."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.curvature.gauss_newton import GaussNewton
from surefoot.curvature.lanczos import End, Krylov, assess
from surefoot.curvature.operator import Operator
from surefoot.errors import InputError


@dataclass(frozen=True)
class Caution:
    """How far to trust Lanczos's estimates at one end of the spectrum; measured on training runs.

    Attributes:
        warm_floor: Products before a warm estimate can be believed.
        cold_floor: Products before a cold one can.
        stricter: A warm estimate must be better than the tolerance by this.
        safety: An estimate times this covers the truth in at least 95 % of cases.
    """

    warm_floor: int
    cold_floor: int
    stricter: float
    safety: float


TOP = Caution(warm_floor=3, cold_floor=6, stricter=2.0, safety=4.0)
BOTTOM = Caution(warm_floor=6, cold_floor=12, stricter=4.0, safety=16.0)  # the edge of a bulk: neighbours are near


@dataclass(frozen=True)
class Found:
    """What a search gives.

    Attributes:
        value: The eigenvalue.
        error: Estimated |value − exact|, made to cover in at least 95 % of cases; at most the residual.
        residual: ‖A v − value · v‖.
        vector: v, in the operator's space.
        pushed: H_z J v, in logit space, where the operator gives it.
        n_products: Products with the operator.
        n_narrow: Cheaper products with a narrow one.
        warm: Whether the start was good enough.
    """

    value: float
    error: float
    residual: float
    vector: Tensor
    pushed: Tensor | None
    n_products: int
    warm: bool
    n_narrow: int = 0


def search(
    operator: Operator,
    start: Tensor,
    *,
    bottom: bool,
    tol: float,
    warm: bool,
    warm_products: int,
    max_products: int,
) -> Found:
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
    caution = BOTTOM if bottom else TOP
    if not bool(start.any()):  # a saturated model: no gradient, and very likely no curvature
        start, warm = torch.ones_like(start), False
    start = start / start.abs().max()  # of an almost saturated one, whose squares would be zero
    granted = max(warm_products, caution.warm_floor)
    space = Krylov(operator, start, max_products)
    pushed: list[Tensor] = []
    turned = False
    while space.grow():
        if isinstance(operator, GaussNewton) and operator.pushed is not None:
            pushed.append(operator.pushed)
        theta, c, residuals, errors = assess(space, 1, end)
        aim = tol * space.scale(theta, end)[0] / (caution.stricter if warm else 1.0)
        floor = caution.warm_floor if warm or turned else caution.cold_floor
        if bool(errors[0] <= aim) and space.size >= floor:
            break
        turned = turned or (warm and space.size >= granted)
        warm = warm and space.size < granted
    if space.size == 0:
        raise InputError("Expected a finite gradient, but it is not. Check whether training has diverged.")
    residual = residuals[0].item()
    error = min(caution.safety * errors[0].item(), residual)
    push = torch.stack(pushed, dim=-1) @ c[:, 0].to(pushed[0]) if pushed else None
    return Found(theta[0].item(), error, residual, space.vectors(c)[:, 0], push, space.size, warm)
