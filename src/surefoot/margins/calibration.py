"""ECE from logits, exact in the tail: what the certificates compare with moments like e^{-1000}."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.errors import OptionError
from surefoot.margins.margin import check_logits, log_odds_against, softplus


def log_ece(logits: Tensor, labels: Tensor, *, n_bins: int = 15) -> Tensor:
    r"""Natural logarithm of the binned expected calibration error, with full relative precision however small it is.

    A probability in float64 cannot be closer to one than 1e-16, so an ECE computed from probabilities has an absolute
    error of that size. Here a right prediction enters by :math:`1 - \hat p` and a wrong one by :math:`\hat p`, both
    from logits; only where a bin holds both kinds do they cancel. On usual data it is the logarithm of
    ``surefoot.metrics.ece``.

    Args:
        logits: Shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.
        n_bins: Equal-width bins (a, b].

    Returns:
        Scalar, float64; −∞ where the ECE is zero.

    Raises:
        OptionError: If there is no bin.

    Example:
        >>> log_ece(torch.tensor([[1e4, 0.0]]), torch.tensor([0]))
        tensor(-10000., dtype=torch.float64)
    """
    if n_bins < 1:
        raise OptionError(f"Expected n_bins ≥ 1, but got {n_bins}. 15 is usual.")
    z = check_logits(logits, labels)
    predicted = z.argmax(1)
    against = log_odds_against(z, predicted)
    log_confidence = -softplus(against)
    right = predicted == labels
    signed = torch.where(right, -softplus(-against), log_confidence)  # log(1 − p̂) where right, log p̂ where wrong
    index = ((log_confidence.exp() * n_bins).ceil().long() - 1).clamp(0, n_bins - 1)
    gaps = []
    for b in index.unique().tolist():
        under = signed[(index == b) & right].logsumexp(0)
        over = signed[(index == b) & ~right].logsumexp(0)
        gaps.append(log_difference(under, over))
    return torch.stack(gaps).logsumexp(0) - torch.log(torch.tensor(float(len(z)), dtype=z.dtype))


def log_difference(a: Tensor, b: Tensor) -> Tensor:
    """Return log |eᵃ − eᵇ|; −∞ counts as zero.

    Args:
        a: Scalar.
        b: Scalar.

    Returns:
        Scalar.

    Example:
        >>> log_difference(torch.tensor(0.0), torch.tensor(-torch.inf))
        tensor(0.)
    """
    high, low = torch.maximum(a, b), torch.minimum(a, b)
    if low == -torch.inf:
        return high
    return high + torch.log(-torch.expm1(low - high))
