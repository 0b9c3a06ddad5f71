"""What cannot be repeated, and is refused: methods when they are made, loops when they step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from torch import Tensor

from surefoot.errors import InputError
from surefoot.optim._distributed import is_distributed
from surefoot.optim._passes import total_norm
from surefoot.optim.replay.recording import Claim, state_of
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.ranks import is_sharded

if TYPE_CHECKING:
    from surefoot.optim._step import Step
    from surefoot.optim.replay.replaying import Replaying

TOLERANCE = 1e-4  # by which a rehearsal may be off, relative to the gradient: a GPU may round otherwise each time
INSTEAD = "Evaluate the batch in a closure, optimizer.step(closure), or in both passes of a loop with perturbed()."


def refuse(expected: str, got: str, do: str) -> NoReturn:
    """Raise an error: ``replay`` cannot do what it should."""
    raise InputError(f"Expected {expected} with replay, but got {got}. {do}")


def check_method(optimizer: Replaying) -> None:
    """Refuse what cannot be repeated, whatever the loop does.

    Args:
        optimizer: With its model and its loss.
    """
    name, model = type(optimizer).__name__, optimizer.model
    if optimizer.replay is not True and not callable(optimizer.replay):
        raise InputError(f"Expected replay to be True or a loss function, but got {optimizer.replay!r}. Write True.")
    if model is None:
        refuse("a model whose forward pass is repeated", "none", f"Write {name}(base, model, replay=True).")
    if type(optimizer).clean is not SharpnessAware.clean:
        refuse("a clean pass at the weights as they are", f"{name}, which draws others", INSTEAD)
    if optimizer.m is not None or getattr(optimizer, "steps", 1) > 1:
        refuse("two passes of the whole batch", "m= or steps=", INSTEAD)
    if optimizer._must_replicate:
        refuse("ranks that climb together, along the mean of their gradients", "perturbation='rank'", "Leave it out.")
    kinds = {type(module).__name__ for module in model.modules()}
    if "FullyShardedDataParallel" in kinds or any(is_sharded(each) for each in optimizer.parameters()):
        refuse("whole parameters", "sharded ones", INSTEAD)


def check_step(optimizer: Replaying, step: Step) -> list[Claim]:
    """Refuse a step whose gradients are not, or not only, those of recorded passes, or whose passes have changed.

    Args:
        optimizer: Is about to step, with the clean gradients in place.
        step: What its method has noted in the clean pass.

    Returns:
        The losses to repeat.
    """
    recorder, ddp, model = optimizer._recorder, getattr(optimizer._passes, "ddp", None), optimizer.model
    claims = recorder.claims
    if not claims:
        refuse(
            "a loss that the optimizer was given, of a forward pass of its model since the last step",
            "gradients from elsewhere",
            "Call optimizer.loss(model(inputs), labels).backward(), or make the optimizer with replay=criterion; give "
            "it the model that is called: of DDP or torch.compile, what they return.",
        )
    if any(len(claim.factors) != 1 for claim in claims):
        refuse("one backward() for a loss", "several", INSTEAD)
    if step.own and len(step.clean_nll) != len(claims):
        refuse("backward() for every loss", "none for one", "Look at others under torch.no_grad().")
    if any(bool(claim.factors[0] < 0) for claim in claims):
        refuse("a loss that is scaled or added to", "one that goes up", "Do it in the loss: replay=lambda output, …")
    if is_distributed() and ddp is None:
        refuse("the DistributedDataParallel model", type(model).__name__, "Write optimizer.model = ddp.")
    if ddp is not None and not claims[-1].forward.shares:
        refuse("gradients averaged over ranks", "a last pass under no_sync()", "Let the last backward() share.")
    if ddp is not None and ddp.gradient_as_bucket_view:
        refuse("gradients that DDP writes to once", "gradient_as_bucket_view=True", "Leave it out.")
    if recorder.find_more():
        refuse("gradients of the optimizer's loss alone", "more: of another loss, or used by a step before", INSTEAD)
    if recorder.find_changed(optimizer.parameters(), writes=int(ddp is not None)):
        refuse(
            "gradients as backward() left them, to climb along",
            "changed ones",
            "Clip what is stepped on: optimizer.register_step_pre_hook(lambda *_: clip_grad_norm_(parameters, 1.0)).",
        )
    if any(claim.forward.needs_gradient or claim.call.needs_gradient for claim in claims):
        refuse("inputs that are data", "one that requires a gradient", INSTEAD)
    if any(not call.is_intact for claim in claims for call in (claim.forward, claim.call)):
        refuse("inputs and labels as they were", "some that were written to since", "Write to copies of them.")
    if model is not None and any(claim.forward.state != state_of(model) for claim in claims):
        refuse("weights and modes as in the forward pass", "others", "Call step() before anything changes them.")
    return claims


def check_rehearsal(clean: Sequence[Tensor | None], found: Sequence[Tensor | None]) -> None:
    """Refuse to go on if the clean pass, made again, gives another gradient.

    Args:
        clean: The gradients in place, by parameter.
        found: Those of the rehearsal.
    """
    pairs = [(a, b) for a, b in zip(clean, found, strict=True) if a is not None or b is not None]
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    norm, gap = total_norm([a for a, _ in both]), total_norm([a - b for a, b in both])
    if len(both) < len(pairs) or (gap > TOLERANCE * norm and math.isfinite(norm)):  # else a scaler leaves it out
        refuse(
            "the same gradient from the same pass",
            f"one that is off by {gap:.2g} of {norm:.2g}",
            "A penalty on the weights, a term of another forward pass, or a model that changes, or draws from a "
            f"generator of its own, would do this. {INSTEAD}",
        )
