"""Plain loops, ``zero_grad(); loss.backward(); optimizer.step()``: the optimizer repeats the forward pass by itself.

``CSAM(base, model, replay=True)`` listens to the model and to ``optimizer.loss``. At ``step`` the clean gradients are
in place; it climbs along them, calls the model again with what it was given, takes the same loss of the new output,
differentiates it with the factor that arrived at the first one, comes back and steps.

All that could make the repetition another pass is looked for, and refused. What is not seen from outside, such as a
penalty on the weights in the same backward pass, is found by a rehearsal: the first step that is repeated, the second,
the fourth and so on make the clean pass once more, too, and compare.
"""

from __future__ import annotations

from typing import Any

from surefoot.errors import InputError
from surefoot.optim.replay.replaying import listening
from surefoot.optim.sharpness_aware import SharpnessAware


def make(cls: Any, replay: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Make an optimizer that repeats forward passes by itself.

    Args:
        cls: Its class.
        replay: True for cross-entropy by ``optimizer.loss``, or a loss: a module, which is listened to wherever it is
            called, or a function, which is called by ``optimizer.loss``.
        args: What the class is given.
        options: What it is given by name.

    Returns:
        An optimizer of that class.

    Raises:
        InputError: If it makes no second pass that could be repeated.
    """
    if replay is False:
        return cls(*args, **options)
    if not issubclass(cls, SharpnessAware):
        raise InputError(f"Expected a method with a second pass for replay, but got {cls.__name__}. Leave it out.")
    optimizer = listening(cls)(*args, **options)
    optimizer.start(replay)
    return optimizer
