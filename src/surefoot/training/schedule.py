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
Factor = Callable[[Callable[[float], float], int], float]  # the schedule's shape and the step → times the learning rate


def make_schedule(name: str, optimizer: Optimizer, n_steps: int, factor: Factor | None = None) -> LambdaLR:
    """Attach a schedule to an optimizer.

    Args:
        name: ``"cosine"``, ``"linear"`` (both end at 0) or ``"constant"``.
        optimizer: Its groups' learning rates are scaled.
        n_steps: Length of the run.
        factor: Makes something else of the shape, such as cycles; else it is stretched over the run.

    Returns:
        A scheduler to be stepped once per step.

    Raises:
        OptionError: If there is no such schedule.
    """
    if name not in SCHEDULES:
        raise OptionError(f"Expected the schedule to be {', '.join(SCHEDULES)}, but got {name!r}. Choose one of them.")
    shape = SCHEDULES[name]
    if factor is not None:
        return LambdaLR(optimizer, lambda step: factor(shape, min(step, n_steps)))
    return LambdaLR(optimizer, lambda step: shape(min(1.0, step / n_steps)))
