"""How the learning rate goes over a run, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from surefoot.errors import OptionError

SCHEDULES: dict[str, Callable[[float], float]] = {
    "cosine": lambda progress: 0.5 * (1 + math.cos(math.pi * progress)),
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1 - progress,
}


def make_schedule(name: str, optimizer: Optimizer, n_steps: int) -> LambdaLR:
    """Attach a schedule to an optimizer.

    Args:
        name: ``"cosine"``, ``"linear"`` (both end at 0) or ``"constant"``.
        optimizer: Its groups' learning rates are scaled.
        n_steps: Length of the run.

    Returns:
        A scheduler to be stepped once per step.

    Raises:
        OptionError: If there is no such schedule.
    """
    if name not in SCHEDULES:
        raise OptionError(f"Expected the schedule to be {', '.join(SCHEDULES)}, but got {name!r}. Choose one of them.")
    shape = SCHEDULES[name]
    return LambdaLR(optimizer, lambda step: shape(min(1.0, step / n_steps)))
