"""Maximum calibration error."""

from __future__ import annotations

from torch import Tensor

from surefoot.metrics._binned import binned, gaps, of_bins
from surefoot.metrics._input import Values
from surefoot.registry import METRICS


def _finish(sums: Tensor) -> Tensor:
    return gaps(sums)[1].abs().max()


@METRICS.register(
    "mce",
    label="MCE",
    lower_is_better=True,
    range=(0.0, 1.0),
    unit="%",
    reference="Guo et al. 2017, arXiv:1706.04599",
    **binned(_finish),
)
def mce(probs: Values, labels: Values, weights: Values | None = None, *, n_bins: int = 15) -> Tensor:
    r"""Maximum calibration error: the largest gap between confidence and accuracy of any bin, however few are in it.

    .. math:: \max_m |\mathrm{acc}(B_m) - \mathrm{conf}(B_m)|

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_bins: Number of bins (a, b].

    Returns:
        Scalar in [0, 1], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> mce(tensor([[0.75, 0.25], [0.75, 0.25], [0.0, 1.0]]), tensor([0, 1, 1]))
        tensor(0.2500, dtype=torch.float64)
    """
    return _finish(of_bins(probs, labels, weights, n_bins))
