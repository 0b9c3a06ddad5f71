"""Expected calibration error."""

from __future__ import annotations

from torch import Tensor

from surefoot.metrics._binned import binned, of_bins
from surefoot.metrics._input import Values
from surefoot.registry import METRICS


def _finish(sums: Tensor) -> Tensor:
    count, confidence, correct = sums[:3].unbind()
    return (confidence - correct).abs().sum() / count.sum()


@METRICS.register(
    "ece",
    label="ECE",
    lower_is_better=True,
    range=(0.0, 1.0),
    unit="%",
    reference="Guo et al. 2017, arXiv:1706.04599",
    **binned(_finish, interval="corrected"),
)
def ece(probs: Values, labels: Values, weights: Values | None = None, *, n_bins: int = 15) -> Tensor:
    r"""Expected calibration error: mean gap between confidence and accuracy over equal-width bins.

    .. math:: \sum_m \frac{n_m}{n} |\mathrm{acc}(B_m) - \mathrm{conf}(B_m)|

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_bins: Number of bins (a, b].

    Returns:
        Scalar in [0, 1], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> ece(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))  # 75 % sure, 50 % right
        tensor(0.2500, dtype=torch.float64)
    """
    return _finish(of_bins(probs, labels, weights, n_bins))
