"""One step on one batch: what is called, in which precision, and in how many pieces."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from surefoot.batches import batches
from surefoot.errors import OptionError
from surefoot.losses._base import Batch, Loss
from surefoot.optim import ESAM, Parts, Wrapper
from surefoot.schema import LossTerms

Precision = Literal["fp32", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class Evaluation(nn.Module):
    """A network together with its loss, as a step calls them.

    One module around both, so that DDP, which goes around this one, sees all that a loss calls, be it the network or
    one of its heads.

    Args:
        model: The network, compiled or not.
        loss: What is minimised; its buffers are no part of this module.
        precision: Of products in the forward pass; weights, sums and the loss itself are in float32.
    """

    def __init__(self, model: nn.Module, loss: Loss, precision: Precision = "fp32") -> None:
        super().__init__()
        self.model = model
        self._loss = (loss,)
        self._low = precision == "bf16"

    def forward(self, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Return the terms of a batch, and the outputs that the loss wants to observe."""
        if not self._low:
            return self._loss[0].evaluate(self.model, batch)
        with torch.autocast(batch.inputs.device.type, torch.bfloat16):
            terms, outputs = self._loss[0].evaluate(self.model, batch)
        return terms, outputs.float()


def check_precision(text: str) -> Precision:
    """Return a precision, if it is one."""
    for precision in PRECISIONS:
        if precision == text:
            return precision
    raise OptionError(f"Expected --precision {' or '.join(PRECISIONS)}, but got {text!r}. Choose one of them.")


def check_pieces(n: int, optimizer: Wrapper) -> int:
    """Return into how many pieces batches are cut, if the optimizer can go through them one after another.

    Args:
        n: How many.
        optimizer: One that works on parts of a batch itself cannot.

    Returns:
        The number.

    Raises:
        OptionError: If it is no number of pieces, or the optimizer cuts batches itself.
    """
    if n < 1:
        raise OptionError(f"Expected --accumulate ≥ 1, but got {n}. Write 1, or leave it out.")
    if n > 1 and (isinstance(optimizer, ESAM) or getattr(optimizer, "m", None) is not None):
        name = type(optimizer).__name__
        raise OptionError(
            f"Expected an optimizer that takes a batch as a whole with --accumulate, but {name} works on parts of "
            "it. Leave one of the two out."
        )
    return n


def take_step(called: nn.Module, optimizer: Wrapper, batch: Batch, pieces: int = 1) -> tuple[Tensor | None, Tensor]:
    """Make one step.

    Args:
        called: An :class:`Evaluation`, or DDP around it.
        optimizer: Makes the passes that it needs.
        batch: The examples, with what was drawn for them.
        pieces: One after another through the network, so that less has to be in memory at once.

    Returns:
        The loss before the step, and the outputs there, without gradient.
    """
    clean: list[Tensor] = []

    def losses(part: slice | Tensor) -> LossTerms:
        terms, outputs = called(batch[part])
        if isinstance(part, slice) and (part.start or 0) == sum(map(len, clean)):
            clean.append(outputs.detach())  # the first look at these examples is at the weights before the step
        return terms  # type: ignore[no-any-return]  # of Evaluation.forward

    closure: Callable[..., Any] = Parts(losses, n=len(batch))
    if pieces > 1:
        closure = _in_pieces(losses, called, optimizer, len(batch), pieces)
    loss = optimizer.step(closure)
    return loss, torch.cat(clean)


def _in_pieces(
    losses: Callable[[slice], LossTerms], called: nn.Module, optimizer: Wrapper, n: int, pieces: int
) -> Callable[[], Tensor]:
    """Make a closure that differentiates one piece of the batch after another and adds the gradients up."""
    unshared: Callable[[], AbstractContextManager[None]] = getattr(called, "no_sync", nullcontext)
    parts = list(batches(n, -(-n // pieces)))

    def accumulate() -> Tensor:
        summed = torch.zeros(())
        for part in parts:
            with nullcontext() if part is parts[-1] else unshared():
                loss = optimizer.reduce(losses(part)) * ((part.stop - part.start) / n)
                loss.backward()
            summed = summed + loss.detach().cpu()
        return summed

    return accumulate
