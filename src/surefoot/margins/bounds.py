"""Calibration error and curvature bounded by margins: theorems 4.1 and 4.2, remark B.6, proposition B.7, corollary B.8.

Reference: *Too Sharp, Too Sure: When Calibration Follows Curvature*, section 4 and appendix B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from surefoot.margins.calibration import log_ece
from surefoot.margins.check import Check, unless
from surefoot.margins.margin import (
    check_logits,
    log_mean_exp,
    log_odds_against,
    predicted_margin,
    softplus,
    true_margin,
)  # fmt: skip
from surefoot.margins.moments import Moments, log_bounded_moment, log_moment, margin_moments

RobustKind = Literal["exact", "certified", "attack"]


@dataclass(frozen=True)
class Evidence:
    """What is known about a model on a data set; parts that were not measured are None.

    Attributes:
        logits: Shape ``(n, classes)``.
        labels: Shape ``(n,)``.
        n_bins: Bins of the ECE.
        gn_sharpness: λ_max of the Gauss–Newton matrix on these examples, or a lower bound on it.
        jacobian_norms: ‖J(x_i)‖ of every example.
        epsilon: Radius of the robust margins.
        robust: Robust margins, or bounds on them.
        robust_kind: ``exact``; ``certified`` for lower bounds; ``attack`` for upper bounds.
        lipschitz: L_m of every example on its ε-ball.
        shifted: Logits of the same examples, each moved by at most ε with its label kept.
        distance: How far each was moved.
    """

    logits: Tensor
    labels: Tensor
    n_bins: int = 15
    gn_sharpness: float | None = None
    jacobian_norms: Tensor | None = None
    epsilon: float = 0.0
    robust: Tensor | None = None
    robust_kind: RobustKind = "attack"
    lipschitz: Tensor | None = None
    shifted: Tensor | None = None
    distance: Tensor | None = None

    @property
    def n_classes(self) -> int:
        """K."""
        return self.logits.shape[1]

    def moments(self) -> Moments:
        """All moments of these margins."""
        return margin_moments(
            true_margin(self.logits, self.labels),
            self.n_classes,
            robust=self.robust,
            lipschitz=self.lipschitz if self.robust is not None else None,
            epsilon=self.epsilon,
        )


def bound_checks(evidence: Evidence) -> list[Check]:
    """Evaluate every inequality of the paper on one data set.

    Args:
        evidence: What was measured.

    Returns:
        All checks; those whose ingredients are missing or whose assumptions fail say why.

    Example:
        >>> checks = bound_checks(Evidence(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])))
        >>> [check.name for check in checks if check.violated]
        []
    """
    check_logits(evidence.logits, evidence.labels)
    found = evidence.moments()
    ece = log_ece(evidence.logits, evidence.labels, n_bins=evidence.n_bins).item()
    return [
        *lemma_checks(evidence.logits, evidence.labels),
        *_theorem_4_1(evidence, found, ece),
        *_theorem_4_2(evidence, found, ece),
        _remark_b6(evidence),
        *_transfer(evidence, found),
    ]


def log_logit_curvature(logits: Tensor) -> Tensor:
    r"""Log of :math:`\lambda_{\max}(\mathrm{diag}(p) - pp^\top)` of every example, however saturated.

    From the largest singular value of the root S = diag(√p) − p√pᵀ, scaled row by row so that nothing underflows.

    Args:
        logits: Shape ``(n, classes)``.

    Returns:
        Shape ``(n,)``, float64.

    Example:
        >>> log_logit_curvature(torch.tensor([[0.8472979, 0.0]])).exp()  # 2 · 0.7 · 0.3
        tensor([0.4200], dtype=torch.float64)
    """
    z = check_logits(logits)
    n, k = z.shape
    against = torch.stack([log_odds_against(z, torch.full((n,), j)) for j in range(k)], dim=1)
    log_p, log_rest = -softplus(against), -softplus(-against)
    log_root = log_p[:, :, None] + log_p[:, None, :] / 2
    eye = torch.eye(k, dtype=torch.bool, device=z.device)
    log_root = torch.where(eye, (log_p / 2 + log_rest)[:, :, None], log_root)
    top = log_root.amax(dim=(1, 2), keepdim=True)
    root = (log_root - top).exp() * torch.where(eye, 1.0, -1.0)
    norms: Tensor = torch.linalg.matrix_norm(root, ord=2)
    return 2 * (top[:, 0, 0] + norms.log())


def lemma_checks(logits: Tensor, labels: Tensor) -> list[Check]:
    """Evaluate the pointwise lemmas B.3 and B.4 at the example where each is tightest.

    Args:
        logits: Shape ``(n, classes)``.
        labels: Shape ``(n,)``.

    Returns:
        Three checks.
    """
    k = logits.shape[1]
    m, s = true_margin(logits, labels), log_odds_against(logits, labels)
    wrong = -softplus(-s)
    lower = -m - softplus(math.log(k - 1) - m)
    confident = log_odds_against(logits, logits.argmax(1))
    pairs = [
        ("lemma B.3 (1)", "1 − p_y ≤ (K−1) e^{−m}", wrong, math.log(k - 1) - m),
        ("lemma B.3 (2)", "e^{−m} / (1 + (K−1) e^{−m}) ≤ 1 − p_y", lower, wrong),
        ("lemma B.4", "λ_max(H_z) ≤ 2 (1 − p_max)", log_logit_curvature(logits), math.log(2) - softplus(-confident)),
    ]
    checks = []
    for name, statement, left, right in pairs:
        i = int((right - left).argmin())
        checks.append(Check(name, statement, left[i].item(), right[i].item(), why=f"tightest at example {i}"))
    return checks


def _log_two_cj(evidence: Evidence) -> float:
    """Return log 2 C_J², or NaN where the Jacobian norms are missing."""
    norms = evidence.jacobian_norms
    return math.nan if norms is None else math.log(2) + 2 * _log(norms.double().max().item())


def _log(value: float | None) -> float:
    if value is None or math.isnan(value):
        return math.nan
    return math.log(value) if value > 0 else -math.inf


def _no_curvature(evidence: Evidence) -> str:
    if evidence.gn_sharpness is None or evidence.jacobian_norms is None:
        return "needs the Gauss–Newton sharpness and the Jacobian norms of all examples; pass a model"
    return ""


def _theorem_4_1(evidence: Evidence, found: Moments, ece: float) -> list[Check]:
    k1 = math.log(evidence.n_classes - 1)
    curvature, cj, missing = _log(evidence.gn_sharpness), _log_two_cj(evidence), _no_curvature(evidence)
    checks = [
        Check("theorem 4.1 (i)", "ECE ≤ (K−1) Q", ece, k1 + found.q),
        Check("theorem 4.1 (i), bounded", "ECE ≤ mean σ(log(K−1) − m)", ece, found.bounded),
        Check("theorem 4.1 (ii)", "λ_max ≤ 2 C_J² (K−1) Q", curvature, cj + k1 + found.q, "log", *unless(missing)),
    ]
    no_robust = "" if evidence.robust is not None else "needs robust margins; pass epsilon"
    no_lipschitz = "" if found.q_plus is not None else "needs Lipschitz constants of the margins"
    for letter, moment, without in (("Q⁰_ε", found.q_zero, no_robust), ("Q⁺", found.q_plus, no_robust or no_lipschitz)):
        value = math.nan if moment is None else moment
        checks += [
            Check("theorem 4.1 (i), robust", f"ECE ≤ (K−1) {letter}", ece, k1 + value, "log", *unless(without)),
            Check(
                "theorem 4.1 (ii), robust",
                f"λ_max ≤ 2 C_J² (K−1) {letter}",
                curvature,
                cj + k1 + value,
                "log",
                *unless(without or missing),
            ),
        ]
    return checks


def _theorem_4_2(evidence: Evidence, found: Moments, ece: float) -> list[Check]:
    k, k1 = math.log(evidence.n_classes), math.log(evidence.n_classes - 1)
    negative = "" if found.gamma > 0 else f"needs all true margins > 0, but {found.share_negative:.2%} are not"
    missing = negative or _no_curvature(evidence)
    cj = _log_two_cj(evidence)
    misconfidence = log_mean_exp(-softplus(-log_odds_against(evidence.logits, evidence.labels))).item()
    no_lipschitz = negative or ("" if found.q_minus is not None else "needs robust margins and Lipschitz constants")
    q_minus = math.nan if found.q_minus is None else found.q_minus
    always = unless(negative)
    return [
        Check("theorem 4.2 (i), lower", "Q / K ≤ ECE", found.q - k, ece, "log", *always),
        Check("theorem 4.2 (i), upper", "ECE ≤ (K−1) Q", ece, k1 + found.q, "log", *always),
        Check("theorem 4.2 (i), last", "(K−1) Q ≤ (K−1) e^{−γ}", k1 + found.q, k1 - found.gamma, "log", *always),
        Check(
            "theorem 4.2 (ii)",
            "λ_max ≤ 2 C_J² K (K−1) ECE",
            _log(evidence.gn_sharpness),
            cj + k + k1 + ece,
            "log",
            *unless(missing),
        ),
        Check("theorem 4.2 (iv)", "Q⁻_ε / K ≤ ECE", q_minus - k, ece, "log", *unless(no_lipschitz)),
        Check("theorem 4.2 (v)", "ECE ≤ mean (1 − p_y)", ece, misconfidence, "log", *always),
        Check("theorem 4.2 (v)", "mean (1 − p_y) ≤ ECE", misconfidence, ece, "log", *always),
    ]


def _remark_b6(evidence: Evidence) -> Check:
    label_free = log_moment(predicted_margin(evidence.logits)).item()
    return Check(
        "remark B.6",
        "λ_max ≤ 2 C_J² (K−1) mean e^{−m̂}",
        _log(evidence.gn_sharpness),
        _log_two_cj(evidence) + math.log(evidence.n_classes - 1) + label_free,
        "log",
        *unless(_no_curvature(evidence)),
    )


def _transfer(evidence: Evidence, found: Moments) -> list[Check]:
    """Proposition B.7 and corollary B.8 for a shifted copy of the data."""
    reason = ""
    if evidence.shifted is None or evidence.distance is None:
        reason = "needs shifted examples and how far they were moved"
    elif evidence.robust is None or evidence.robust_kind == "attack":
        reason = "needs exact or certified robust margins: an attack may have missed the infimum"
    elif bool((evidence.distance.double() > evidence.epsilon * (1 + 1e-12)).any()):
        reason = f"needs shifts of at most ε = {evidence.epsilon:g}"
    moment = ece = bounded = robust = math.nan
    k1 = math.log(evidence.n_classes - 1)
    if evidence.shifted is not None and evidence.robust is not None:
        moment = log_moment(true_margin(evidence.shifted, evidence.labels)).item()
        ece = log_ece(evidence.shifted, evidence.labels, n_bins=evidence.n_bins).item()
        bounded = log_bounded_moment(evidence.robust, evidence.n_classes).item()
        robust = math.nan if found.q_zero is None else found.q_zero
    return [
        Check("proposition B.7", "E_P e^{−m} ≤ Q⁰_ε", moment, robust, "log", *unless(reason)),
        Check("corollary B.8", "ECE of the shifted data ≤ (K−1) Q⁰_ε", ece, k1 + robust, "log", *unless(reason)),
        Check(
            "corollary B.8, bounded",
            "ECE of the shifted data ≤ mean σ(log(K−1) − m_ε)",
            ece,
            bounded,
            "log",
            *unless(reason),
        ),
    ]
