"""Area under the risk-coverage curve: how few errors there are when the unsure ones may be left out."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.metrics._binning import tied_means
from surefoot.metrics._input import Values
from surefoot.metrics._top import checked_top
from surefoot.metrics._weights import as_counts
from surefoot.registry import METRICS

_WHOLE = "it ranks every example against every other"
_REFERENCE = "Geifman et al. 2019, arXiv:1805.08206"


def risk_coverage(confidence: Tensor, correct: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the error rate among the k surest examples for k = 1 … n, averaged over the orders of ties.

    Args:
        confidence: Shape ``(n,)``.
        correct: Shape ``(n,)``.
        weights: How much each row counts; None where all count alike.

    Returns:
        Shape ``(n,)``, float64.

    Example:
        >>> risk_coverage(torch.tensor([0.9, 0.8]), torch.tensor([True, False]))
        tensor([0.0000, 0.5000], dtype=torch.float64)
    """
    if weights is not None:
        group, weight, errors = _tied(confidence, correct, weights)
        order = group.argsort(stable=True)
        mass = weights[order]
        return (mass * (errors / weight)[group[order]]).cumsum(0) / mass.cumsum(0)
    _, wrong, _ = tied_means(-confidence.double(), 1 - correct.double())
    return wrong.cumsum(0) / torch.arange(1, len(wrong) + 1)


def _tied(confidence: Tensor, correct: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the group of equal confidences of each row, the surest first, and each group's weight and errors."""
    _, group = (-confidence.double()).unique(return_inverse=True)
    return group, torch.bincount(group, weights), torch.bincount(group, weights * (1 - correct.double()))


def _weighted(weight: Tensor, errors: Tensor) -> Tensor:
    """Return the area from groups in order.

    Among the k-th surest of a group with weight w and error rate e, the risk is (E + k e) / (B + k), with E errors in
    a weight of B before. Its sum over k = 1 … w has a closed form, which holds for broken weights as well.
    """
    rate, before, wrong = errors / weight, weight.cumsum(0) - weight, errors.cumsum(0) - errors
    steps = torch.digamma(before + weight + 1) - torch.digamma(before + 1)
    return (errors + (wrong - rate * before) * steps).sum() / weight.sum()


def _aurc(confidence: Tensor, correct: Tensor, weights: Tensor | None = None) -> Tensor:
    if weights is not None:
        return _weighted(*_tied(confidence, correct, as_counts(weights))[1:])
    return risk_coverage(confidence, correct).mean()


def _e_aurc(confidence: Tensor, correct: Tensor, weights: Tensor | None = None) -> Tensor:
    if weights is not None:
        weights = as_counts(weights)
        ideal = _weighted(*_tied(correct.double(), correct, weights)[1:])
        return (_aurc(confidence, correct, weights) - ideal).clamp(min=0)
    hits = correct.double().sort(descending=True).values  # the ideal ranking: all right ones first
    ideal = risk_coverage(torch.arange(len(hits), 0, -1), hits).mean()
    return (_aurc(confidence, correct) - ideal).clamp(min=0)  # below 0 by rounding only


@METRICS.register(
    "aurc",
    label="AURC",
    lower_is_better=True,
    range=(0.0, 1.0),
    unit="%",
    reference=_REFERENCE,
    whole=_WHOLE,
    top=_aurc,
    interval="log",
)
def aurc(probs: Values, labels: Values, weights: Values | None = None) -> Tensor:
    r"""Area under the risk-coverage curve: the mean over k of the error rate among the k surest examples.

    .. math:: \frac{1}{n} \sum_k \frac{1}{k} \sum_{i \le k} 1[\text{i-th surest is wrong}]

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.

    Returns:
        Scalar in [0, 1], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> aurc(tensor([[0.9, 0.1], [0.8, 0.2]]), tensor([0, 1]))  # 0, then 1/2
        tensor(0.2500, dtype=torch.float64)
    """
    return _aurc(*checked_top(probs, labels, weights))


@METRICS.register(
    "e_aurc",
    label="E-AURC",
    lower_is_better=True,
    range=(0.0, 1.0),
    unit="%",
    reference=_REFERENCE,
    whole=_WHOLE,
    top=_e_aurc,
)
def e_aurc(probs: Values, labels: Values, weights: Values | None = None) -> Tensor:
    """Excess AURC: the area less that of the ideal ranking with the same accuracy, computed exactly.

    The often-used r + (1 − r) log(1 − r), with r the error rate, is what the ideal tends to for many examples.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.

    Returns:
        Scalar in [0, 1], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> e_aurc(tensor([[0.8, 0.2], [0.9, 0.1]]), tensor([0, 1]))  # (1 + 1/2) / 2 − 1/4
        tensor(0.5000, dtype=torch.float64)
    """
    return _e_aurc(*checked_top(probs, labels, weights))
