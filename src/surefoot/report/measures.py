"""The measures of an audit as people read them: name, unit, and meaning in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Measure:
    """A measure's place in a table."""

    key: str
    label: str
    percent: bool
    lower_is_better: bool | None
    meaning: str
    brief: bool = True  # also in the terminal


MEASURES = (
    Measure("accuracy", "accuracy", True, False, "How often the most likely class is the true one."),
    Measure(
        *("confidence_gap", "confidence − accuracy", True, None),
        "How much surer than right: above 0 over-confident, below 0 under-confident.",
    ),
    Measure("ece", "ECE", True, True, "How far confidence and accuracy lie apart, averaged over bins of confidence."),
    Measure(
        *("debiased_ece", "debiased ECE", True, True),
        "ECE less what too few examples alone add to it.",
    ),
    Measure("ada_ece", "adaptive ECE", True, True, "ECE with as many examples in every bin.", brief=False),
    Measure("smooth_ece", "smooth ECE", True, True, "ECE without bins: neighbours count by their distance."),
    Measure("kce", "kernel error", True, True, "Calibration error by pairs of examples, without bins.", brief=False),
    Measure("rms_ce", "RMS error", True, True, "Like ECE, but large gaps weigh more.", brief=False),
    Measure("mce", "largest gap", True, True, "The gap of the worst bin, however few examples it holds.", brief=False),
    Measure(*("classwise_ece", "classwise ECE", True, True), "The same for the probability of every class, averaged."),
    Measure("nll", "NLL", False, True, "Mean of −ln p of the true class: being wrong with confidence costs most."),
    Measure("brier", "Brier score", False, True, "Mean squared distance to the truth, from 0 to 2."),
    Measure(
        *("misclassification_auroc", "AUROC of confidence", True, False),
        "How often a right prediction is surer than a wrong one; 50 % is guessing.",
    ),
    Measure(
        *("aurc", "AURC", True, True),
        "Mean error rate when only the surest are answered, over all shares of answers.",
        brief=False,
    ),
)


def show(measure: Measure, value: float | None, *, digits: int = 1) -> str:
    """Write a value with its unit; what JSON could not say is infinite.

    Args:
        measure: What it is a value of.
        value: A fraction, or a plain number.
        digits: Decimals of percentages; plain numbers get three.

    Returns:
        The text.

    Example:
        >>> show(MEASURES[0], 0.8342), show(MEASURES[10], None)
        ('83.4 %', '∞')
    """
    if value is None:
        return "∞"
    return f"{100 * value:.{digits}f} %".replace("-", "−") if measure.percent else f"{value:.3f}".replace("-", "−")


def show_limit(measure: Measure, chance: dict[str, Any] | None, *, digits: int = 1) -> str:
    """Write what chance alone seldom exceeds, or nothing where that is no question.

    Args:
        measure: What it is a limit of.
        chance: With ``limit``.
        digits: Decimals of percentages.

    Returns:
        The text.

    Example:
        >>> show_limit(MEASURES[2], {"expected": 0.01, "limit": 0.0153}), show_limit(MEASURES[0], None)
        ('up to 1.5 %', '')
    """
    return f"up to {show(measure, chance['limit'], digits=digits)}" if chance else ""


def show_interval(measure: Measure, interval: dict[str, Any], *, digits: int = 1) -> str:
    """Write both ends without unit, or nothing where there are none.

    Args:
        measure: What it is an interval of.
        interval: With ``low`` and ``high``.
        digits: Decimals of percentages.

    Returns:
        The text.

    Example:
        >>> show_interval(MEASURES[1], {"low": -0.01, "high": 0.025})
        '−1.0…2.5'
    """
    low, high = interval["low"], interval["high"]
    if low is None or high is None:
        return ""
    ends = (f"{100 * end:.{digits}f}" if measure.percent else f"{end:.3f}" for end in (low, high))
    return "…".join(ends).replace("-", "−")
