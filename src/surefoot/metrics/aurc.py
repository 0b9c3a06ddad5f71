"""Area under the risk-coverage curve: how few errors there are when the unsure ones may be left out."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.metrics._binning import tied_means
from surefoot.metrics._input import Values
from surefoot.metrics._top import checked_top_label
from surefoot.registry import METRICS

_WHOLE = "it ranks every example against every other"
_REFERENCE = "Geifman et al. 2019, arXiv:1805.08206"


def risk_coverage(confidence: Tensor, correct: Tensor) -> Tensor:
    """Return the error rate among the k surest examples for k = 1 … n, averaged over the orders of ties.

    Args:
        confidence: Shape ``(n,)``.
        correct: Shape ``(n,)``.

    Returns:
        Shape ``(n,)``, float64.

    Example:
        >>> risk_coverage(torch.tensor([0.9, 0.8]), torch.tensor([True, False]))
        tensor([0.0000, 0.5000], dtype=torch.float64)
    """
    _, wrong, _ = tied_means(-confidence.double(), 1 - correct.double())
    return wrong.cumsum(0) / torch.arange(1, len(wrong) + 1)


def _aurc(confidence: Tensor, correct: Tensor) -> Tensor:
    return risk_coverage(confidence, correct).mean()


def _e_aurc(confidence: Tensor, correct: Tensor) -> Tensor:
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
def aurc(probs: Values, labels: Values) -> Tensor:
    r"""Area under the risk-coverage curve: the mean over k of the error rate among the k surest examples.

    .. math:: \frac{1}{n} \sum_k \frac{1}{k} \sum_{i \le k} 1[\text{i-th surest is wrong}]

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.

    Returns:
        Scalar in [0, 1], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> aurc(tensor([[0.9, 0.1], [0.8, 0.2]]), tensor([0, 1]))  # 0, then 1/2
        tensor(0.2500, dtype=torch.float64)
    """
    return _aurc(*checked_top_label(probs, labels))


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
def e_aurc(probs: Values, labels: Values) -> Tensor:
    """Excess AURC: the area less that of the ideal ranking with the same accuracy, computed exactly.

    The often-used r + (1 − r) log(1 − r), with r the error rate, is what the ideal tends to for many examples.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.

    Returns:
        Scalar in [0, 1], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> e_aurc(tensor([[0.8, 0.2], [0.9, 0.1]]), tensor([0, 1]))  # (1 + 1/2) / 2 − 1/4
        tensor(0.5000, dtype=torch.float64)
    """
    return _e_aurc(*checked_top_label(probs, labels))
