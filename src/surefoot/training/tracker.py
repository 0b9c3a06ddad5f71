"""What a tracker is. The loop knows this protocol and no tracker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from surefoot.modes import keeping_modes
from surefoot.moment import Moment
from surefoot.seeding import random_state, set_random_state


class Tracker(Protocol):
    """Measures something while a model trains. It returns and never stores; the run is the same without it."""

    def due(self, step: int) -> bool:
        """Return whether to measure after ``step`` steps; 0 is before the first."""
        ...

    def measure(self, moment: Moment) -> dict[str, float]:
        """Measure, with keys such as ``"test/ece"``."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """A tracker with a memory, such as the last eigenvector; it is saved with the checkpoint."""

    def state_dict(self) -> dict[str, Any]:
        """Return the memory: nested dicts and lists of tensors and plain values."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember what :meth:`state_dict` gave."""
        ...


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Give a tracker a free hand: weights, buffers, gradients, modes and random numbers are afterwards as they were.

    Which tensors are registered where comes back; of values, those of buffers do, for a forward pass may move them.

    Args:
        model: The model in training.
    """
    state = random_state()
    kept = [table for module in model.modules() for table in (module._parameters, module._buffers)]
    registered: list[tuple[dict[str, Any], dict[str, Any]]] = [(table, dict(table)) for table in kept]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    grads = [(parameter, parameter.grad) for parameter in model.parameters()]
    for parameter, _ in grads:
        parameter.grad = None
    try:
        with keeping_modes(model):
            yield
    finally:
        for now, before in registered:
            now.clear()
            now.update(before)
        with torch.no_grad():
            for buffer, value in buffers:
                if not torch.equal(buffer, value):
                    buffer.copy_(value)
        for parameter, grad in grads:
            parameter.grad = grad
        set_random_state(state)
