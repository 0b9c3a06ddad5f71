"""Looking at a network in passing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def in_eval_mode(model: nn.Module) -> Iterator[None]:
    """Let a network be in eval mode for a while: statistics hold still, nothing is dropped.

    Args:
        model: Every module's mode is afterwards as it was.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def rng_state() -> list[Tensor]:
    """Give the state of the generators that dropout draws from: the CPU's, then one per GPU in use."""
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])]


@contextmanager
def drawing_again(state: list[Tensor]) -> Iterator[None]:
    """Let a second look at a network drop what the first one dropped, then go on as if nothing had been drawn.

    Args:
        state: What :func:`rng_state` gave before the first look.
    """
    with torch.random.fork_rng(devices=range(len(state) - 1)):
        torch.set_rng_state(state[0])
        if state[1:]:
            torch.cuda.set_rng_state_all(state[1:])
        yield
