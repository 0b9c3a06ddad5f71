"""Sharpness as a number to follow: measured cold once, then warm, with an honest error and a bracket."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from surefoot.curvature.chain import is_chain
from surefoot.curvature.gauss_newton import GaussNewton
from surefoot.curvature.hessian import Hessian
from surefoot.curvature.lanczos import End, Krylov, assess
from surefoot.curvature.logit_gram import LogitGram
from surefoot.curvature.objective import LossFunction, cross_entropy, mse
from surefoot.curvature.operator import Operator
from surefoot.curvature.preconditioned import Preconditioned
from surefoot.errors import InputError, OptionError

Kind = Literal["gn", "kappa_max", "kappa_min"]
GRAM_ROWS = 2000  # above it, products in weight space are cheaper than in logit space
MIXED = 0.05  # share of the gradient in a warm start: an eigenvector that took over is then not missed


@dataclass(frozen=True)
class _Caution:
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


TOP = _Caution(warm_floor=3, cold_floor=6, stricter=2.0, safety=4.0)
BOTTOM = _Caution(warm_floor=6, cold_floor=12, stricter=4.0, safety=16.0)  # the edge of a bulk: neighbours are near


@dataclass(frozen=True)
class Measurement:
    """One measured eigenvalue of a probe.

    Attributes:
        value: The eigenvalue on the probe itself: λ_max, κ_max or κ_min.
        error: Estimated |value − exact| on the probe, made to cover in at least 95 % of cases.
        residual: ‖A v − value · v‖.
        n_products: Products spent.
        warm: Whether the last eigenvector was good enough to start from.
        n_examples: Size of the probe. Its bias is far larger than ``error``: see ``bracket``.
        held_out: Rayleigh quotient of the found vector on other examples, or None where none were given.
    """

    value: float
    error: float
    residual: float
    n_products: int
    warm: bool
    n_examples: int
    held_out: float | None = None

    @property
    def bracket(self) -> tuple[float, float, float]:
        """In-sample value, held-out Rayleigh quotient, and their geometric mean (NaN where it does not exist).

        The first overstates the value of the whole data set, the second understates it.
        """
        other = math.nan if self.held_out is None else self.held_out
        product = self.value * other
        return self.value, other, math.sqrt(product) if product > 0 else math.nan


@dataclass(frozen=True)
class _Found:
    """What a search gives; ``pushed`` is H_z J v of the found vector, in logit space."""

    value: float
    error: float
    residual: float
    vector: Tensor
    pushed: Tensor | None
    n_products: int
    warm: bool


class Sharpness:
    """Follows one eigenvalue while a model trains, starting each time from the last eigenvector.

    A measurement starts from the last eigenvector with a little gradient mixed in. If ``warm_products`` products do
    not bring the error estimate under the tolerance, the eigenvector has turned: the gradient joins the space, and
    the search goes on as a cold one, without losing what was found.

    Args:
        kind: ``gn`` for λ_max of the Gauss–Newton matrix, ``kappa_max`` and ``kappa_min`` for the Hessian.
        tol: Relative error to reach.
        warm_products: Products granted to a warm start.
        loss: One value per example, or ``LossTerms``.
        chunk: Rows per chunk in weight space.
        precondition: Gives the diagonal of the optimizer's preconditioner; only for the Hessian's kinds.
        max_products: Stop here in any case.

    Example:
        >>> model = nn.Linear(2, 2, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> follow = Sharpness("gn")
        >>> found = follow.measure(model, torch.tensor([[1.0, 2.0]]), torch.tensor([0]))
        >>> round(found.value, 4), found.warm, follow.measure(model, torch.eye(2), torch.tensor([0, 1])).n_examples
        (2.5, False, 2)
    """

    def __init__(
        self,
        kind: Kind = "gn",
        *,
        tol: float = 1e-3,
        warm_products: int = 4,
        loss: LossFunction = cross_entropy,
        chunk: int | None = None,
        precondition: Callable[[nn.Module], Tensor] | None = None,
        max_products: int = 100,
    ) -> None:
        if kind not in ("gn", "kappa_max", "kappa_min") or (kind == "gn" and precondition is not None):
            raise OptionError(
                f"Expected kind gn (without precondition), kappa_max or kappa_min, but got {kind!r}. Try 'gn'."
            )
        self.kind, self.tol, self.warm_products = kind, tol, warm_products
        self._loss, self._chunk, self._precondition, self._max = loss, chunk, precondition, max_products
        self._probe: Tensor | None = None
        self._input_gram: Tensor | None = None
        self._logit_vector: Tensor | None = None  # what pulls back to the last eigenvector; belongs to the probe
        self.vector: Tensor | None = None

    def measure(
        self, model: nn.Module, inputs: Tensor, labels: Tensor, *, held_out: tuple[Tensor, Tensor] | None = None
    ) -> Measurement:
        """Measure at the weights as they are now.

        Args:
            model: Any module; left as it was.
            inputs: The probe, shape ``(n, *shape)``. Pass the same tensor every time: with another one the search
                starts from the last vector in the weights, or cold where there is none.
            labels: Shape ``(n,)``.
            held_out: Other examples for the bracket, best as many as the probe has.

        Returns:
            Value, error, cost and, with ``held_out``, the bracket. Afterwards ``self.vector`` is the unit
            eigenvector in the weights; in the logit-space form only where ``held_out`` was given.
        """
        same = self._probe is inputs
        operator, start, warm = self._prepare(model, inputs, labels, same=same)
        found = self._search(operator, start, warm=warm)
        self._probe = inputs
        if isinstance(operator, LogitGram):
            self.vector = operator.to_weights(found.vector) if held_out is not None else None
            self._logit_vector = found.vector
        else:
            self.vector, self._logit_vector = found.vector, found.pushed
        rayleigh = None if held_out is None or self.vector is None else self._rayleigh(model, self.vector, *held_out)
        return Measurement(
            found.value, found.error, found.residual, found.n_products, found.warm, len(labels), rayleigh
        )

    def _prepare(
        self, model: nn.Module, inputs: Tensor, labels: Tensor, *, same: bool
    ) -> tuple[Operator, Tensor, bool]:
        """Build the operator and the first vector, and say whether that one is warm."""
        if self.kind != "gn":
            return self._prepare_hessian(model, inputs, labels)
        last = self._logit_vector if same else None
        if len(labels) <= GRAM_ROWS and self._loss in (cross_entropy, mse) and is_chain(model):
            if self._input_gram is None or not same:
                self._input_gram = inputs.flatten(1) @ inputs.flatten(1).T
            gram = LogitGram(model, inputs, labels, loss=self._loss, input_gram=self._input_gram)
            warm = last is not None and last.shape == gram.shape[:1]
            return gram, _mix(last if warm else None, gram.start(labels)), warm
        warm = last is not None and last.shape[0] == len(labels)
        share = MIXED if warm else 1.0
        matrix = GaussNewton(
            model, inputs, labels, loss=self._loss, chunk=self._chunk, cotangent=last if warm else None, gradient=share
        )
        start = matrix.pulled if matrix.pulled is not None else torch.zeros(0)
        if not warm and self.vector is not None and self.vector.shape == start.shape:
            return matrix, _mix(self.vector, start), True
        return matrix, start, warm

    def _prepare_hessian(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[Operator, Tensor, bool]:
        hessian = Hessian(model, inputs, labels, loss=self._loss, chunk=self._chunk)
        operator: Operator = hessian
        gradient = hessian.gradient
        if self._precondition is not None:
            diagonal = self._precondition(model)
            operator, gradient = Preconditioned(hessian, diagonal), gradient * diagonal.rsqrt()
        warm = self.vector is not None and self.vector.shape == gradient.shape
        return operator, _mix(self.vector if warm else None, gradient), warm

    def _search(self, operator: Operator, start: Tensor, *, warm: bool) -> _Found:
        """Grow the space until the estimate is good enough; a warm start that fails goes on as a cold one."""
        end: End = "bottom" if self.kind == "kappa_min" else "top"
        caution = BOTTOM if end == "bottom" else TOP
        if not bool(start.any()):  # a saturated model: no gradient, and very likely no curvature
            start, warm = torch.ones_like(start), False
        space = Krylov(operator, start, self._max)
        pushed: list[Tensor] = []
        turned = False
        while space.grow():
            if isinstance(operator, GaussNewton) and operator.pushed is not None:
                pushed.append(operator.pushed)
            theta, c, residuals, errors = assess(space, 1, end)
            aim = self.tol * space.scale(theta, end)[0] / (caution.stricter if warm else 1.0)
            floor = caution.warm_floor if warm or turned else caution.cold_floor
            if bool(errors[0] <= aim) and space.size >= floor:
                break
            turned = turned or (warm and space.size >= max(self.warm_products, caution.warm_floor))
            warm = warm and space.size < max(self.warm_products, caution.warm_floor)
        if space.size == 0:
            raise InputError("Expected a finite gradient, but it is not. Check whether training has diverged.")
        push = torch.stack(pushed, dim=-1) @ c[:, 0].to(pushed[0]) if pushed else None
        return _Found(
            theta[0].item(),
            min(caution.safety * errors[0].item(), residuals[0].item()),
            residuals[0].item(),
            space.vectors(c)[:, 0],
            push,
            space.size,
            warm,
        )

    def _rayleigh(self, model: nn.Module, v: Tensor, inputs: Tensor, labels: Tensor) -> float:
        """vᵀ A v / vᵀ v on other examples."""
        if self.kind == "gn":
            operator: Operator = GaussNewton(model, inputs, labels, loss=self._loss, chunk=self._chunk, cache=False)
        else:
            operator = Hessian(model, inputs, labels, loss=self._loss, chunk=self._chunk)
            if self._precondition is not None:
                operator = Preconditioned(operator, self._precondition(model))
        return ((v @ (operator @ v)) / v.square().sum()).item()


def _mix(last: Tensor | None, gradient: Tensor) -> Tensor:
    """Put a little gradient into the last vector; without one, the gradient it is."""
    if last is None:
        return gradient
    length = gradient.norm().clamp_min(torch.finfo(gradient.dtype).tiny)
    mixed: Tensor = last / last.norm() + MIXED * gradient / length
    return mixed


def gn_sharpness(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    loss: LossFunction = cross_entropy,
    tol: float = 1e-3,
    chunk: int | None = None,
    held_out: tuple[Tensor, Tensor] | None = None,
) -> Measurement:
    r"""Measure λ_max of the Gauss–Newton matrix once, cold.

    Args:
        model: Any module.
        inputs: Shape ``(n, *shape)``.
        labels: Shape ``(n,)``.
        loss: One value per example, or ``LossTerms``.
        tol: Relative error to reach.
        chunk: Rows per chunk.
        held_out: Other examples for the bracket.

    Returns:
        The measurement.

    Example:
        >>> model = nn.Linear(2, 2, bias=False)
        >>> _ = model.load_state_dict({"weight": torch.tensor([[0.8472979, 0.0], [0.0, 0.0]])})  # p = (0.7, 0.3)
        >>> round(gn_sharpness(model, torch.tensor([[1.0, 2.0]]), torch.tensor([0])).value, 4)  # 5 · 2 · 0.21
        2.1
    """
    follow = Sharpness("gn", tol=tol, loss=loss, chunk=chunk)
    return follow.measure(model, inputs, labels, held_out=held_out)
