"""Rows that count more than others: how weights are checked, added up, and what they are worth.

A row of weight w counts as w rows, and one of weight 0 as none: metrics are what they would be on repeated rows.
Intervals need more. By default weights say how much a row *represents* (``importance``): ten rows of weight 100 are
still ten rows. Where they are ``counts``, a row stands for so many independent ones, and all is as on repeated rows.

Sums of bins have three rows where all examples count alike: their number, the sum of confidences and the hits. With
weights they have seven:

====  ======================  =====================================================
0…2   Σ w, Σ w c, Σ w a       the same three, and all that counts need
3, 4  Σ w², Σ w² a            how uneven the weights are, of all and of hits
5     rows                    how many there are, of whatever weight
6     rows of broken weight    how many of these have a weight that is no whole number
====  ======================  =====================================================
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from surefoot.errors import InputError, OptionError
from surefoot.metrics._input import Values, as_tensor, check
from surefoot.registry import Part

WeightsAre = Literal["importance", "counts"]
ROWS, BROKEN = 5, 6  # of the sums of bins
_ADDED = 2.0  # hits, and as many misses, that stand in for those that were not seen


def check_weights(weights: Values, n: int, *, some: bool = True) -> Tensor:
    """Turn weights into a tensor, and refuse what cannot be weights.

    Args:
        weights: One number per row, of any type.
        n: How many rows there are.
        some: Whether one of them must be above 0; a batch of a stream may count for nothing.

    Returns:
        Shape ``(n,)``, float64.

    Raises:
        InputError: If they are anything else.

    Example:
        >>> check_weights([2, 0.5], 2)
        tensor([2.0000, 0.5000], dtype=torch.float64)
    """
    found = as_tensor(weights, "weights").double()
    wrong = ""
    if found.shape != (n,):
        wrong = f"shape {tuple(found.shape)} for {n:,} rows"
    elif not bool(((found >= 0) & found.isfinite()).all()):  # written so that NaN fails
        row = int((~((found >= 0) & found.isfinite())).to(torch.uint8).argmax())
        wrong = f"{found[row].item():g} in row {row}"
    elif some and not bool((found > 0).any()):
        wrong = "0 in every row"
    if wrong:
        raise InputError(
            f"Expected one weight per row, finite, none below 0 and some above, but got {wrong}. Pass how often each "
            "row counts, or leave weights out."
        )
    return found


def check_weighted(probs: Values, labels: Values, weights: Values | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Do what ``check`` does, and the same for weights; rows that do not count are left out.

    Args:
        probs: Class probabilities, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts; None where all count alike.

    Returns:
        Probabilities, labels and weights of the rows that count.

    Example:
        >>> check_weighted([[0.25, 0.75], [0.5, 0.5]], [1, 0], [0, 2])[1:]
        (tensor([0]), tensor([2.], dtype=torch.float64))
    """
    rows, numbers = check(probs, labels)
    if weights is None:
        return rows, numbers, None
    found = check_weights(weights, len(numbers)).to(rows.device)
    return without_zeros(found, rows, numbers)


def without_zeros(weights: Tensor, *columns: Tensor) -> tuple[Any, ...]:
    """Leave rows of weight 0 out: columns first, then weights."""
    counts = weights > 0
    if bool(counts.all()):
        return *columns, weights
    return *(column[counts] for column in columns), weights[counts]


def repeated(weights: Tensor, *columns: Tensor) -> tuple[Tensor, ...]:
    """Repeat rows as often as they count.

    Args:
        weights: Whole numbers, shape ``(n,)``.
        *columns: Rows, shape ``(n, …)``.

    Returns:
        The columns.

    Raises:
        InputError: If a weight is no whole number.

    Example:
        >>> repeated(torch.tensor([2.0, 0.0, 1.0]), torch.tensor([5, 6, 7]))
        (tensor([5, 5, 7]),)
    """
    if not whole(weights):
        row = int((weights != weights.floor()).to(torch.uint8).argmax())
        raise InputError(
            f"Expected whole numbers where weights are counts, but got {weights[row].item():g} in row {row}. Say "
            "weights_are='importance'."
        )
    times = weights.long()
    return tuple(column.repeat_interleave(times, 0) for column in columns)


def whole(weights: Tensor) -> bool:
    """Return whether all weights are whole numbers."""
    return bool((weights == weights.floor()).all())


def as_counts(weights: Tensor) -> Tensor:
    """Return weights for what depends on their scale: whole numbers as they are, others with a mean of 1."""
    return weights if whole(weights) else weights * (len(weights) / weights.sum())


