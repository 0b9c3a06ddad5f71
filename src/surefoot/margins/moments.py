"""Exponential moments of margins: the one functional that bounds both calibration error and curvature."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.errors import InputError
from surefoot.margins.margin import log_mean_exp


def log_moment(margins: Tensor) -> Tensor:
    r"""Logarithm of the exponential margin moment: :math:`\log Q = \log \tfrac1n \sum_i e^{-m_i}`.

    With robust margins it is :math:`\log Q^0_\varepsilon`, with predicted margins remark B.6's moment.

    Args:
        margins: Shape ``(n,)``.

    Returns:
        Scalar, float64.

    Example:
        >>> log_moment(torch.tensor([-1e4, 1e4]))  # e^{10000} / 2
        tensor(9999.3069, dtype=torch.float64)
    """
    return log_mean_exp(-_vector(margins))


def log_bounded_moment(margins: Tensor, n_classes: int) -> Tensor:
    r"""Logarithm of the tighter, bounded form: :math:`\tfrac1n \sum_i \sigma(\log(K-1) - m_i) \le 1`.

    Since :math:`1 - p_y = S/(1+S)` with :math:`S \le (K-1)e^{-m}`, it lies between the mean of 1 − p_y and (K−1) Q.

    Args:
        margins: Shape ``(n,)``.
        n_classes: K.

    Returns:
        Scalar, float64.

    Example:
        >>> log_bounded_moment(torch.zeros(3), 2).exp()  # a margin of 0 between two classes: 1/2
        tensor(0.5000, dtype=torch.float64)
    """
    return log_mean_exp(torch.nn.functional.logsigmoid(math.log(n_classes - 1) - _vector(margins)))


@dataclass(frozen=True)
class Moments:
    """All moments of one data set, as logarithms.

    Attributes:
        q: log Q, of true margins.
        q_zero: log Q⁰_ε, of robust margins; None without them.
        q_minus: log Q⁻_ε, weighted by e^{−ε L_m}; None without Lipschitz constants.
        q_plus: log Q⁺, weighted by e^{+ε L_m}; None without Lipschitz constants.
        bounded: log of the bounded form, of true margins.
        gamma: The smallest true margin γ(θ; D).
        share_negative: Share of examples with a true margin ≤ 0.
    """

    q: float
    q_zero: float | None
    q_minus: float | None
    q_plus: float | None
    bounded: float
    gamma: float
    share_negative: float


def margin_moments(
    margins: Tensor,
    n_classes: int,
    *,
    robust: Tensor | None = None,
    lipschitz: Tensor | None = None,
    epsilon: float = 0.0,
) -> Moments:
    """Compute all moments.

    Args:
        margins: True margins, shape ``(n,)``.
        n_classes: K.
        robust: Robust margins at radius ε, shape ``(n,)``, each at most the true one.
        lipschitz: Lipschitz constants L_m of the margins on the ε-balls, shape ``(n,)``; need ``robust``.
        epsilon: ε.

    Returns:
        The moments.

    Raises:
        InputError: If a robust margin exceeds the true one.

    Example:
        >>> found = margin_moments(torch.tensor([1.0, -1.0]), 2)
        >>> round(found.q, 4), found.gamma, found.share_negative  # log cosh 1
        (0.4338, -1.0, 0.5)
    """
    m = _vector(margins)
    q_zero = q_minus = q_plus = None
    if robust is not None:
        r = _vector(robust)
        if r.shape != m.shape or bool((r > m + 1e-9 * (1 + m.abs())).any()):
            raise InputError("Expected robust margins at most the true ones, but some are larger. Pass the infimum.")
        q_zero = log_moment(r).item()
        if lipschitz is not None:
            shift = epsilon * _vector(lipschitz)
            q_minus, q_plus = log_moment(r + shift).item(), log_moment(r - shift).item()
    return Moments(
        log_moment(m).item(),
        q_zero,
        q_minus,
        q_plus,
        log_bounded_moment(m, n_classes).item(),
        m.min().item(),
        (m <= 0).double().mean().item(),
    )


def _vector(values: Tensor) -> Tensor:
    if values.ndim != 1 or len(values) == 0:
        raise InputError(f"Expected one value per example, but got shape {tuple(values.shape)}. Pass (n,).")
    return values.detach().double()
