"""Root-mean-square calibration error."""

from __future__ import annotations

from torch import Tensor

from surefoot.metrics._binned import binned, gaps, of_bins
from surefoot.metrics._input import Values
from surefoot.registry import METRICS


def _finish(sums: Tensor) -> Tensor:
    share, gap = gaps(sums)
    return (share * gap.square()).sum().sqrt()


@METRICS.register(
    "rms_ce",
    label="RMS calibration error",
    lower_is_better=True,
    range=(0.0, 1.0),
    unit="%",
    reference="Hendrycks et al. 2019, arXiv:1812.04606",
    **binned(_finish),
)
def rms_ce(probs: Values, labels: Values, weights: Values | None = None, *, n_bins: int = 15) -> Tensor:
    r"""Root-mean-square calibration error: like ECE, but large gaps weigh more.

    .. math:: \sqrt{\sum_m \frac{n_m}{n} (\mathrm{acc}(B_m) - \mathrm{conf}(B_m))^2}

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_bins: Number of bins (a, b].

    Returns:
        Scalar in [0, 1], float64; lower is better; at least the ECE of the same bins.

    Example:
        >>> from torch import tensor
        >>> rms_ce(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))
        tensor(0.2500, dtype=torch.float64)
    """
    return _finish(of_bins(probs, labels, weights, n_bins))
