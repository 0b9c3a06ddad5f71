"""Ensembles and Bayesian networks, one file each. Predictions are means of probabilities, never of logits."""

from __future__ import annotations

from surefoot.ensembles._base import Course, Ensemble, build_ensemble
from surefoot.ensembles._layers import drawing, sample_predict
from surefoot.ensembles._mean import deep_predict, log_mean_probs
from surefoot.ensembles._objective import innermost, total_kl

__all__ = [
    "Course",
    "Ensemble",
    "build_ensemble",
    "deep_predict",
    "drawing",
    "innermost",
    "log_mean_probs",
    "sample_predict",
    "total_kl",
]
