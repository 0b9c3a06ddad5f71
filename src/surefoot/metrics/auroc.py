"""Area under the ROC curve: of classes, of right against wrong, and the coarse one of some tables."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.errors import OptionError
from surefoot.metrics._input import Values, widened
from surefoot.metrics._ranking import two_groups
from surefoot.metrics._top import checked_top
from surefoot.metrics._weights import check_weighted
from surefoot.registry import METRICS

_REFERENCE = "Hanley and McNeil 1982; one versus rest as in Fawcett 2006, classes weighed equally"
_WHOLE = "it ranks every example against every other"


@METRICS.register(
    "auroc",
    label="AUROC (one versus rest)",
    lower_is_better=False,
    range=(0.0, 1.0),
    unit="%",
    reference=_REFERENCE,
    whole=_WHOLE,
)
def auroc(probs: Values, labels: Values, weights: Values | None = None) -> Tensor:
    """Exact one-versus-rest AUROC: the mean over classes k of how well p_k ranks examples of k above the others.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.

    Returns:
        Scalar in [0, 1], float64; higher is better. Classes that no example or every example has are left out of the
        mean; NaN when none stays.

    Example:
        >>> from torch import tensor
        >>> auroc(tensor([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]), tensor([0, 0, 1]))
        tensor(0.5000, dtype=torch.float64)
    """
    rows, truth, counts = check_weighted(probs, labels, weights)
    columns = widened(rows).t().contiguous()
    areas = [two_groups(column, truth == k, counts) for k, column in enumerate(columns)]
    return torch.stack(areas).nanmean()


def _threshold_sums(probs: Tensor, labels: Tensor, weights: Tensor | None = None, *, n_thresholds: int) -> Tensor:
    """Count, for each class, negatives and positives between neighbouring thresholds j / (n_thresholds − 1)."""
    if n_thresholds < 2:
        raise OptionError(f"Expected n_thresholds ≥ 2, but got {n_thresholds}. 15 is what some tables used.")
    n_classes = probs.shape[1]
    cells = (probs.double() * (n_thresholds - 1)).long().clamp_(0, n_thresholds - 1)
    cells += n_thresholds * torch.arange(n_classes)
    size = n_classes * n_thresholds
    if weights is not None:
        is_label = torch.nn.functional.one_hot(labels, n_classes).bool()
        of_cells = weights[:, None].expand(cells.shape)
        both = [torch.bincount(cells[these], of_cells[these], size) for these in (~is_label, is_label)]
        return torch.stack(both).view(2, n_classes, n_thresholds)
    everyone = torch.bincount(cells.flatten(), minlength=size)
    positive = torch.bincount(cells.gather(1, labels[:, None]).squeeze(1), minlength=size)
    return torch.stack([everyone - positive, positive]).view(2, n_classes, n_thresholds).double()


def _areas(sums: Tensor) -> Tensor:
    accepted = sums.flip(2).cumsum(2)
    rates = torch.nn.functional.pad(accepted / accepted[..., -1:], (1, 0))  # starts where nothing is accepted
    return torch.trapezoid(rates[1], rates[0], dim=1)


def _finish_thresholds(sums: Tensor) -> Tensor:
    return _areas(sums).nanmean()


@METRICS.register(
    "threshold_auroc",
    label="AUROC (15 thresholds)",
    lower_is_better=False,
    range=(0.0, 1.0),
    unit="%",
    reference="what the tables of the CSAM paper evidently report as AUROC",
    sums=_threshold_sums,
    finish=_finish_thresholds,
)
def threshold_auroc(probs: Values, labels: Values, weights: Values | None = None, *, n_thresholds: int = 15) -> Tensor:
    """One-versus-rest AUROC with the ROC curve taken at a few fixed thresholds only.

    Below the exact one by about half the error rate times the share of errors whose true class has less than the
    first positive threshold: it mixes accuracy and calibration. Meant for comparison with published tables.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_thresholds: Equally spaced from 0 to 1; p ≥ threshold is accepted.

    Returns:
        Scalar in [0, 1], float64; higher is better. Classes without examples are left out of the mean.

    Example:
        >>> from torch import tensor
        >>> threshold_auroc(tensor([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]), tensor([0, 0, 1]), n_thresholds=2)
        tensor(0.5000, dtype=torch.float64)
    """
    return _finish_thresholds(_threshold_sums(*check_weighted(probs, labels, weights), n_thresholds=n_thresholds))


def _misclassification_of_top(confidence: Tensor, correct: Tensor, weights: Tensor | None = None) -> Tensor:
    return two_groups(confidence, correct.bool(), weights)


@METRICS.register(
    "misclassification_auroc",
    label="AUROC of confidence",
    lower_is_better=False,
    range=(0.0, 1.0),
    unit="%",
    perfect=float("nan"),
    reference="Hendrycks and Gimpel 2017, arXiv:1610.02136",
    whole=_WHOLE,
    top=_misclassification_of_top,
    interval="delong",
)
def misclassification_auroc(probs: Values, labels: Values, weights: Values | None = None) -> Tensor:
    """Chance that a right prediction is surer than a wrong one, ties counted half.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.

    Returns:
        Scalar in [0, 1], float64; higher is better; NaN when all are right or all are wrong.

    Example:
        >>> from torch import tensor
        >>> misclassification_auroc(tensor([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]), tensor([0, 0, 1]))
        tensor(0.5000, dtype=torch.float64)
    """
    return _misclassification_of_top(*checked_top(probs, labels, weights))
