"""The top label: each example's confidence and whether it is right, from probabilities or from logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import InputError
from surefoot.metrics._input import TOLERANCE, Values, as_tensors, check_rows, row_chunks, widened
from surefoot.metrics._weights import check_weights, mean, require_weights, without_zeros
from surefoot.registry import METRICS

_SHORT = 64  # classes
_HALF = 0.51  # above it a probability is the only largest one, rounded sums included


def top_label(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return each example's confidence and whether its most likely class (the first of equals) is the true one.

    Args:
        probs: Class probabilities, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.

    Returns:
        Two tensors of shape ``(n,)``.

    Example:
        >>> top_label(torch.tensor([[0.25, 0.75], [0.5, 0.5]]), torch.tensor([1, 1]))
        (tensor([0.7500, 0.5000]), tensor([ True, False]))
    """
    confidence = widened(probs.amax(1))
    return confidence, _is_top(probs, labels, confidence, confidence)


def top_label_of_logits(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return confidence and correctness without writing the softmax down.

    The confidence is 1 / Σ exp(z − max z), and the predicted class is that of the largest *logit*, also where the
    probabilities of several classes round to the same number.

    Args:
        logits: Shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.

    Returns:
        Two tensors of shape ``(n,)``.
    """
    logits = logits.detach()
    confidence = logits.new_empty(len(logits), dtype=torch.promote_types(logits.dtype, torch.float32))
    correct = logits.new_empty(len(logits), dtype=torch.bool)
    for start, rows in row_chunks(logits):
        here = slice(start, start + len(rows))
        highest = rows.amax(1)
        torch.reciprocal((rows - highest[:, None]).exp_().sum(1, dtype=confidence.dtype), out=confidence[here])
        correct[here] = _is_top(rows, labels[here], highest, confidence[here])
    return confidence, correct


def _is_top(rows: Tensor, labels: Tensor, highest: Tensor, confidence: Tensor) -> Tensor:
    """Say where the true class is the first of those with the highest value.

    That it has the highest value is quickly seen. Only where that is not more than about half of all can another
    class have it too, and come first. Where many rows are of that kind, ties are looked for all at once beforehand.
    """
    correct = rows.gather(1, labels[:, None]).squeeze(1) == highest
    shared = (correct & (confidence <= _HALF)).nonzero().squeeze(1)
    many = len(shared) > len(rows) // 8
    if len(shared) and (not many or int(torch.count_nonzero(rows == highest[:, None])) > len(rows)):
        correct[shared] = rows[shared].argmax(1) == labels[shared]
    return correct


def checked_top(probs: Values, labels: Values, weights: Values | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Do what :func:`checked_top_label` does, and leave rows out that do not count.

    Args:
        probs: Class probabilities, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts; None where all count alike.

    Returns:
        Confidence, correctness and weights of the rows that count.
    """
    confidence, correct = checked_top_label(probs, labels)
    if weights is None:
        return confidence, correct, None
    return without_zeros(check_weights(weights, len(correct)).to(correct.device), confidence, correct)


def checked_top_label(probs: Values, labels: Values) -> tuple[Tensor, Tensor]:
    """Do what ``check`` and :func:`top_label` do, in one walk through memory.

    Args:
        probs: Class probabilities, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.

    Returns:
        Confidence and correctness, shape ``(n,)``.
    """
    probs, labels = as_tensors(probs, labels, "probs")
    if probs.shape[1] <= _SHORT and probs.dtype in (torch.float32, torch.float64) and probs.device.type == "cpu":
        return _of_short_rows(probs, labels)
    confidence = probs.new_empty(len(probs))
    correct = probs.new_empty(len(probs), dtype=torch.bool)
    for start, rows in row_chunks(probs):
        check_rows(rows, start)
        here = slice(start, start + len(rows))
        torch.amax(rows, 1, out=confidence[here])
        correct[here] = _is_top(rows, labels[here], confidence[here], confidence[here])
    return widened(confidence), correct


def _of_short_rows(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Do the same class by class: for rows that are shorter than a vector of the processor, several times faster.

    In NumPy: on pieces that stay in the cache, torch starts its threads for each step.
    """
    p, y = probs.numpy(), labels.numpy()
    confidence, correct = np.empty(len(p), p.dtype), np.empty(len(p), np.bool_)
    chunks = row_chunks(probs)
    space = np.empty(p.shape[1] * len(chunks[0][1]), p.dtype)  # once: to get fresh memory costs more than to fill it
    for start, rows in chunks:
        here = slice(start, start + len(rows))
        columns = space[: rows.numel()].reshape(p.shape[1], len(rows))
        np.copyto(columns, p[here].T)
        top = columns.max(0, out=confidence[here])
        with np.errstate(invalid="ignore"):  # infinities of both signs
            total = columns.sum(0)
        # Written so that NaN fails: a comparison with it is false.
        if not (total.max() <= 1 + TOLERANCE and total.min() >= 1 - TOLERANCE and columns.min() >= 0):
            check_rows(rows, start)
        place = y[here] * len(rows)
        place += np.arange(len(rows))
        np.equal(columns.reshape(-1).take(place), top, out=correct[here])
        shared = np.flatnonzero(correct[here] & (top <= _HALF))
        if len(shared):
            correct[start + shared] = columns[:, shared].argmax(0) == y[start + shared]
    return torch.from_numpy(confidence), torch.from_numpy(correct)


def from_logits(name: str, logits: Values, labels: Values, weights: Values | None = None, **options: Any) -> Tensor:
    """Compute a metric from logits: for those of the top label alone without a softmax in memory.

    Args:
        name: A registered metric.
        logits: Shape ``(n, classes)``, finite.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        **options: The metric's options.

    Returns:
        What the metric gives on ``logits.softmax(1)``.

    Raises:
        InputError: If logits and labels do not fit, or a logit is not finite.

    Example:
        >>> from_logits("ece", torch.tensor([[0.0, 0.0]]), torch.tensor([0]))
        tensor(0.5000, dtype=torch.float64)
    """
    part = METRICS[name]
    options = dict(part.spec(options).options)
    logits, labels = as_tensors(logits, labels, "logits")
    counts: Tensor | None = None
    if weights is not None:
        require_weights(part)
        counts = check_weights(weights, len(labels)).to(labels.device)
        counted = counts > 0
        logits, labels, counts = logits[counted], labels[counted], counts[counted]
    more = {} if counts is None else {"weights": counts}
    if "top" not in part.facts:
        log_probs = logits.double().log_softmax(1)
        _check_finite(logits, log_probs.amax(1))
        if "each_of_logs" in part.facts:
            each: Tensor = part.facts["each_of_logs"](log_probs, labels, **options)
            return mean(each, counts)
        value: Tensor = part.build(log_probs.exp(), labels, **more, **options)
        return value
    confidence, correct = top_label_of_logits(logits, labels)
    _check_finite(logits, confidence)
    top: Callable[..., Tensor] = part.facts["top"]
    return top(confidence, correct, **more, **options)


def _check_finite(logits: Tensor, of_rows: Tensor) -> None:
    """Refuse logits of which a row's result is not finite."""
    off = ~of_rows.isfinite()
    if bool(off.any()):
        row = int(off.to(torch.uint8).argmax())
        found = logits[row].tolist()[:8]
        raise InputError(f"Expected finite logits, but row {row} is {found}. Find out where the model overflows.")


def sums_of_top(of_top: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Turn sums over confidence and correctness into sums over probabilities and labels.

    Args:
        of_top: Maps confidence, correctness, weights and options to sums.

    Returns:
        A function for :class:`~surefoot.metrics._sums.Stream`.
    """

    def sums(probs: Tensor, labels: Tensor, weights: Tensor | None = None, **options: Any) -> Tensor:
        return of_top(*top_label(probs, labels), weights, **options)

    return sums
