"""Climb and come back: weights, statistics and random numbers are as they were, whatever happens in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

RngState = tuple[Tensor, list[Tensor]]


@contextmanager
def restoring(params: list[Tensor], copies: list[Tensor]) -> Iterator[None]:
    """Put the parameters back bit for bit at the end: copied, never subtracted.

    Args:
        params: Tensors that may be changed in place meanwhile.
        copies: Buffers of the same shapes; they are overwritten.
    """
    with torch.no_grad():
        torch._foreach_copy_(copies, params)
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(params, copies)


@contextmanager
def holding_statistics(model: nn.Module | None) -> Iterator[None]:
    """Keep BatchNorm's running statistics still: they move in the clean pass only.

    Args:
        model: Its BatchNorm layers are held; None for no model.
    """
    tracking = [
        module
        for module in (model.modules() if model is not None else ())
        if isinstance(module, _BatchNorm) and module.track_running_stats
    ]
    for module in tracking:
        module.track_running_stats = False  # in training mode: normalise by the batch, store nothing
    try:
        yield
    finally:
        for module in tracking:
            module.track_running_stats = True


def rng_state() -> RngState:
    """Give the state of the global generators, which dropout draws from."""
    on_gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else []
    return torch.get_rng_state(), on_gpu


def set_rng_state(state: RngState) -> None:
    """Set the global generators to an earlier state."""
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])


@contextmanager
def replaying(state: RngState | None) -> Iterator[None]:
    """Draw the numbers that were drawn since ``state`` once more, then go on as if nothing had been drawn.

    Args:
        state: Where to start; None for drawing new numbers.
    """
    now = rng_state()
    if state is not None:
        set_rng_state(state)
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(now)
