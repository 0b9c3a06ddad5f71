"""Optimizers, one file each. All are stepped the same way: ``loss = optimizer.step(closure)``."""

from __future__ import annotations

from typing import Any

from torch import nn

from surefoot.optim._plain import Plain
from surefoot.optim._wrapper import Wrapper
from surefoot.registry import OPTIMIZERS
from surefoot.schema import MethodSpec


def build_optimizer(method: MethodSpec, model: nn.Module) -> Wrapper:
    """Make a method's optimizer for a model.

    Args:
        method: Says which optimizer and, where it wraps another, which base.
        model: Its parameters are optimized; those that do not require a gradient are left out.

    Returns:
        An optimizer that is stepped with a closure.
    """
    params = [parameter for parameter in model.parameters() if parameter.requires_grad]
    made: Any
    if method.base is None:
        made = OPTIMIZERS.build(method.optimizer, params)
    else:
        made = OPTIMIZERS.build(method.optimizer, OPTIMIZERS.build(method.base, params), model)
    return made if isinstance(made, Wrapper) else Plain(made)
