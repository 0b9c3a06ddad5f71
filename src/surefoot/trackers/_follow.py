"""One eigenvalue of a fixed probe, followed through a run; what it remembers goes into the checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from surefoot.curvature import Measurement, Sharpness
from surefoot.curvature.gauss_newton import Form, is_forward_exact
from surefoot.curvature.sharpness import Kind
from surefoot.moment import Moment
from surefoot.trackers._base import Probe, Scheduled, curvature_loss

HELD_OUT = 4  # one held-out example for so many of the probe: a quotient along one vector needs fewer


class FollowedEigenvalue:
    """Sharpness of a probe, warm-started from the last measurement and, in a resumed run, from the saved one.

    Args:
        kind: Which eigenvalue.
        probe: The examples.
        tol: Relative error to reach.
    """

    def __init__(self, kind: Kind, probe: Probe, tol: float) -> None:
        self._kind, self._probe, self._tol = kind, probe, tol
        self._solver: Sharpness | None = None
        self._others: tuple[Tensor, Tensor] | None = None
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
        if self._solver is None or self._others is None:
            n = max(1, len(other_y) // HELD_OUT)
            self._others = other_x[:n], other_y[:n]
            self._solver = Sharpness(
                self._kind,
                tol=self._tol,
                loss=curvature_loss(moment),
                form=settled_form(moment.model, x, y),
                precondition=precondition,
            )
            if self._restored is not None:
                self._solver.load_state_dict(self._restored)
        return self._solver.measure(moment.model, x, y, held_out=self._others)

    def state_dict(self) -> dict[str, Any]:
        """Return what the next search starts from."""
        if self._solver is not None:
            return self._solver.state_dict()
        return self._restored or {"vector": None, "logit_vector": None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember what the next search starts from."""
        self._restored = None if all(part is None for part in state.values()) else dict(state)


class Following(Scheduled):
    """A tracker that follows eigenvalues and remembers their eigenvectors; abstract.

    Attributes:
        followed: The eigenvalues, by the first part of their keys.
    """

    followed: dict[str, FollowedEigenvalue]

    def state_dict(self) -> dict[str, Any]:
        """Return the last eigenvectors."""
        return {name: followed.state_dict() for name, followed in self.followed.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember the last eigenvectors."""
        for name, followed in self.followed.items():
            followed.load_state_dict(state[name])


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
        f"{name}/middle": middle,
        f"{name}/examples": found.n_examples,
        f"{name}/products": found.n_products,
    }


def settled_form(model: nn.Module, inputs: Tensor, labels: Tensor) -> Form:
    """Choose how Gauss–Newton products are made by the kind of network, where a stopwatch would decide.

    Both forms agree but for the last bits, and a run that goes on must find the same bits.

    Args:
        model: The network.
        inputs: Some inputs.
        labels: Their labels.

    Returns:
        The form.
    """
    convolves = any(isinstance(module, _ConvNd) for module in model.modules())
    return "forward" if convolves and is_forward_exact(model, inputs[:2], labels[:2]) else "reverse"
