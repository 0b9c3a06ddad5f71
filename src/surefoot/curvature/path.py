"""Loss and smallest curvature along the path from the weights to SAM's perturbed weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surefoot.curvature.hessian import Hessian
from surefoot.curvature.objective import LossFunction, Weights, cross_entropy
from surefoot.curvature.search import SHARE, search
from surefoot.errors import InputError


@dataclass(frozen=True)
class AscentPath:
    """What happens between θ (t = 0) and θ̃ = θ + ρ g/‖g‖ (t = 1).

    Attributes:
        t: Where, in [0, 1].
        loss: Mean loss there.
        kappa_min: Smallest Hessian eigenvalue there (NaN where not asked for).
        kappa_error: Estimated distance to the exact one, as for ``Sharpness("kappa_min")``.
        along: uᵀ H u in the direction u = g/‖g‖ of the path.
        gradient_norm: ‖∇L(θ)‖.
        rho: Length of the path.
        direction: u, flat.
    """

    t: Tensor
    loss: Tensor
    kappa_min: Tensor
    kappa_error: Tensor
    along: Tensor
    gradient_norm: float
    rho: float
    direction: Tensor

    @property
    def bound(self) -> float:
        """−‖∇L(θ)‖/ρ, which κ_min must not fall below for the CSAM paper's lemmas."""
        return -self.gradient_norm / self.rho


@contextmanager
def perturbed(model: nn.Module, direction: Tensor) -> Iterator[None]:
    """Shift the trainable weights by a vector; afterwards they are back, copied bit for bit.

    Args:
        model: The model.
        direction: Shape ``(d,)``.
    """
    weights = Weights(model)
    copies = [p.detach().clone() for p in weights.params]
    try:
        with torch.no_grad():
            for p, part in zip(weights.params, weights.parts(direction.to(weights.dtype)), strict=True):
                p.add_(part)
        torch.clear_autocast_cache()  # whose copies know nothing of it
        yield
    finally:
        with torch.no_grad():
            for p, copy in zip(weights.params, copies, strict=True):
                p.copy_(copy)
        torch.clear_autocast_cache()


def ascent_path(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    rho: float,
    ts: Tensor | None = None,
    loss: LossFunction = cross_entropy,
    eigenvalues: bool = True,
    tol: float = 1e-3,
    max_products: int = 60,
) -> AscentPath:
    r"""Follow :math:`\theta' = (1-t)\theta + t\tilde\theta`, :math:`\tilde\theta = \theta + \rho\, g/\|g\|`.

    Args:
        model: Any module; its weights come back bit for bit.
        inputs: The batch, shape ``(n, *shape)``.
        labels: Shape ``(n,)``.
        rho: SAM's radius, > 0.
        ts: Where to look; by default 0, ¼, ½, ¾, 1.
        loss: One value per example, or ``LossTerms``.
        eigenvalues: Find κ_min; without it only the loss and the curvature along the path, one product each.
        tol: Relative error of κ_min, by the estimate of Lanczos.
        max_products: At most so many products per point.

    Returns:
        The path.

    Raises:
        InputError: If ρ is not positive or the gradient is zero.
    """
    if rho <= 0:
        raise InputError(f"Expected rho > 0, but got {rho}. Pass SAM's radius.")
    ts = torch.linspace(0, 1, 5, dtype=torch.float64) if ts is None else ts.double()
    gradient = Hessian(model, inputs, labels, loss=loss, cache=False).gradient
    largest = gradient.abs().max()
    if largest == 0:
        raise InputError("Expected a gradient, but it is zero. There is no ascent direction at this point.")
    u = gradient / largest  # squares leave the range of floats long before the numbers do
    norm = (largest * u.norm()).item()
    u /= u.norm()
    rows = []
    start, warm = u, False
    for t in ts.tolist():
        with perturbed(model, t * rho * u):
            operator = Hessian(model, inputs, labels, loss=loss)
            along = (u @ (operator @ u)).item()
            kappa, error = float("nan"), float("nan")
            if eigenvalues:
                found = search(
                    operator, start, bottom=True, tol=tol, warm=warm, warm_products=0, max_products=max_products
                )
                kappa, error = found.value, found.error
                start, warm = found.start + SHARE * u, True
            rows.append((operator.loss, kappa, error, along))
    columns = torch.tensor(rows, dtype=torch.float64).T
    return AscentPath(ts, columns[0], columns[1], columns[2], columns[3], norm, rho, u)
