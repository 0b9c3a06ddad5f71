"""Looking at a network in passing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


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
