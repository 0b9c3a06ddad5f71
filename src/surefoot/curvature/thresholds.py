"""Where a fixed step size becomes unstable: what sharpness is compared with."""

from __future__ import annotations

from surefoot.errors import OptionError


def _check(lr: float, *betas: float) -> None:
    if lr <= 0 or any(not 0 <= beta < 1 for beta in betas):
        raise OptionError(
            f"Expected lr > 0 and momentum in [0, 1), but got {lr} and {', '.join(map(str, betas)) or 'none'}. "
            "Pass the optimizer's own values."
        )


def gd_threshold(lr: float, *, momentum: float = 0.0) -> float:
    r"""Largest stable curvature of gradient descent on a quadratic: :math:`(2 + 2\beta)/\eta`.

    Args:
        lr: Step size η.
        momentum: Heavy-ball β (not Nesterov, no dampening).

    Returns:
        Compare with κ_max of the Hessian, or with the Gauss–Newton sharpness.

    Example:
        >>> gd_threshold(0.05), gd_threshold(0.05, momentum=0.5)
        (40.0, 60.0)
    """
    _check(lr, momentum)
    return 2 * (1 + momentum) / lr


def adam_threshold(lr: float, *, beta1: float = 0.9) -> float:
    r"""Largest stable *preconditioned* curvature of Adam and AdamW: :math:`(2 + 2\beta_1)/((1 - \beta_1)\eta)`.

    Args:
        lr: Step size η.
        beta1: Decay of the first moment.

    Returns:
        Compare with the top eigenvalue of :class:`~surefoot.curvature.preconditioned.Preconditioned`.

    Example:
        >>> round(adam_threshold(0.001), 6)  # 38 / η
        38000.0

    Reference: Cohen et al. 2022, arXiv:2207.14484.
    """
    _check(lr, beta1)
    return (2 + 2 * beta1) / ((1 - beta1) * lr)


def batch_thresholds(lr: float, *, momentum: float = 0.0) -> tuple[float, float]:
    r"""Plateaus of batch sharpness: :math:`2(1-\beta)/\eta` for small, :math:`2(1+\beta)/\eta` for large batches.

    Args:
        lr: Step size η.
        momentum: Heavy-ball β; without it both are 2/η.

    Returns:
        Small-batch and large-batch value.

    Example:
        >>> batch_thresholds(0.1), batch_thresholds(0.5, momentum=0.75)
        ((20.0, 20.0), (1.0, 7.0))

    Reference: Andreyev & Beneventano 2024, arXiv:2412.20553.
    """
    _check(lr, momentum)
    return 2 * (1 - momentum) / lr, 2 * (1 + momentum) / lr
