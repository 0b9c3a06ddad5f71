"""What is known of one step, dropped with it; and the steps that are not two passes of one closure."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from surefoot.batches import batches
from surefoot.errors import DivergedError, InputError
from surefoot.optim._closure import Closure, Leftovers, Parts
from surefoot.optim._networks import Buffers
from surefoot.optim._passes import clean_gradient, finite, gradients
from surefoot.optim.facts import StepFacts
from surefoot.seeding import RngState

if TYPE_CHECKING:
    from torch.amp import GradScaler

    from surefoot.optim._wrapper import Wrapper
    from surefoot.optim.sharpness_aware import SharpnessAware


HOW_TO_CLIMB = """Expected a step that climbs, but got step() after one backward(): {} would step alone. Write
    optimizer.step(lambda: cross_entropy(model(inputs), labels, reduction="none"))
in the place of both, or put a second pass between them:
    with optimizer.perturbed():
        optimizer.loss(model(inputs), labels).backward()
    optimizer.step()
Or make the optimizer with replay=True, which repeats the pass by itself where it can: see docs/plain_loops.md."""
WHOSE_LOSS = (
    "Expected the loss of {}, which weighs single examples, to come from the optimizer, but got another. "
    "Call optimizer.loss(model(inputs), labels).backward(), or optimizer.reduce(LossTerms(…)).backward()"
)
ONE_PASS = (
    "Expected one perturbed pass per step, but got a second one, which would clear the first one's gradients. Evaluate "
    "all micro-batches of a step in its clean pass, then all of them in one `with optimizer.perturbed():`; call "
    "optimizer.zero_grad() to begin a step anew."
)


@dataclass
class Step:
    """What is known of one step, from its start until it is made; then it is dropped."""

    before: RngState | None = None  # of the global generators, at the start of the clean pass
    due: bool = True  # whether the step may climb
    climbs: bool | None = None  # whether it does, once that is decided
    climbed: bool = False
    passed: bool = False  # whether a loop without closure has made its perturbed pass
    perturbed: bool = False  # whether the pass that is running is at the perturbed weights
    apart: Any = None  # the replicas, while the gradients in place are this rank's alone
    error: DivergedError | None = None
    clean_nll: list[Tensor | None] = field(default_factory=list)  # −log p_y of each batch, None where it is not known
    perturbed_nll: list[Tensor | None] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)  # what a method notes from one pass to the next
    in_closure: bool = False
    leftovers: Leftovers = field(default_factory=dict)
    buffers: Buffers | None = None
    loss: Tensor | None = None

    def check_finite(self, value: float, what: str) -> None:
        """Note that something is not finite; the end of the step, or a scaler, decides what to do about it."""
        try:
            finite(value, what)
        except DivergedError as error:
            self.error = self.error or error


@dataclass
class Ongoing:
    """The step that is going on. Lightning's double of an optimizer shares this object, but sets no attributes."""

    step: Step | None = None
    scaler_asked: bool = False


def note_scaler(optimizer: Wrapper) -> bool:
    """Answer a scaler that it unscales the gradients itself, and remember that it has asked."""
    optimizer._ongoing.scaler_asked = True
    return False


def skip(optimizer: Wrapper, step: Step, error: DivergedError) -> None:
    """Undo a step in which something was not finite, and say so once.

    Args:
        optimizer: Whose step.
        step: Has the buffers from before it.
        error: What was not finite.

    Raises:
        InputError: If there are no buffers to put back.
    """
    if step.buffers is None:
        raise InputError(
            "Expected optimizer.zero_grad() at the start of a step that may be skipped, but it was not called: "
            f"buffers cannot be put back. {error}"
        ) from error
    step.buffers.restore()
    optimizer.base.zero_grad()
    optimizer.facts = StepFacts(loss=math.nan if step.loss is None else step.loss.item(), passes=1, skipped=True)
    if not optimizer._warned:
        optimizer._warned = True
        warnings.warn(f"A step was skipped, and later ones like it will be without a word: {error}", stacklevel=4)


