"""Every measure of an audit with its interval: from sums over all rows, or from a random sample of them."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import torch
from torch import Tensor

from surefoot.audit._reading import MOST_RANKED, Moments, Reading
from surefoot.metrics import bin_index
from surefoot.metrics.bootstrap import Interval, bootstrap, bootstrap_sums
from surefoot.metrics.verdict import Verdict, finding_of, verdict_of_sums
from surefoot.registry import METRICS
from surefoot.seeding import generator

OF_BINS = ("debiased_ece", "rms_ce", "mce")
OF_TOP = ("ada_ece", "smooth_ece", "kce", "misclassification_auroc", "aurc")


def judge(bins: Tensor, class_bins: Tensor | None, level: float) -> Verdict:
    """Judge from sums, with honest intervals also where all or none of the examples are right.

    Drawing anew from examples that are all right gives nothing but right ones, an interval of no width. There the
    accuracy gets Wilson's interval, and the gap follows it.

    Args:
        bins: Shape ``(3, n_bins)``.
        class_bins: Shape ``(3, classes, n_bins)``, or None.
        level: Of the intervals.

    Returns:
        The verdict.
    """
    found = verdict_of_sums(bins, class_bins, level=level)
    accuracy, gap = found.accuracy, found.gap
    if 0 < accuracy.estimate < 1:
        return found
    low, high = wilson(accuracy.estimate, found.n, level)
    confidence = gap.estimate + accuracy.estimate
    gap = replace(gap, low=confidence - high, high=confidence - low, kind="wilson", n_resamples=0)
    return replace(
        found,
        finding=finding_of(found.consistency, gap),
        accuracy=replace(accuracy, low=low, high=high, kind="wilson", n_resamples=0),
        gap=gap,
    )


def wilson(share: float, n: int, level: float) -> tuple[float, float]:
    r"""Wilson's interval for a share of n.

    .. math:: \frac{p + z^2/2n \pm z \sqrt{p(1-p)/n + z^2/4n^2}}{1 + z^2/n}

    Args:
        share: Observed share p.
        n: Number of examples.
        level: How often such intervals hold the truth.

    Returns:
        Both ends.

    Example:
        >>> [round(end, 3) for end in wilson(1.0, 10, 0.95)]  # 1 / (1 + 1.96² / 10)
        [0.722, 1.0]
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    middle, reach = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = ((middle + sign * reach) / (1 + z * z / n) for sign in (-1, 1))
    return max(0.0, low), min(1.0, high)


def measure(reading: Reading, level: float) -> dict[str, Interval]:
    """Compute what the verdict does not hold.

    Args:
        reading: What was read.
        level: Of the intervals.

    Returns:
        Intervals by metric; a metric that is not defined on these rows is left out.
    """
    found = {name: bootstrap_sums(name, reading.bins.sums, level=level) for name in OF_BINS}
    for name, moments in reading.moments.items():
        found[name] = _mean(name, moments, reading, level)
    found["classwise_ece"] = _classwise(reading, level)
    for name in OF_TOP:
        interval = _top(name, reading.confidence, reading.correct, level)
        if math.isfinite(interval.estimate):
            found[name] = interval
    return found


def _mean(name: str, moments: Moments, reading: Reading, level: float) -> Interval:
    """Few rows may lie far from normal and are drawn anew; the mean of many is normal."""
    if reading.n <= min(MOST_RANKED, len(reading.labels)) and not reading.impossible:
        return bootstrap(name, reading.probs(), torch.from_numpy(reading.labels), level=level)
    if not math.isfinite(moments.mean):
        return Interval(name, moments.mean, math.nan, moments.mean, level, "none", 0)
    reach = NormalDist().inv_cdf((1 + level) / 2) * moments.standard_error
    return Interval(name, moments.mean, max(0.0, moments.mean - reach), moments.mean + reach, level, "normal", 0)


def _classwise(reading: Reading, level: float, n_resamples: int = 100) -> Interval:
    """Estimate from all rows; the spread from a sample, scaled to their number.

    What a draw changes is only how often each row counts, so each row's bins are looked up once.
    """
    whole = reading.class_bins.sums
    n_classes, n_bins = whole.shape[1:]
    rows = max(1000, 1_000_000 // n_classes)
    probs, labels = reading.probs(rows), torch.from_numpy(reading.labels[:rows])
    n = len(labels)
    cells = (bin_index(probs, n_bins) + n_bins * torch.arange(n_classes)).flatten()
    gaps = probs.scatter_add(1, labels[:, None], -torch.ones(n, 1, dtype=torch.float64))

    def error(times: Tensor) -> float:
        sums = torch.bincount(cells, (gaps * times[:, None]).flatten(), n_classes * n_bins)
        return sums.abs().sum().item() / (n * n_classes)

    source = generator(0, "classwise")
    drawn = (torch.randint(n, (n,), generator=source) for _ in range(n_resamples))
    values = torch.tensor([error(torch.bincount(draw, minlength=n).double()) for draw in drawn], dtype=torch.float64)
    here, shrink = error(torch.ones(n, dtype=torch.float64)), math.sqrt(n / reading.n)
    estimate = reading.class_bins.compute().item()
    # Drawing anew adds the bias of a calibration error once more: the basic interval takes it off again.
    low, high = (estimate - shrink * (values.quantile(q).item() - here) for q in ((1 + level) / 2, (1 - level) / 2))
    return Interval("classwise_ece", estimate, max(0.0, low), min(1.0, max(0.0, high)), level, "basic", n_resamples)


def _top(name: str, confidence: Tensor, correct: Tensor, level: float, n_resamples: int = 100) -> Interval:
    """Do what ``bootstrap`` does, for a metric of confidence and correctness without the probabilities."""
    part, source = METRICS[name], generator(0, "bootstrap")
    top, kind = part.facts["top"], str(part.facts.get("interval", "percentile"))
    estimate = top(confidence, correct).item()
    n = len(confidence)
    values = []
    for _ in range(n_resamples if math.isfinite(estimate) else 0):
        rows = torch.randint(n, (n,), generator=source)
        values.append(top(confidence[rows], correct[rows]).item())
    found = torch.tensor([value for value in values if math.isfinite(value)], dtype=torch.float64)
    if not len(found):
        return Interval(name, estimate, math.nan, math.nan, level, kind, 0)
    low, high = (found.quantile(q).item() for q in ((1 - level) / 2, (1 + level) / 2))
    if kind == "basic":
        low, high = 2 * estimate - high, 2 * estimate - low
    bottom, ceiling = part.facts["range"]
    return Interval(name, estimate, max(bottom, low), min(ceiling, high), level, kind, len(found))
