"""Adaptive (equal-mass) expected calibration error."""

from __future__ import annotations

from torch import Tensor

from surefoot.metrics._binning import equal_mass_sums
from surefoot.metrics._input import Values
from surefoot.metrics._top import checked_top
from surefoot.registry import METRICS


def _of_top(confidence: Tensor, correct: Tensor, weights: Tensor | None = None, *, n_bins: int = 15) -> Tensor:
    count, total, hits = equal_mass_sums(confidence, correct, n_bins, weights).unbind()
    return (total - hits).abs().sum() / count.sum()


@METRICS.register(
    "ada_ece",
    label="adaptive ECE",
    lower_is_better=True,
    range=(0.0, 1.0),
    unit="%",
    reference="Nguyen and O'Connor 2015, arXiv:1508.05154; Mukhoti et al. 2020, arXiv:2002.09437",
    whole="where to cut into equal parts depends on every confidence",
    top=_of_top,
    interval="none",
)
def ada_ece(probs: Values, labels: Values, weights: Values | None = None, *, n_bins: int = 15) -> Tensor:
    """Adaptive ECE: mean gap between confidence and accuracy over bins that hold equally many examples.

    Sorted examples are cut into ``n_bins`` near-equal runs. No example is dropped; where a cut falls among equal
    confidences (many are exactly 1), each side gets its share of them with their mean correctness.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike. Where they are not all whole
            numbers, the bins hold exactly equal weight.
        n_bins: Number of bins.

    Returns:
        Scalar in [0, 1], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> ada_ece(tensor([[0.75, 0.25], [0.0, 1.0]]), tensor([1, 1]), n_bins=2)  # gaps .75 and 0
        tensor(0.3750, dtype=torch.float64)
    """
    return _of_top(*checked_top(probs, labels, weights), n_bins=n_bins)
