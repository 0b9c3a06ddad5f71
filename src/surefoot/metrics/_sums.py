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
TOLERANCE = 1e-3  # half-precision softmax is off by almost this much


def check(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Refuse what cannot be probabilities and labels.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.

    Returns:
        Both as they were, without gradients.

    Raises:
        InputError: If they are anything else. Logits are never guessed.
    """
    check_shapes(probs, labels, "probs")
    probs = probs.detach()
    for start, rows in row_chunks(probs):
        check_rows(rows, start)
    return probs, labels


def check_shapes(values: Tensor, labels: Tensor, what: str) -> None:
    """Refuse shapes that do not fit and labels outside the classes.

    Args:
        values: Probabilities or logits, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.
        what: What the values are, for the message.

    Raises:
        InputError: If they do not fit.
    """
    if values.ndim != 2 or labels.shape != values.shape[:1] or not len(labels) or not values.is_floating_point():
        raise InputError(
            f"Expected {what} (n, classes) and labels (n,) with n ≥ 1, but got {tuple(values.shape)} {values.dtype} "
            f"and {tuple(labels.shape)}. Pass one row of {what} per label."
        )
    numbers = labels.detach().cpu().numpy()  # torch's threads would stay busy for a while and hold up what follows
    low, high = (0, 0) if labels.is_floating_point() else (int(numbers.min()), int(numbers.max()))
    if labels.is_floating_point() or low < 0 or high >= values.shape[1]:
        raise InputError(
            f"Expected integer labels in 0…{values.shape[1] - 1}, but got {labels.dtype} from {labels.min().item()} to "
            f"{labels.max().item()}. Number the classes from 0."
        )


def check_rows(probs: Tensor, start: int = 0) -> None:
    """Refuse rows that are not probabilities.

    Args:
        probs: Some rows.
        start: The number of the first one, for the message.

    Raises:
        InputError: If a row has a negative entry or does not sum to one.
    """
    wide = probs if probs.dtype in (torch.float32, torch.float64) else probs.float()
    # A product adds short rows up several times faster than a sum does.
    sums = wide @ wide.new_ones(wide.shape[1]) if wide.shape[1] <= 64 else wide.sum(1)
    # Written so that NaN fails: a comparison with it is false.
    if bool(((sums - 1).abs() <= TOLERANCE).all()) and bool(probs.min() >= 0):
        return
    off = ~((sums - 1).abs() <= TOLERANCE) | (probs.min(1).values < 0)
    row = int(off.to(torch.uint8).argmax())
    raise InputError(
        f"Expected rows of probs to be non-negative and to sum to 1, but row {start + row} sums to "
        f"{sums[row].item():.6g} with minimum {probs[row].min().item():.6g}. Pass logits.softmax(-1)."
    )


def row_chunks(values: Tensor, n_elements: int = 1 << 19) -> list[tuple[int, Tensor]]:
    """Split into runs of rows that stay in the processor's cache while several passes go over them.

    Args:
        values: Shape ``(n, classes)``.
        n_elements: About how many entries per chunk.

    Returns:
        The number of the first row, and the rows, for each chunk.
    """
    rows = max(1, n_elements // values.shape[1])
    return [(start, values[start : start + rows]) for start in range(0, len(values), rows)]


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
        if "sums" not in part.facts:
            raise InputError(
                f"Expected a metric that sums determine, but {name!r} needs all examples at once: "
                f"{part.facts.get('whole', 'it declares no sums')}. Call {name}(probs, labels)."
            )
        self._options = dict(part.spec(options).options)
        self._sums_of: SumsFunction = part.facts["sums"]
        self._finish: FinishFunction = part.facts["finish"]
        self._sums: Tensor | None = None

    @property
    def sums(self) -> Tensor:
        """The sums of everything seen so far, in float64."""
        if self._sums is None:
            raise InputError("Expected at least one batch before compute(), but got none. Call update() first.")
        return self._sums

    def update(self, probs: Tensor, labels: Tensor) -> None:
        """Add a batch."""
        sums = self._sums_of(*check(probs, labels), **self._options)
        self._sums = sums if self._sums is None else self._sums + sums

    def merge(self, other: Stream) -> None:
        """Add what another stream of the same metric has seen, for example on another rank."""
        if other._sums is not None:
            self._sums = other._sums.clone() if self._sums is None else self._sums + other._sums

    def compute(self) -> Tensor:
        """Return the metric on everything seen so far."""
        return self._finish(self.sums)
