"""Checked input, and the streaming twin of every metric that is a function of sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from surefoot.errors import InputError
from surefoot.registry import METRICS

SumsFunction = Callable[..., Tensor]
FinishFunction = Callable[[Tensor], Tensor]


def check(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Refuse what cannot be probabilities and labels.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.

    Returns:
        Both as they were.

    Raises:
        InputError: If they are anything else. Logits are never guessed.
    """
    if probs.ndim != 2 or labels.shape != probs.shape[:1] or not len(labels) or not probs.is_floating_point():
        raise InputError(
            f"Expected probs (n, classes) and labels (n,) with n ≥ 1, but got {tuple(probs.shape)} {probs.dtype} and "
            f"{tuple(labels.shape)}. Pass one row of probabilities per label."
        )
    if labels.is_floating_point() or labels.min() < 0 or labels.max() >= probs.shape[1]:
        raise InputError(
            f"Expected integer labels in 0…{probs.shape[1] - 1}, but got {labels.dtype} from {labels.min().item()} to "
            f"{labels.max().item()}. Number the classes from 0."
        )
    sums = probs.sum(1, dtype=torch.float64)
    off = ~((sums - 1).abs() <= 1e-3) | (probs.min(1).values < 0)  # NaN is off too
    if off.any():
        row = int(off.to(torch.uint8).argmax())
        raise InputError(
            f"Expected rows of probs to be non-negative and to sum to 1, but row {row} sums to {sums[row].item():.6g} "
            f"with minimum {probs[row].min().item():.6g}. Pass logits.softmax(-1)."
        )
    return probs, labels


class Stream:
    """A metric over batches: the same number as on all examples at once, from sums in float64.

    Args:
        name: A registered metric.
        **options: Its options.

    Example:
        >>> from torch import tensor
        >>> stream = Stream("accuracy")
        >>> stream.update(tensor([[0.9, 0.1]]), tensor([0]))
        >>> stream.update(tensor([[0.8, 0.2]]), tensor([1]))
        >>> stream.compute()
        tensor(0.5000, dtype=torch.float64)
    """

    def __init__(self, name: str, **options: Any) -> None:
        part = METRICS[name]
        self._options = dict(part.spec(options).options)
        self._sums_of: SumsFunction = part.facts["sums"]
        self._finish: FinishFunction = part.facts["finish"]
        self._sums: Tensor | None = None

    def update(self, probs: Tensor, labels: Tensor) -> None:
        """Add a batch."""
        sums = self._sums_of(*check(probs, labels), **self._options)
        self._sums = sums if self._sums is None else self._sums + sums

    def merge(self, other: Stream) -> None:
        """Add what another stream of the same metric has seen, for example on another rank."""
        if other._sums is not None:
            self._sums = other._sums.clone() if self._sums is None else self._sums + other._sums

    def compute(self) -> Tensor:
        """Give the metric on everything seen so far."""
        if self._sums is None:
            raise InputError("Expected at least one batch before compute(), but got none. Call update() first.")
        return self._finish(self._sums)