def evaluate_parts(
    optimizer: SharpnessAware, size: int, step: Step, closure: Closure, scaler: GradScaler | None
) -> Tensor:
    """Let every part of a batch climb on its own, and average the gradients that they find.

    Args:
        optimizer: Makes the passes of each part.
        size: Examples per part, at most.
        step: Learns what the parts have seen: losses and norms are averaged, examples are concatenated.
        closure: A :class:`Parts`.
        scaler: Scales the losses.

    Returns:
        The clean loss of the batch.

    Raises:
        InputError: If the closure cannot evaluate parts.
    """
    if not isinstance(closure, Parts):
        raise InputError(
            f"Expected a closure that can evaluate parts of {size} examples, but got {type(closure).__name__}. "
            "Pass Parts(lambda part: losses(inputs[part], labels[part]), n=len(labels))."
        )
    n, passes = len(closure), optimizer._passes
    sums: dict[Tensor, Tensor] = {}
    parts: list[tuple[float, Step]] = []
    losses: list[Tensor] = []
    with passes.unshared():
        for slice_ in batches(n, size):
            share = (slice_.stop - slice_.start) / n
            part = Step(due=step.due, own=step.own, leftovers=step.leftovers)
            optimizer._ongoing.step = part  # which the closure's losses belong to
            try:
                losses.append(share * optimizer._two_passes(part, partial(closure, slice_), scaler))
            finally:
                step.leftovers = part.leftovers
            parts.append((share, part))
            for parameter in optimizer.parameters():
                if (grad := parameter.grad) is not None:
                    sums[parameter] = sums[parameter].add_(grad, alpha=share) if parameter in sums else grad.mul_(share)
                    parameter.grad = None
    for parameter, total in sums.items():
        parameter.grad = total
    _join(step, parts)
    passes.average(optimizer, step)
    return torch.stack(losses).sum()


def _join(step: Step, parts: list[tuple[float, Step]]) -> None:
    """Put the parts of one step together."""
    for name in parts[0][1].facts:
        values: list[Any] = [part.facts.get(name) for _, part in parts]
        known = all(value is not None for value in values)
        shares = [share for share, _ in parts]
        step.facts[name] = sum(map(operator.mul, shares, values)) if known else None
    step.climbed = any(part.climbed for _, part in parts)
    step.error = next((part.error for _, part in parts if part.error is not None), None)
    for _, part in parts:
        step.clean_nll += part.clean_nll
        step.perturbed_nll += part.perturbed_nll


@contextmanager
def explicit_pass(optimizer: SharpnessAware, scaler: GradScaler | None) -> Iterator[None]:
    """Surround the second pass of a loop without closure.

    Args:
        optimizer: Has the clean gradients in place.
        scaler: Scaled the clean loss, and will scale the perturbed one.

    Raises:
        InputError: If there are no gradients to climb along, or none of this pass at its end, or if its loss has
            not come from the optimizer, where the method makes something of single examples; if the step has had its
            perturbed pass, whose gradients this one would clear; if parts of the batch should climb on their own.
    """
    step = optimizer._ongoing.step or optimizer._begin()
    if step.passed:
        raise InputError(ONE_PASS)
    if optimizer.m is not None:
        raise InputError(
            f"Expected a closure that can evaluate parts of {optimizer.m} examples, but got a loop without closure. "
            "Pass Parts(lambda part: losses(inputs[part], labels[part]), n=len(labels)) to step(), or leave m out."
        )
    step.error = None  # gradients may have been clipped since they were looked at
    scale = 1.0 if scaler is None else scaler.get_scale()
    with torch.no_grad():
        clean = clean_gradient(optimizer, step, scale)
        if not clean.params and step.apart is None:
            raise InputError("Expected gradients to climb along, but got none. Call backward() on the loss first.")
        with optimizer._perturbed(step, clean, scale), torch.enable_grad():
            yield
            if step.apart is None and not gradients(optimizer.parameters()):
                raise InputError(
                    "Expected gradients at the perturbed weights, but got none. "
                    "Call backward() on the loss inside `with optimizer.perturbed():`."
                )
            if optimizer.needs_per_example and not step.perturbed_nll:
                raise InputError(f"{WHOSE_LOSS.format(type(optimizer).__name__)} inside `with optimizer.perturbed():`.")
            step.passed = True


def use_gradients(optimizer: SharpnessAware, step: Step) -> None:
    """Take the gradients that a loop without closure has left to step on.

    Args:
        optimizer: Is stepped.
        step: Says whether there was a second pass.

    Raises:
        InputError: If there was none, and the step should have climbed.
    """
    if step.climbed:
        return
    clean = clean_gradient(optimizer, step)
    if step.error is None and clean.norm != 0:  # there is no climb along a gradient of zero
        if step.climbs:
            raise InputError(HOW_TO_CLIMB.format(type(optimizer.base).__name__))
        if optimizer.needs_per_example and not (step.clean_nll or step.perturbed_nll):
            raise InputError(f"{WHOSE_LOSS.format(type(optimizer).__name__)}.")
    optimizer._keep_clean(step, clean)
