"""What a wrapper asks of its base, its parameters and its caller."""

from __future__ import annotations

import inspect
import sys
from functools import partial
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from surefoot.errors import InputError


def needs_closure(base: Optimizer) -> bool:
    """Return whether an optimizer's step has arguments that must be given, as that of LBFGS."""
    takes = list(inspect.signature(type(base).step).parameters.values())[1:]
    return any(each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD for each in takes)


def does_nothing(closure: Any) -> bool:
    """Return whether a closure is the one that Lightning hands on where its user called ``step()`` without any."""
    while isinstance(closure, partial) and closure.args:
        closure = closure.args[-1]
    return getattr(closure, "__name__", None) == "do_nothing_closure"


def called_by_scaler() -> bool:
    """Return whether ``GradScaler.step`` is among the callers: it hands positional closures on without a word."""
    frame = sys._getframe(1)
    for _ in range(6):  # step, torch's two layers around it, a scheduler's, the scaler's two
        if frame.f_back is None:
            return False
        frame = frame.f_back
        if frame.f_globals.get("__name__") == "torch.amp.grad_scaler":
            return True
    return False


def check_is_real(parameter: Any) -> None:
    """Refuse a parameter that is not made of real numbers; what is no tensor is left for torch to refuse."""
    if isinstance(parameter, Tensor) and not parameter.is_floating_point():
        raise InputError(
            f"Expected parameters of a real floating type, but got {parameter.dtype}. "
            "Leave it out of the optimizer, or split a complex parameter with torch.view_as_real."
        )
