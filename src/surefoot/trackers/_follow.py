"""One eigenvalue of a fixed probe, followed through a run; what it remembers goes into the checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from surefoot.curvature import gauss_newton
from surefoot.curvature.sharpness import Kind, Measurement, Sharpness
from surefoot.schema import Moment
from surefoot.trackers._base import Probe, curved_loss


class Followed:
    """Sharpness of a probe, warm-started from the last measurement and, in a resumed run, from the saved one.

    Args:
        kind: Which eigenvalue.
        probe: The examples.
        tol: Relative error to reach.
    """

    def __init__(self, kind: Kind, probe: Probe, tol: float) -> None:
        self._kind, self._probe, self._tol = kind, probe, tol
        self._solver: Sharpness | None = None
        self._restored: dict[str, Any] | None = None

    def measure(self, moment: Moment, precondition: Callable[[nn.Module], Tensor] | None = None) -> Measurement:
        """Measure on the probe, with the held-out examples for the bracket.

        Args:
            moment: What there is to see.
            precondition: Gives the diagonal of the optimizer's preconditioner.

        Returns:
            The measurement.
        """
        x, y, *held_out = self._probe(moment)
        settle_form(moment.model, x, y)
        if self._solver is None:
            self._solver = Sharpness(self._kind, tol=self._tol, loss=curved_loss(moment), precondition=precondition)
        if self._restored is not None:
            self._solver._probe = x
            self._solver.vector = self._restored["vector"]
            self._solver._logit_vector = self._restored["logit_vector"]
            self._restored = None
        return self._solver.measure(moment.model, x, y, held_out=(held_out[0], held_out[1]))

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