def mean(values: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean of a value per row."""
    return values.mean() if weights is None else (weights * values).sum() / weights.sum()


def kish(weights: Tensor) -> float:
    """Return the effective number of rows, (Σw)² / Σw² (Kish 1965); 0 of none.

    Example:
        >>> kish(torch.tensor([1.0, 1.0, 1.0])), kish(torch.tensor([3.0, 1.0]))
        (3.0, 1.6)
    """
    return float(weights.sum().square() / weights.square().sum()) if len(weights) else 0.0


def check_weights_are(weights_are: str) -> None:
    """Refuse another meaning."""
    if weights_are not in ("importance", "counts"):
        raise OptionError(f"Expected weights_are importance or counts, but got {weights_are!r}.")


def sums_as(sums: Tensor, weights_are: WeightsAre) -> Tensor:
    """Return sums of bins in float64 for what the weights are: of counts the first three rows say all.

    Args:
        sums: Shape ``(3, …)`` without weights, ``(7, …)`` with them.
        weights_are: What the weights are.

    Returns:
        The sums.

    Raises:
        InputError: If weights that are no whole numbers are to be counts.
    """
    check_weights_are(weights_are)
    sums = sums.double()
    if len(sums) == 3 or weights_are == "importance":
        return sums
    if broken := int(sums[BROKEN].sum()):
        raise InputError(
            f"Expected whole numbers where weights are counts, but {broken:,} are none. Say weights_are='importance'."
        )
    return sums[:3]


def ratio(part: Tensor, count: Tensor) -> Tensor:
    """Divide sums of bins by their count, 0 where a bin is empty."""
    return part / torch.where(count > 0, count, 1.0)


def worth(count: Tensor, hits: Tensor, squares: Tensor, squares_of_hits: Tensor) -> Tensor:
    """Return of how many equal rows the share of hits would be as uncertain as it is of rows with these weights.

    Kish's number where hits and misses weigh alike. Where they do not, as in data with more of one class, the heavier
    side decides (Korn and Graubard 1998). Two hits and two misses of the usual weight are added, so that it is Kish's
    number also where there are no hits.

    Args:
        count: Σ w, any shape.
        hits: Σ w of hits.
        squares: Σ w².
        squares_of_hits: Σ w² of hits.

    Returns:
        The effective number of rows; 0 where there are none.

    Example:
        >>> one, three = torch.tensor(1.0), torch.tensor(3.0)
        >>> worth(three, one, three, one)  # three rows of weight 1
        tensor(3.)
    """
    usual = ratio(squares, count)
    total = count + 2 * _ADDED * usual
    share = ratio(hits + _ADDED * usual, total)
    of_hits = squares_of_hits + _ADDED * usual.square()
    of_misses = (squares - squares_of_hits).clamp(min=0) + _ADDED * usual.square()
    spread = of_hits * (1 - share).square() + of_misses * share.square()
    return ratio(share * (1 - share) * total * count, spread)


def sizes(sums: Tensor) -> Tensor:
    """Return the number of equal rows that each bin is worth, as a whole number: draws need one.

    Args:
        sums: Shape ``(3, n_bins)`` or ``(7, n_bins)``.

    Returns:
        Shape ``(n_bins,)``; without weights the counts.
    """
    if len(sums) == 3:
        return sums[0]
    # Rounded down, less a hair: seven equal rows are worth 6.9999… of them. A bin with a row is worth one.
    found = (worth(sums[0], sums[2], sums[3], sums[4]) + 1e-6).floor().clamp(min=1)
    return found * (sums[0] > 0)


def rows_of(sums: Tensor) -> float:
    """Return how many rows the sums are of."""
    return float(sums[0].sum() if len(sums) == 3 else sums[ROWS].sum())


def rows_as(
    part: Part, probs: Values, labels: Values, weights: Values | None, weights_are: WeightsAre
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Check rows for what the weights are: rows that stand for several are repeated, and then all count alike.

    Args:
        part: The metric that is asked for.
        probs: Class probabilities, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts; None where all count alike.
        weights_are: What the weights are.

    Returns:
        Probabilities, labels, and weights that say how much each row represents.
    """
    check_weights_are(weights_are)
    if weights is not None:
        require_weights(part)
    rows, numbers, counts = check_weighted(probs, labels, weights)
    if counts is None or weights_are == "importance":
        return rows, numbers, counts
    rows, numbers = repeated(counts, rows, numbers)
    return rows, numbers, None


def require_weights(part: Part) -> None:
    """Refuse a metric that takes no weights.

    Args:
        part: Of the registry, or named by import path.

    Raises:
        InputError: If it, or a fact of it that would be called with weights, has no such parameter.
    """
    for what, function in ((part.name, part.build), *_facts(part)):
        if "weights" not in inspect.signature(function).parameters:
            raise InputError(
                f"Expected a metric that takes weights, but {what!r} does not. Let it take them: "
                "def metric(probs, labels, weights=None)."
            )


def _facts(part: Part) -> list[tuple[str, Callable[..., Any]]]:
    return [(f"{part.name}.{fact}", part.facts[fact]) for fact in ("sums", "top") if fact in part.facts]
