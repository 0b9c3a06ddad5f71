"""Gradients that a step has used, told apart from those that are still to be used.

A step leaves its gradients in place, as torch does, and the next one clears them. What has come since then, from a
micro-batch that was differentiated outside of the closure, say, must not be cleared with them.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from surefoot.errors import InputError

Leftovers = dict[Tensor, tuple[Tensor, int]]  # by parameter: a gradient, and how often it had been written to


def mark_used(params: Iterable[Tensor]) -> None:
    """Note on the gradients in place that they have been used, by this optimizer or another one of ours."""
    for parameter in params:
        if (grad := parameter.grad) is not None:
            grad._used_at = grad._version  # type: ignore[attr-defined]  # goes away with the gradient itself


def unused(params: Iterable[Tensor]) -> Leftovers:
    """Find the gradients that came, or were added to, since they were last marked.

    Args:
        params: Parameters, some of which may have a gradient.

    Returns:
        Those gradients; not the ones that have been set to zero, which hold nothing.
    """
    found = {}
    for parameter in params:
        grad = parameter.grad
        if grad is None or getattr(grad, "_used_at", -1) == grad._version:
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
    """Return whether a closure has called ``backward()`` itself: some gradient is new, or has been added to."""
    for parameter in params:
        if parameter.grad is not None:
            grad, version = leftovers.get(parameter, (None, 0))
            if parameter.grad is not grad or grad._version != version:
                return True
    return False
