"""True and predicted margins of logits, and the chances that go with them, in log space."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.errors import InputError


def check_logits(logits: Tensor, labels: Tensor | None = None) -> Tensor:
    """Take logits as float64 and refuse what is not one row of at least two finite numbers per example.

    Args:
        logits: Shape ``(n, classes)``.
        labels: Shape ``(n,)``, or None where they do not matter.

    Returns:
        The logits in float64.

    Raises:
        InputError: If a shape or a value cannot be.
    """
    if logits.ndim != 2 or logits.shape[1] < 2 or len(logits) == 0:
        raise InputError(f"Expected logits (n, classes ≥ 2), but got {tuple(logits.shape)}. Pass one row per example.")
    if not bool(logits.isfinite().all()):
        raise InputError("Expected finite logits, but some are not. Check whether training has diverged.")
    if labels is not None and (
        labels.shape != logits.shape[:1] or bool((labels < 0).any()) or bool((labels >= logits.shape[1]).any())
    ):
        raise InputError(
            f"Expected {len(logits)} labels in 0 … {logits.shape[1] - 1}, but got shape {tuple(labels.shape)} or "
            "values outside. Pass class indices."
        )
    return logits.double()


def true_margin(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Lead of the true class over the best other: :math:`m = z_y - \max_{j \ne y} z_j`.

    Args:
        logits: Shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.

    Returns:
        Shape ``(n,)``, float64; negative where the prediction is wrong. Differentiable.

    Example:
        >>> true_margin(torch.tensor([[2.0, 0.5, -1.0], [3.0, -2.0, 0.0]]), torch.tensor([0, 1]))
        tensor([ 1.5000, -5.0000], dtype=torch.float64)
    """
    z = check_logits(logits, labels)
    own = z.gather(1, labels[:, None])
    others = z.scatter(1, labels[:, None], -torch.inf)
    return own[:, 0] - others.max(1).values


def predicted_margin(logits: Tensor) -> Tensor:
    r"""Lead of the predicted class: :math:`\hat m = z_{(1)} - z_{(2)} \ge 0`.

    Args:
        logits: Shape ``(n, classes)``.

    Returns:
        Shape ``(n,)``, float64.

    Example:
        >>> predicted_margin(torch.tensor([[2.0, 0.5, -1.0], [3.0, -2.0, 0.0]]))
        tensor([1.5000, 3.0000], dtype=torch.float64)
    """
    top = check_logits(logits).topk(2, dim=1).values
    return top[:, 0] - top[:, 1]


def log_odds_against(logits: Tensor, labels: Tensor) -> Tensor:
    r"""Return :math:`s = \log \sum_{j \ne y} e^{z_j - z_y}`, from which both p_y and 1 − p_y follow without loss.

    :math:`\log p_y = -\mathrm{softplus}(s)` and :math:`\log(1 - p_y) = -\mathrm{softplus}(-s)`.

    Args:
        logits: Shape ``(n, classes)``.
        labels: Shape ``(n,)``.

    Returns:
        Shape ``(n,)``, float64.

    Example:
        >>> log_odds_against(torch.tensor([[1e4, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]))
        tensor([-10000.,      0.], dtype=torch.float64)
    """
    z = check_logits(logits, labels)
    return z.scatter(1, labels[:, None], -torch.inf).logsumexp(1) - z.gather(1, labels[:, None])[:, 0]


def softplus(s: Tensor) -> Tensor:
    """Return log(1 + eˢ) to full precision at both ends, where torch's own switches to a straight line."""
    return torch.logaddexp(s, torch.zeros_like(s))


def log_softplus(s: Tensor) -> Tensor:
    """Return log(log(1 + eˢ)) without underflow: s itself for very negative s.

    Args:
        s: Any values.

    Returns:
        The same shape.

    Example:
        >>> log_softplus(torch.tensor([-10000.0, 0.0], dtype=torch.float64))
        tensor([-1.0000e+04, -3.6651e-01], dtype=torch.float64)
    """
    return torch.where(s < -40, s, softplus(s.clamp_min(-40)).log())


def log_mean_exp(values: Tensor) -> Tensor:
    """Return log of the mean of the exponentials, without overflow."""
    return values.logsumexp(0) - torch.log(torch.tensor(float(len(values)), dtype=values.dtype))


def log_one_minus_exp(log_p: Tensor) -> Tensor:
    """Return log(1 − p) from log p ≤ 0, to full relative precision at both ends.

    Args:
        log_p: Values ≤ 0.

    Returns:
        The same shape; −∞ at 0.

    Example:
        >>> log_one_minus_exp(torch.tensor([-1e-20, -50.0], dtype=torch.float64))
        tensor([-4.6052e+01, -1.9287e-22], dtype=torch.float64)
    """
    near_one = torch.log(-torch.expm1(log_p))
    near_zero = torch.log1p(-torch.exp(log_p))
    return torch.where(log_p > -0.6931471805599453, near_one, near_zero)
