"""One eigenvalue of a fixed probe, followed through a run; what it remembers goes into the checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from surefoot.curvature import gauss_newton
from surefoot.curvature.chain import backward, forward, is_chain, layers
from surefoot.curvature.logit_gram import LogitGram
from surefoot.curvature.logit_hessian import softmax_product
from surefoot.curvature.operator import Operator
from surefoot.curvature.sharpness import GRAM_ROWS, Kind, Measurement, Sharpness
from surefoot.schema import Moment
from surefoot.trackers._base import Probe, curved_loss

HELD_OUT = 4  # one held-out example for so many of the probe: a quotient along one vector needs fewer


class _Solver(Sharpness):
    """Sharpness that keeps the operator of its last measurement, whose forward pass the bracket can use."""

    operator: Operator | None = None

    def _prepare(
        self, model: nn.Module, inputs: Tensor, labels: Tensor, *, same: bool
    ) -> tuple[Operator, Tensor, bool]:
        prepared = super()._prepare(model, inputs, labels, same=same)
        self.operator = prepared[0]
        return prepared


class Followed:
    """Sharpness of a probe, warm-started from the last measurement and, in a resumed run, from the saved one.

    Args:
        kind: Which eigenvalue.
        probe: The examples.
        tol: Relative error to reach.
    """

    def __init__(self, kind: Kind, probe: Probe, tol: float) -> None:
        self._kind, self._probe, self._tol = kind, probe, tol
        self._solver: _Solver | None = None
        self._cross: Tensor | None = None  # inner products of held-out inputs with those of the probe
        self._restored: dict[str, Any] | None = None

    def measure(self, moment: Moment, precondition: Callable[[nn.Module], Tensor] | None = None) -> Measurement:
        """Measure on the probe, with the held-out examples for the bracket.

        Args:
            moment: What there is to see.
            precondition: Gives the diagonal of the optimizer's preconditioner.

        Returns:
            The measurement.
        """
        x, y, other_x, other_y = self._probe(moment)
        n = max(1, len(other_y) // HELD_OUT)
        settle_form(moment.model, x, y)
        if self._solver is None:
            self._solver = _Solver(self._kind, tol=self._tol, loss=curved_loss(moment), precondition=precondition)
        if self._restored is not None:
            self._solver._probe = x
            self._solver.vector = self._restored["vector"]
            self._solver._logit_vector = self._restored["logit_vector"]
            self._restored = None
        if not (self._kind == "gn" and in_logit_space(moment.model, len(y))):
            return self._solver.measure(moment.model, x, y, held_out=(other_x[:n], other_y[:n]))
        found = self._solver.measure(moment.model, x, y)
        gram, u = self._solver.operator, self._solver._logit_vector
        if not isinstance(gram, LogitGram) or u is None:
            return found
        if self._cross is None:
            self._cross = other_x[:n].flatten(1) @ x.flatten(1).T
        return replace(found, held_out=_rayleigh(moment.model, gram, u, found.value, other_x[:n], self._cross))

    def state_dict(self) -> dict[str, Any]:
        """Give the last eigenvector, in the one form from which the next search starts."""
        if self._restored is not None:
            return self._restored
        solver = self._solver
        if solver is None:
            return {"vector": None, "logit_vector": None}
        in_logits = solver._logit_vector
        return {"vector": None if in_logits is not None else solver.vector, "logit_vector": in_logits}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember the last eigenvector."""
        self._restored = None if state["vector"] is None and state["logit_vector"] is None else dict(state)


def in_logit_space(model: nn.Module, n_examples: int) -> bool:
    """Say whether :class:`Sharpness` works with the logit-space form, in which the bracket costs next to nothing."""
    return n_examples <= GRAM_ROWS and is_chain(model)


def _rayleigh(model: nn.Module, gram: LogitGram, u: Tensor, value: float, others: Tensor, cross: Tensor) -> float:
    r"""Give :math:`v^\top A v / v^\top v` on other examples, with v = Jᵀ S u never formed.

    J of the others times Jᵀ of the probe is, layer by layer, the inner products of what enters both times the
    cotangents that arrive; and v·v = n λ u·u.

    Args:
        model: The chain.
        gram: The operator on the probe, at the same weights.
        u: Its eigenvector.
        value: Its eigenvalue λ.
        others: The other inputs.
        cross: Their inner products with the probe's inputs.

    Returns:
        The quotient.
    """
    n = len(gram.logits)
    logits, found = layers(model, others)
    moves = []
    deltas = backward(gram._layers, gram.root(u.view(n, -1)))
    for index, (here, there, delta) in enumerate(zip(found, gram._layers, deltas, strict=True)):
        inner = torch.zeros(len(others), n, dtype=u.dtype, device=u.device)
        if here.linear.weight.requires_grad:
            inner = inner + (cross if index == 0 else here.inputs @ there.inputs.T)
        if here.linear.bias is not None and here.linear.bias.requires_grad:
            inner = inner + 1
        moves.append(inner @ delta)
    moved = forward(found, moves)
    pushed = softmax_product(logits.softmax(-1), moved) if gram._roots is not None else moved * 2 / logits.shape[1]
    squared = n * value * u.square().sum()
    return ((moved * pushed).sum() / len(others) / squared).item()


def bracketed(name: str, found: Measurement) -> dict[str, float]:
    """Write a measurement down with its error, its cost, and what the choice of examples may have done to it.

    Args:
        name: First part of the keys.
        found: The measurement.

    Returns:
        ``value`` and ``held_out`` enclose the value of the whole data set in the usual case; ``middle`` is their
        geometric mean.
    """
    value, held_out, middle = found.bracket
    return {
        f"{name}/value": value,
        f"{name}/error": found.error,
        f"{name}/held_out": held_out,
        f"{name}/middle": math.copysign(middle, value),  # both ends of a bracket below zero: so is their mean
        f"{name}/examples": found.n_examples,
        f"{name}/products": found.n_products,
    }


def settle_form(model: nn.Module, inputs: Tensor, labels: Tensor) -> None:
    """Choose how Gauss–Newton products are made by the kind of network, where a stopwatch would decide.

    Both forms agree but for the last bits, and a run that goes on must find the same bits.

    Args:
        model: The network.
        inputs: Some inputs.
        labels: Their labels.
    """
    if model in gauss_newton._FASTEST:
        return
    form: gauss_newton.Form = "reverse"
    if any(isinstance(module, _ConvNd) for module in model.modules()):
        try:
            operator = gauss_newton.GaussNewton(model, inputs[:2], labels[:2], form="forward")
            operator @ inputs.new_ones(operator.shape[0], dtype=operator.dtype)
            form = "forward"
        except (NotImplementedError, RuntimeError):  # some operation has no forward-mode derivative
            pass
    gauss_newton._FASTEST[model] = form
