"""Each class against the others: what goes into a binary calibrator, and how its answers become a distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.errors import OptionError


def log_odds(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return log p_k and log(1 − p_k) of every class, both exact where p_k is next to 1.

    Args:
        logits: Shape ``(n, classes)``.

    Returns:
        Two tensors of shape ``(n, classes)``.

    Example:
        >>> log_p, log_q = log_odds(torch.tensor([[100.0, 0.0]], dtype=torch.float64))
        >>> log_q[0, 0].item()
        -100.0
    """
    log_p = logits.log_softmax(1)
    top = log_p.argmax(1, keepdim=True)
    # 1 − p rounds to 0 for a certain class: there the others are added up instead.
    others = log_p.scatter(1, top, -torch.inf).logsumexp(1, keepdim=True)
    log_q = torch.log1p(-log_p.exp().clamp(max=0.75)).scatter(1, top, others)
    return log_p, log_q


def share_out(columns: Tensor, logits: Tensor, smoothing: float) -> Tensor:
    """Turn one number per class into log-probabilities.

    Rows are divided by their sum; a row of zeros, which no class claims, keeps its uncalibrated probabilities. Then
    every class gets its part of ``smoothing``, so that no log-likelihood is infinite.

    Args:
        columns: Non-negative, shape ``(n, classes)``.
        logits: Uncalibrated, shape ``(n, classes)``.
        smoothing: Weight of the uniform distribution.

    Returns:
        Log-probabilities, shape ``(n, classes)``.
    """
    total = columns.sum(1, keepdim=True)
    shares = torch.where(total > 0, columns / total.clamp(min=1e-300), logits.softmax(1))
    return (shares * (1 - smoothing) + smoothing / logits.shape[1]).log()


def share_out_logits(log_odds_of_classes: Tensor) -> Tensor:
    """Do what :func:`share_out` does for probabilities given by their log-odds, none of which is 0.

    Args:
        log_odds_of_classes: Shape ``(n, classes)``.

    Returns:
        Log-probabilities, shape ``(n, classes)``.
    """
    return torch.nn.functional.logsigmoid(log_odds_of_classes).log_softmax(1)


def default_smoothing(smoothing: float | None, n: float) -> float:
    """Return 1 / (n + 1), one uniform example among n, unless told otherwise.

    Args:
        smoothing: What was asked for.
        n: Number of examples fitted on, each counted by its weight.

    Returns:
        The weight of the uniform distribution.

    Raises:
        OptionError: If it is not in [0, 1].
    """
    if smoothing is None:
        return 1 / (n + 1)
    if not 0 <= smoothing <= 1:
        raise OptionError(f"Expected smoothing in [0, 1], but got {smoothing}. Leave it out for 1 / (n + 1).")
    return float(smoothing)
