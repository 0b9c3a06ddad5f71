"""Margins of logits, robust margins, exponential moments, and the theorems that bound calibration error by them."""

from __future__ import annotations

from surefoot.margins.ascent import AscentStep, ascent_checks, csam_loss, sam_coefficients
from surefoot.margins.bounds import Evidence, bound_checks
from surefoot.margins.calibration import log_ece
from surefoot.margins.check import Check
from surefoot.margins.lipschitz import certified_margin, margin_lipschitz
from surefoot.margins.margin import log_odds_against, predicted_margin, true_margin
from surefoot.margins.moments import Moments, log_bounded_moment, log_moment, margin_moments
from surefoot.margins.robust import Norm, attacked_margin, first_order_margin, is_linear, linear_margin

__all__ = [
    "AscentStep",
    "Check",
    "Evidence",
    "Moments",
    "Norm",
    "ascent_checks",
    "attacked_margin",
    "bound_checks",
    "certified_margin",
    "csam_loss",
    "first_order_margin",
    "is_linear",
    "linear_margin",
    "log_bounded_moment",
    "log_ece",
    "log_moment",
    "log_odds_against",
    "margin_lipschitz",
    "margin_moments",
    "predicted_margin",
    "sam_coefficients",
    "true_margin",
]
