"""Every measure of an audit, with its interval where it has one, and what chance alone makes of calibration errors."""

from __future__ import annotations

import math

from surefoot.auditing._reading import Moments, Reading
from surefoot.metrics.bootstrap import WHY_NONE
from surefoot.metrics.chance import Chance, chance_of_sums, chance_of_top, classwise_chance
from surefoot.metrics.interval import Interval, no_interval
from surefoot.metrics.mean_losses import Losses, loss_of_parts
from surefoot.metrics.ranking_interval import area, risk
from surefoot.metrics.reliability import Consistency
from surefoot.registry import METRICS
from surefoot.seeding import generator

OF_BINS = ("debiased_ece", "rms_ce", "mce")
OF_TOP = ("ada_ece", "smooth_ece", "kce")
_DRAWS = 100  # of labels, for measures that take long
_MOST_VALUES = 1_000_000  # rows × classes whose labels are drawn


def measure(reading: Reading, level: float) -> dict[str, Interval]:
    """Compute what the verdict does not hold.

    Args:
        reading: What was read.
        level: Of the intervals.

    Returns:
        Intervals by metric; a metric that is not defined on these rows is left out.
    """
    found = {
        name: no_interval(name, METRICS[name].facts["finish"](reading.bins.sums).item(), level, WHY_NONE)
        for name in OF_BINS
    }
    for name in reading.moments:
        found[name] = _mean(name, reading, level)
    classwise = reading.class_bins.compute().item()
    found["classwise_ece"] = no_interval("classwise_ece", classwise, level, WHY_NONE)
    for name in OF_TOP:
        value = METRICS[name].facts["top"](reading.confidence, reading.correct).item()
        found[name] = no_interval(name, value, level, WHY_NONE)
    found["aurc"] = risk(reading.confidence, reading.correct, level, _DRAWS, generator(0, "bootstrap"))
    ranked = area("misclassification_auroc", reading.confidence, reading.correct, level)
    if math.isfinite(ranked.estimate):
        found[ranked.metric] = ranked
    return found


def by_chance(reading: Reading, test: Consistency) -> dict[str, Chance]:
    """Say what the calibration errors would be if every probability were right.

    Args:
        reading: What was read.
        test: What is known of ECE already.

    Returns:
        Mean and limit by metric.
    """
    level = test.level
    found = {"ece": Chance("ece", test.ece, test.expected, test.limit, test.p_value, level)}
    for name in OF_BINS:
        found[name] = chance_of_sums(name, reading.bins.sums, level=level)
    for name in OF_TOP:
        found[name] = chance_of_top(name, reading.confidence, reading.correct, n_resamples=_DRAWS, level=level)
    classes = reading.class_bins
    n_classes, n_bins = classes.sums.shape[1:]
    found["classwise_ece"] = classwise_chance(
        reading.probs(max(1000, _MOST_VALUES // max(50, n_classes))),
        classes.compute().item(),
        reading.n,
        n_bins,
        n_resamples=_DRAWS,
        level=level,
    )
    return found


def _mean(name: str, reading: Reading, level: float) -> Interval:
    every, wrong = reading.moments[name], reading.of_wrong[name]
    right = Moments(every.n - wrong.n, every.total - wrong.total, every.squares - wrong.squares)
    if not math.isfinite(every.total):
        return no_interval(name, every.mean, level, "it is infinite")
    return loss_of_parts(name, _losses(right), _losses(wrong), level, METRICS[name].facts["range"])


def _losses(moments: Moments) -> Losses:
    if not moments.n:
        return Losses(0, 0.0, 0.0)
    return Losses(moments.n, moments.mean, moments.standard_error * math.sqrt(moments.n))
