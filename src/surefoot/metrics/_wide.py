"""Rows of logits so wide that their softmax is not written down: what the top label, NLL and Brier score need of them.

Of each row only the largest logit, that of the true class, Σ exp(z − max) and Σ exp(2 (z − max)) are computed, some
rows at a time, so that they stay in the processor's cache. Exponentials are taken and added up (pairwise, as torch
does) in the type of the logits, all else in float64: of float32 that is off by some 10⁻⁷, as far as the logits
themselves were rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.metrics._input import row_chunks

_AT_ONCE = 1 << 18  # entries: with their exponentials two megabytes


@dataclass(frozen=True)
class WideRows:
    """What is left of wide rows; one value each, in float64.

    Attributes:
        confidence: The largest probability.
        correct: Whether the true class is the one predicted; bool.
        log_truth: The logarithm of the true class's probability.
        squares: Sum of all squared probabilities.
    """

    confidence: Tensor
    correct: Tensor
    log_truth: Tensor
    squares: Tensor

    def values(self, name: str) -> Tensor:
        """Return the value per row that a metric of ``OF_WIDE`` is the mean of."""
        if name == "nll":
            return -self.log_truth
        if name == "brier":
            return self.squares - 2 * self.log_truth.exp() + 1
        right = self.correct.double()
        return right if name == "accuracy" else self.confidence - right


OF_WIDE = ("accuracy", "confidence_gap", "nll", "brier")  # means over rows that WideRows knows the values of


def wide_rows(logits: Tensor, labels: Tensor, scale: Tensor | None = None) -> WideRows:
    """Walk through logits once, some rows at a time.

    Args:
        logits: Shape ``(n, classes)``, finite, float32 or float64.
        labels: Class indices, shape ``(n,)``.
        scale: What multiplies each row, above 0, shape ``(n,)``; 1 when left out.

    Returns:
        What was found.

    Example:
        >>> found = wide_rows(torch.tensor([[0.0, 0.0, 0.0, 0.0]]), torch.tensor([1]))
        >>> found.confidence.item(), found.correct.item(), found.squares.item()
        (0.25, False, 0.25)
    """
    confidence, log_truth, squares = torch.empty(3, len(logits), dtype=torch.float64)
    correct = torch.empty(len(logits), dtype=torch.bool)
    chunks = row_chunks(logits, _AT_ONCE)
    space = torch.empty_like(chunks[0][1]) if chunks else logits  # once: fresh memory costs more than what fills it
    for start, rows in chunks:
        here = slice(start, start + len(rows))
        top = torch.from_numpy(rows.numpy().argmax(1))  # the first of equals; many times faster than torch's
        shares = torch.sub(rows, rows.gather(1, top[:, None]), out=space[: len(rows)])
        behind = shares.gather(1, labels[here, None]).squeeze(1).double()
        if scale is not None:
            shares.mul_(scale[here, None].to(shares.dtype))
            behind = behind * scale[here]
        shares.exp_()
        total = shares.sum(1).double()
        log_truth[here] = behind - total.log()
        squares[here] = shares.square_().sum(1).double() / total.square()
        confidence[here] = 1 / total
        correct[here] = top == labels[here]
    return WideRows(confidence, correct, log_truth, squares)
