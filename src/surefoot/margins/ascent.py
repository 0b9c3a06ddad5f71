"""What a sharpness-aware step does to confidence: lemmas 1–2, theorems 1–3 and the κ_min condition of the CSAM paper.

Reference: *Towards Understanding the Calibration Benefits of Sharpness-Aware Minimization*, section 4 and appendix A.
Lemma 1 is printed with a squared gradient norm; its proof, equation 2 and these checks have the norm itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from surefoot.errors import InputError
from surefoot.margins.check import Check, unless
from surefoot.margins.margin import log_mean_exp, log_one_minus_exp, log_softplus, softplus


@dataclass(frozen=True)
class AscentStep:
    """Confidence before and after θ → θ̃ = θ + ρ g/‖g‖ on a batch (one example: 1-SAM; more: m-SAM).

    Attributes:
        before: Log odds against the true class at θ, shape ``(m,)``.
        after: The same at θ̃.
        gradient_norm: ‖∇L(θ)‖ of the batch.
        rho: ρ.
        kappa_min: Smallest Hessian eigenvalue over the path, or a lower bound on it; None if not measured.
        rough: What of the network is not known to have two derivatives, such as ``ReLU``; empty where all of it has.
            Taylor's theorem fails at a kink.
    """

    before: Tensor
    after: Tensor
    gradient_norm: float
    rho: float
    kappa_min: float | None = None
    rough: str = ""

    def __post_init__(self) -> None:
        """Refuse shapes and numbers that cannot be."""
        if self.before.shape != self.after.shape or self.before.ndim != 1 or self.rho <= 0 or self.gradient_norm < 0:
            raise InputError(
                f"Expected one value per example before and after, rho > 0 and a norm ≥ 0, but got "
                f"{tuple(self.before.shape)}, {tuple(self.after.shape)}, {self.rho} and {self.gradient_norm}. "
                "Take them from one batch."
            )


def mean_log_odds(log_odds: Tensor) -> Tensor:
    """Return the log odds against the true class that belong to the geometric mean of p_y.

    The mean loss L = −log p̄ comes first; then s = log(e^L − 1), both without losing small losses.

    Args:
        log_odds: One per example.

    Returns:
        Scalar.

    Example:
        >>> mean_log_odds(torch.tensor([-1000.0, -1000.0], dtype=torch.float64))
        tensor(-1000., dtype=torch.float64)
    """
    log_loss = log_mean_exp(log_softplus(log_odds))
    loss = log_loss.exp()
    return torch.where(loss < 1e-8, log_loss, loss + log_one_minus_exp(-loss.clamp_min(1e-300)))


def sam_coefficients(ascent: AscentStep) -> tuple[float, float]:
    r"""Return λ = (1 − p̃)/(1 − p) and its lower bound λ₀ = (1 − p̃)/(1 − e^{ρ‖g‖/2} p̃) of the batch (equation 2).

    Args:
        ascent: The step.

    Returns:
        λ, and λ₀ (NaN where e^{ρ‖g‖/2} p̃ ≥ 1, that is where lemma 1 does not hold).

    Example:
        >>> step = AscentStep(torch.tensor([0.0]).double(), torch.tensor([1.0]).double(), 0.2, 0.1)
        >>> [round(value, 4) for value in sam_coefficients(step)]  # p = 0.5, p̃ = 0.2689
        [1.4621, 1.0037]
    """
    s, s_tilde = mean_log_odds(ascent.before.double()), mean_log_odds(ascent.after.double())
    log_rest = -softplus(-s_tilde)
    raised = ascent.rho * ascent.gradient_norm / 2 - softplus(s_tilde)
    lam = torch.exp(log_rest + softplus(-s)).item()
    return lam, torch.exp(log_rest - log_one_minus_exp(raised)).item() if raised < 0 else math.nan


def csam_loss(s: Tensor, gamma: float) -> Tensor:
    """Return CSAM's loss −(1 + p)^{−γ} log p for p > ½, and −log p below, from the log odds against.

    Args:
        s: Log odds against the true class.
        gamma: γ.

    Returns:
        The same shape.

    Example:
        >>> csam_loss(torch.tensor([-1.3862944]), 1.0)  # p = 0.8
        tensor([0.1240])
    """
    loss, p = softplus(s), torch.sigmoid(-s)
    return torch.where(s < 0, (1 + p).pow(-gamma) * loss, loss)


def ascent_checks(ascent: AscentStep, *, gammas: tuple[float, ...] = (0.0, 1.0, 2.0)) -> list[Check]:
    """Evaluate the CSAM paper's inequalities for one step.

    Args:
        ascent: The step.
        gammas: Values of γ for theorem 3, each in [0, 2].

    Returns:
        The checks; theorem 3 at the example where it is tightest.

    Example:
        >>> step = AscentStep(torch.tensor([-1.0]).double(), torch.tensor([-0.5]).double(), 0.5, 0.5, kappa_min=-0.1)
        >>> [check.name for check in ascent_checks(step)][:3]
        ['κ_min condition', 'lemma 1', 'equation 2']
    """
    before, after = ascent.before.double(), ascent.after.double()
    one = len(before) == 1
    s, s_tilde = mean_log_odds(before), mean_log_odds(after)
    rise = ascent.rho * ascent.gradient_norm / 2
    reason = _why_not(ascent)
    log_p, log_p_tilde = -softplus(s).item(), -softplus(s_tilde).item()
    lam, lam_zero = sam_coefficients(ascent)
    bound = -ascent.gradient_norm / ascent.rho
    kappa = math.nan if ascent.kappa_min is None else ascent.kappa_min
    ordered = "" if log_p_tilde <= log_p else "needs p̃ ≤ p, but the step raised the true class"
    right, left = _entropy_sides(s, s_tilde)
    checks = [
        Check(
            "κ_min condition", "−‖g‖/ρ ≤ κ_min on the path", bound, kappa, "linear",
            *unless("" if ascent.kappa_min is not None else "κ_min along the path was not measured"), proven=False,
        ),
        Check(
            f"lemma {1 if one else 2}", "log p̃ ≤ log p − ρ‖g‖/2", log_p_tilde, log_p - rise, "linear", *unless(reason),
        ),
        Check(
            "equation 2", "λ₀ ≤ λ", _log(lam_zero), _log(lam), "log",
            *unless(reason or ("" if lam_zero > 0 else "1 − p̃ is below the smallest number")),
        ),
        Check(
            f"theorem {1 if one else 2}", "L(θ) − λ H(p) + H(p̃) ≤ L(θ̃)", left.item(), right.item(), "linear",
            *unless(ordered),
        ),
    ]  # fmt: skip
    return checks + [_theorem_3(before, after, gamma) for gamma in gammas]


def _why_not(ascent: AscentStep) -> str:
    """The assumptions of lemmas 1 and 2."""
    if ascent.gradient_norm == 0:
        return "needs a gradient, but it is zero"
    if ascent.rough:
        return f"needs two derivatives, but {ascent.rough} has kinks or is not known to have none"
    if ascent.kappa_min is None:
        return "κ_min along the path was not measured"
    if ascent.kappa_min < -ascent.gradient_norm / ascent.rho:
        return f"needs κ_min ≥ −‖g‖/ρ = {-ascent.gradient_norm / ascent.rho:.4g}, but it is {ascent.kappa_min:.4g}"
    return ""


def _log(value: float) -> float:
    return math.nan if math.isnan(value) else (math.log(value) if value > 0 else -math.inf)


def weighted_entropy(s: Tensor, s_tilde: Tensor) -> Tensor:
    """Return λ H(p) = (1 − p̃) [−p log p / (1 − p) − log(1 − p)], finite however sure p is."""
    rest = torch.sigmoid(s_tilde)
    ratio = torch.exp(log_softplus(s) - softplus(s) + softplus(-s))  # −p log p / (1 − p), at most 1
    return rest * (ratio + softplus(-s))


def entropy(s: Tensor) -> Tensor:
    """Return the binary entropy H(p) from the log odds against."""
    return torch.sigmoid(-s) * softplus(s) + torch.sigmoid(s) * softplus(-s)


def _entropy_sides(s: Tensor, s_tilde: Tensor) -> tuple[Tensor, Tensor]:
    """L(θ̃), and L(θ) − λ H(p) + H(p̃)."""
    return softplus(s_tilde), softplus(s) - weighted_entropy(s, s_tilde) + entropy(s_tilde)


def _theorem_3(before: Tensor, after: Tensor, gamma: float) -> Check:
    """Evaluate it on every example with p̃ > ½ and p̃ ≤ p, and report the tightest."""
    name, statement = f"theorem 3, γ = {gamma:g}", "ℓ − λ H(p) + (1 − γ/2) H(p̃) ≤ CSAM's loss at θ̃"
    fits = (after < 0) & (after >= before)
    if not 0 <= gamma <= 2 or not bool(fits.any()):
        reason = "needs 0 ≤ γ ≤ 2" if not 0 <= gamma <= 2 else "needs an example with ½ < p̃ ≤ p, but there is none"
        return Check(name, statement, math.nan, math.nan, "linear", *unless(reason))
    s, s_tilde = before[fits], after[fits]
    left = softplus(s) - weighted_entropy(s, s_tilde) + (1 - gamma / 2) * entropy(s_tilde)
    right = csam_loss(s_tilde, gamma)
    i = int((right - left).argmin())
    return Check(name, statement, left[i].item(), right[i].item(), "linear", why=f"{len(s)} examples with ½ < p̃ ≤ p")
