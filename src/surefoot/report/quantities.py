"""What is known of quantities of which no record says it: tracked values, shifted data, slices, figures on paper.

Pages are made on machines without torch, where what metrics declare cannot be imported; a test holds this one table
against their declarations.
"""

from __future__ import annotations

from surefoot.report.measures import Measure

_METRICS = (
    Measure("accuracy", "accuracy", lower_is_better=False),
    Measure("ece", "ECE", lower_is_better=True),
    Measure("nll", "NLL", "nats", 3, lower_is_better=True),
    Measure("brier", "Brier score", "", 3, lower_is_better=True),
    Measure("kce", "KCE", lower_is_better=True),
    Measure("classwise_ece", "classwise ECE", lower_is_better=True),
    Measure("ada_ece", "adaptive ECE", lower_is_better=True),
    Measure("auroc", "AUROC (one versus rest)", lower_is_better=False),
    Measure("misclassification_auroc", "AUROC of confidence", lower_is_better=False),
    Measure("true_class_entropy", "entropy of p_y", "nats", 3, lower_is_better=None),
)
_TRACKED = (  # of no metric
    Measure("loss", "loss", "nats", 3, lower_is_better=True, log=True),
    Measure("margin_median", "median margin", "", 3),
    Measure("margin_q10", "margin of the lowest tenth", "", 3),
    Measure("margin_share_negative", "share of margins ≤ 0"),
)
QUANTITIES = {measure.key: measure for measure in (*_METRICS, *_TRACKED)}
