"""Sharpness as a number to follow: measured cold once, then warm, with an honest error and a bracket."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from surefoot.curvature.gauss_newton import Form, GaussNewton
from surefoot.curvature.hessian import Hessian
from surefoot.curvature.logit_gram import LogitGram
from surefoot.curvature.objective import LossFunction, cross_entropy, mse
from surefoot.curvature.operator import Operator
from surefoot.curvature.perceptron import is_perceptron
from surefoot.curvature.preconditioned import Preconditioned
from surefoot.curvature.search import SearchResult, search
from surefoot.errors import OptionError

Kind = Literal["gn", "kappa_max", "kappa_min"]
GRAM_ROWS = 2000  # above it, products in weight space are cheaper than in logit space
MIXED = 0.1  # share of the gradient in a warm start: an eigenvector that took over is then not missed


@dataclass(frozen=True)
class Measurement:
    """One measured eigenvalue of a probe.

    Attributes:
        value: The eigenvalue on the probe itself: λ_max, κ_max or κ_min.
        error: Estimated |value − exact| on the probe, made to cover in at least 95 % of cases.
        residual: ‖A v − value · v‖.
        n_products: Products with the matrix.
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

        The first overstates the value of the whole data set, the second understates it. The mean of two negative
        ones is negative; of two of opposite signs there is none.
        """
        other = math.nan if self.held_out is None else self.held_out
        product = self.value * other
        middle = math.copysign(math.sqrt(product), self.value) if product > 0 else math.nan
        return self.value, other, middle


class Sharpness:
    """Follows one eigenvalue while a model trains, starting each time from what was found last.

    A measurement starts from the last eigenvector with a little of the next two and of the gradient mixed in: the one
    that takes over is most likely among them. If ``warm_products`` products do not bring the error estimate under the
    tolerance, the eigenvector has turned: the search goes on as a cold one, without losing what was found.

    Args:
        kind: ``gn`` for λ_max of the Gauss–Newton matrix, ``kappa_max`` and ``kappa_min`` for the Hessian.
        tol: Relative error to reach.
        warm_products: Products granted to a warm start.
        loss: One value per example, or ``LossTerms``.
        chunk: Rows per chunk in weight space.
        form: How Gauss–Newton products are made; ``auto`` lets a stopwatch decide, so the last bits may differ
            between two processes.
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
        warm_products: int = 5,
        loss: LossFunction = cross_entropy,
        chunk: int | None = None,
        form: Form = "auto",
        precondition: Callable[[nn.Module], Tensor] | None = None,
        max_products: int = 100,
    ) -> None:
        if kind not in ("gn", "kappa_max", "kappa_min") or (kind == "gn" and precondition is not None):
            raise OptionError(
                f"Expected kind gn (without precondition), kappa_max or kappa_min, but got {kind!r}. Try 'gn'."
            )
        self.kind, self.tol, self.warm_products = kind, tol, warm_products
        self._loss, self._chunk, self._precondition, self._max = loss, chunk, precondition, max_products
        self._form: Form = form
        self._probe: Tensor | None = None
        self._start: Tensor | None = None  # the last eigenvector and a little of the next ones
        self._logit_start: Tensor | None = None  # what pulls back to them; belongs to the probe
        self._restored: dict[str, Any] | None = None
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
            eigenvector in the weights; None in the logit-space form, which never makes it.
        """
        same = self._probe is inputs or self._restored is not None
        operator, start, warm = self._prepare(model, inputs, labels, same=same)
        found = search(
            operator,
            start,
            bottom=self.kind == "kappa_min",
            tol=self.tol,
            warm=warm,
            warm_products=self.warm_products,
            max_products=self._max,
        )
        self._probe, self._restored = inputs, None
        in_logits = isinstance(operator, LogitGram)
        self.vector = None if in_logits else found.vector
        self._start, self._logit_start = (None, found.start) if in_logits else (found.start, found.pushed)
        rayleigh = None if held_out is None else self._rayleigh(model, operator, found, held_out)
        return Measurement(
            found.value, found.error, found.residual, found.n_products, found.warm, len(labels), rayleigh
        )

    def state_dict(self) -> dict[str, Any]:
        """Return what the next search starts from."""
        if self._restored is not None:
            return self._restored
        vector = None if self._logit_start is not None else self._start
        return {"vector": vector, "logit_vector": self._logit_start}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` gave; the next probe must be the same examples."""
        self._restored = dict(state)
        self._start, self._logit_start = state["vector"], state["logit_vector"]

    def _prepare(
        self, model: nn.Module, inputs: Tensor, labels: Tensor, *, same: bool
    ) -> tuple[Operator, Tensor, bool]:
        """Build the operator and the first vector, and say whether that one is warm."""
        if self.kind != "gn":
            return self._prepare_hessian(model, inputs, labels)
        last = self._logit_start if same else None
        if len(labels) <= GRAM_ROWS and self._loss in (cross_entropy, mse) and is_perceptron(model):
            gram = LogitGram(model, inputs, labels, loss=self._loss)
            warm = last is not None and last.shape == gram.shape[:1]
            return gram, _mix(last if warm else None, gram.start(labels)), warm
        warm = last is not None and last.shape[0] == len(labels)
        share = MIXED if warm else 1.0
        matrix = GaussNewton(
            model,
            inputs,
            labels,
            loss=self._loss,
            chunk=self._chunk,
            form=self._form,
            cotangent=last if warm else None,
            gradient=share,
        )
        start = matrix.pulled if matrix.pulled is not None else torch.zeros(0)
        if not warm and self._start is not None and self._start.shape == start.shape:
            return matrix, _mix(self._start, start), True
        return matrix, start, warm

    def _prepare_hessian(self, model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[Operator, Tensor, bool]:
        hessian = Hessian(model, inputs, labels, loss=self._loss, chunk=self._chunk)
        operator: Operator = hessian
        gradient = hessian.gradient
        if self._precondition is not None:
            diagonal = self._precondition(model)
            operator, gradient = Preconditioned(hessian, diagonal), gradient * diagonal.rsqrt()
        warm = self._start is not None and self._start.shape == gradient.shape
        return operator, _mix(self._start if warm else None, gradient), warm

    def _rayleigh(
        self, model: nn.Module, operator: Operator, found: SearchResult, held_out: tuple[Tensor, Tensor]
    ) -> float:
        """Return the Rayleigh quotient vᵀ A v / vᵀ v on other examples."""
        inputs, labels = held_out
        if isinstance(operator, LogitGram):
            return operator.rayleigh(found.vector, found.value, inputs)
        v = found.vector
        if self.kind == "gn":
            other: Operator = GaussNewton(
                model, inputs, labels, loss=self._loss, chunk=self._chunk, cache=False, form=self._form
            )
        else:
            other = Hessian(model, inputs, labels, loss=self._loss, chunk=self._chunk)
            if self._precondition is not None:
                other = Preconditioned(other, self._precondition(model))
        return ((v @ (other @ v)) / v.square().sum()).item()


def _mix(last: Tensor | None, gradient: Tensor) -> Tensor:
    """Put a little gradient into the last vector; without one, the gradient it is."""
    if last is None:
        return gradient
    length = gradient.norm().clamp_min(torch.finfo(gradient.dtype).tiny)
    mixed: Tensor = last / last.norm() + MIXED * gradient / length
    return mixed


def gauss_newton_top_eigenvalue(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    loss: LossFunction = cross_entropy,
    tol: float = 1e-3,
    chunk: int | None = None,
    form: Form = "auto",
    held_out: tuple[Tensor, Tensor] | None = None,
) -> Measurement:
    r"""Measure λ_max of the Gauss–Newton matrix once.

    Args:
        model: Any module.
        inputs: Shape ``(n, *shape)``.
        labels: Shape ``(n,)``.
        loss: One value per example, or ``LossTerms``.
        tol: Relative error to reach.
        chunk: Rows per chunk.
        form: How Gauss–Newton products are made.
        held_out: Other examples for the bracket.

    Returns:
        The measurement.

    Example:
        >>> model = nn.Linear(2, 2, bias=False)
        >>> _ = model.load_state_dict({"weight": torch.tensor([[0.8472979, 0.0], [0.0, 0.0]])})  # p = (0.7, 0.3)
        >>> found = gauss_newton_top_eigenvalue(model, torch.tensor([[1.0, 2.0]]), torch.tensor([0]))
        >>> round(found.value, 4)  # 5 · 2 · 0.21
        2.1
    """
    follow = Sharpness("gn", tol=tol, loss=loss, chunk=chunk, form=form)
    return follow.measure(model, inputs, labels, held_out=held_out)


def hessian_top_eigenvalue(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    loss: LossFunction = cross_entropy,
    tol: float = 1e-3,
    chunk: int | None = None,
    held_out: tuple[Tensor, Tensor] | None = None,
) -> Measurement:
    """Measure κ_max, the largest eigenvalue of the Hessian, once; arguments as above.

    Example:
        >>> model = nn.Linear(1, 2, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> round(hessian_top_eigenvalue(model, torch.tensor([[2.0]]), torch.tensor([0])).value, 4)
        2.0
    """
    follow = Sharpness("kappa_max", tol=tol, loss=loss, chunk=chunk)
    return follow.measure(model, inputs, labels, held_out=held_out)
