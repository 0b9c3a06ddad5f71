"""Looking at a network in passing: training and evaluation modes are put back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


@contextmanager
def keeping_modes(model: nn.Module) -> Iterator[None]:
    """Let modes be changed for a while.

    Args:
        model: Every module's mode is afterwards as it was, also when the body raises.
    """
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def in_eval_mode(model: nn.Module) -> Iterator[None]:
    """Let a network be in eval mode for a while: statistics hold still, nothing is dropped.

    Args:
        model: Every module's mode is afterwards as it was, also when the body raises.

    Example:
        >>> from torch import nn
        >>> model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2).eval())
        >>> with in_eval_mode(model):
        ...     [module.training for module in model]
        [False, False]
        >>> [module.training for module in model]
        [True, False]
    """
    with keeping_modes(model):
        model.eval()
        yield
