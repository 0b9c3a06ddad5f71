"""Classwise expected calibration error."""

from __future__ import annotations

from torch import Tensor

from surefoot.metrics._class_bins import class_bin_sums
from surefoot.metrics._input import Values, as_tensors
from surefoot.metrics._weights import check_weighted
from surefoot.registry import METRICS


def _sums(probs: Tensor, labels: Tensor, weights: Tensor | None = None, *, n_bins: int) -> Tensor:
    return class_bin_sums(probs, labels, n_bins, weights)


def ece_of_classes(sums: Tensor) -> Tensor:
    """Return the ECE of each class from its bins, for example to name the worst.

    Args:
        sums: Shape ``(3, classes, n_bins)``, or more with weights, as ``Stream("classwise_ece").sums`` has them.

    Returns:
        Shape ``(classes,)``, float64.
    """
    count, confidence, correct = sums[:3].unbind()
    return (confidence - correct).abs().sum(1) / count.sum(1)


def _finish(sums: Tensor) -> Tensor:
    return ece_of_classes(sums).mean()


@METRICS.register(
    "classwise_ece",
    label="classwise ECE",
    lower_is_better=True,
    range=(0.0, 1.0),
    unit="%",
    reference="Kull et al. 2019, arXiv:1910.12656; Nixon et al. 2019, arXiv:1904.01685",
    sums=_sums,
    finish=_finish,
    interval="none",
)
def classwise_ece(probs: Values, labels: Values, weights: Values | None = None, *, n_bins: int = 15) -> Tensor:
    r"""Classwise ECE: the mean over classes k of the ECE of p_k as a probability that the label is k.

    .. math:: \frac{1}{K} \sum_k \sum_m \frac{n_{mk}}{n} |\mathrm{freq}_k(B_{mk}) - \bar p_k(B_{mk})|

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_bins: Number of bins (a, b]; a probability of exactly 0 counts in the first.

    Returns:
        Scalar in [0, 1], float64; lower is better. Times the number of classes it is the sum that some tables give.

    Example:
        >>> from torch import tensor
        >>> classwise_ece(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))
        tensor(0.2500, dtype=torch.float64)
    """
    if weights is not None:
        return _finish(_sums(*check_weighted(probs, labels, weights), n_bins=n_bins))
    # Rows are checked where they are binned.
    return _finish(_sums(*as_tensors(probs, labels, "probs"), n_bins=n_bins))
