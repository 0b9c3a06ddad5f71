"""Gradients that a step has used, told apart from those that are still to be used.

A step leaves its gradients in place, as torch does, and the next one clears them. What has come since then, from a
micro-batch that was differentiated outside of the closure, say, must not be cleared with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import ref

import torch
from torch import Tensor

from surefoot.errors import InputError

Leftovers = dict[Tensor, tuple[Tensor, int]]  # by parameter: a gradient, and how often it had been written to


class Used:
    """Remembers the gradients that are in place, without keeping them alive."""

    def __init__(self) -> None:
        self._marks: dict[int, tuple[ref[Tensor], int]] = {}

    def mark(self, params: Iterable[Tensor]) -> None:
        """Take down which gradients are in place now: they have been used."""
        self._marks = {id(p): (ref(grad), grad._version) for p in params if (grad := p.grad) is not None}

    def unused(self, params: Iterable[Tensor]) -> Leftovers:
        """Find the gradients that came, or were added to, since the last :meth:`mark`.

        Args:
            params: Parameters, some of which may have a gradient.

        Returns:
            Those gradients; not the ones that have been set to zero, which hold nothing.
        """
        found = {}
        for parameter in params:
            grad = parameter.grad
            if grad is None:
                continue
            known, version = self._marks.get(id(parameter), (None, -1))
            if known is not None and known() is grad and version == grad._version:
                continue
            if grad.layout != torch.strided or bool(grad.any()):
                found[parameter] = grad, grad._version
        return found


def refuse(leftovers: Leftovers) -> None:
    """Refuse to go on where a closure has left gradients from before it in place.

    Args:
        leftovers: What was in place before the closure was evaluated.

    Raises:
        InputError: If one of them still is: it belongs to a micro-batch of which only the gradient is left.
    """
    if any(parameter.grad is grad for parameter, (grad, _) in leftovers.items()):
        raise InputError(
            "Expected a closure that evaluates the whole batch, but got one that adds to gradients which no step has "
            "used: the perturbed pass needs those micro-batches again. Evaluate all of them in one closure, or in "
            "both passes of a loop with optimizer.perturbed(); call optimizer.zero_grad() before step() if these "
            "gradients are not wanted."
        )


def was_differentiated(params: Iterable[Tensor], leftovers: Leftovers) -> bool:
    """Say whether a closure has called ``backward()`` itself: some gradient is new, or has been added to."""
    for parameter in params:
        if parameter.grad is not None:
            grad, version = leftovers.get(parameter, (None, 0))
            if parameter.grad is not grad or grad._version != version:
                return True
    return False
