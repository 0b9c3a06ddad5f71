"""Two classes: the probability of the one that matters, the *risk*, beside how often it happens.

With two classes the confidence of the likelier one hides what people ask for. Where 2.4 % are ill and the mean
probability of illness is 12 %, the model looks *under*-confident, being too unsure of the healthy, while every risk
that it gives is five times too high. So these functions look at one column, p = P(positive), and at the events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import torch
from scipy.optimize import brentq
from scipy.special import stdtrit
from torch import Tensor

from surefoot.errors import InputError
from surefoot.metrics._binning import quantile_sums
from surefoot.metrics._input import Values, as_tensor
from surefoot.metrics._ranking import area_under_roc, average_precision, precision_variance, share_below
from surefoot.metrics._weights import (
    WeightsAre,
    check_weights,
    check_weights_are,
    kish,
    mean,
    ratio,
    repeated,
    rows_of,
    sums_as,
    worth,
)
from surefoot.metrics.bootstrap import bootstrap_sums
from surefoot.metrics.interval import Interval
from surefoot.metrics.reliability import Consistency, Reliability, consistency, reliability_of_sums
from surefoot.metrics.shares import exact_ends

RiskFinding = Literal["overstated", "understated", "mixed", "calibrated"]
_FEW = 10  # of a class; below, the spread of its ranks cannot be estimated from them


@dataclass(frozen=True)
class Risk:
    """Mean risk beside the event rate, and the reliability of the risk. Fractions, with intervals."""

    n: int
    events: int
    mean: float
    rate: Interval
    """How often it happens: events / n, with its exact interval."""
    gap: Interval
    """Mean risk less event rate: above 0 overstated, below 0 understated."""
    ece: Interval
    """Mean distance of risk and event rate over bins of the risk."""
    consistency: Consistency
    reliability: Reliability
    finding: RiskFinding


def judge_risk(
    risk: Values,
    happened: Values,
    weights: Values | None = None,
    *,
    n_bins: int = 15,
    level: float = 0.95,
    weights_are: WeightsAre = "importance",
) -> Risk:
    """Judge the probabilities of an event.

    Args:
        risk: Probability of the event, shape ``(n,)``.
        happened: 1 where it happened, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_bins: Number of bins, with about as many examples in each.
        level: Of intervals, bars and the test of calibration.
        weights_are: How much a row represents, or how many independent rows it stands for.

    Returns:
        The verdict.

    Example:
        >>> import torch
        >>> risk = torch.full((1000,), 0.12)
        >>> found = judge_risk(risk, torch.arange(1000) < 24)  # 12 % risk, 2.4 % happen
        >>> found.finding, round(found.mean / found.rate.estimate, 1)
        ('overstated', 5.0)
    """
    sums = sums_as(risk_sums(risk, happened, n_bins, weights), weights_are)
    return risk_of_sums(sums, sums, level=level)


def risk_sums(risk: Values, happened: Values, n_bins: int, weights: Values | None = None) -> Tensor:
    """Count examples and add up risk and events in bins with about as many examples in each.

    Risks of rare events crowd next to 0, where bins of equal width would hold nearly all of them in the first.

    Args:
        risk: Probability of the event, shape ``(n,)``.
        happened: 1 where it happened, shape ``(n,)``.
        n_bins: Number of bins; fewer where many risks are equal.
        weights: How much each row counts; None where all count alike.

    Returns:
        Shape ``(3, bins)``, float64; with weights ``(7, bins)``.

    Raises:
        InputError: If a risk is no probability, or there is not one per event.
    """
    risk, happened = as_tensor(risk, "risk"), as_tensor(happened, "events")
    if risk.ndim != 1 or risk.shape != happened.shape or not len(risk):
        raise InputError(
            f"Expected one risk per example, but got {tuple(risk.shape)} and {tuple(happened.shape)}. Pass P(positive)."
        )
    if not bool(((risk >= 0) & (risk <= 1)).all()):
        raise InputError(
            f"Expected risks in [0, 1], but got {risk.min().item():.6g} to {risk.max().item():.6g}. Pass P(positive)."
        )
    if weights is None:
        return quantile_sums(risk, happened, n_bins)
    counts = check_weights(weights, len(risk))
    counted = counts > 0
    return quantile_sums(risk[counted], happened[counted], n_bins, counts[counted])


def risk_of_sums(totals: Tensor, bins: Tensor, *, level: float = 0.95) -> Risk:
    """Judge from sums alone.

    Args:
        totals: Shape ``(3, any)``: count, sum of risk, events of all examples, in whatever bins of the risk; with
            weights that say how much a row represents ``(7, any)``.
        bins: The same of all or of a random part of them, in the bins to be shown.
        level: Of intervals, bars and the test of calibration.

    Returns:
        The verdict. Where the interval of the gap holds 0, ``calibrated`` means that chance alone often gives such an
        ECE, and ``mixed`` that it does not: too high in some bins, too low in others.
    """
    totals = totals.double()
    average, rate, n = _means(totals)
    events = totals[2].sum().item() if len(totals) == 3 else rate * rows_of(totals)
    low, high = exact_ends(events if len(totals) == 3 else rate * n, n, level)
    gap, chance = risk_gap_of_sums(totals, level), consistency(bins, level=level)
    return Risk(
        n=int(rows_of(totals)),
        events=round(events),
        mean=average,
        rate=Interval("event_rate", rate, low, high, level, "exact", 0),
        gap=gap,
        ece=bootstrap_sums("ece", bins, level=level),
        consistency=chance,
        reliability=reliability_of_sums(bins, level=level),
        finding=_finding(gap, chance),
    )


def risk_gap_of_sums(totals: Tensor, level: float) -> Interval:
    """Return mean risk less event rate.

    Given the risks, only the events are left to chance; what the risks tell apart, chance no longer moves.

    Args:
        totals: As :func:`risk_of_sums` takes them.
        level: Of the interval.

    Returns:
        The interval.
    """
    totals = totals.double()
    average, rate, n = _means(totals)
    size = n / _left_to_chance(totals, n)
    near, far = exact_ends(rate * size, size, level)
    return Interval("risk_gap", average - rate, average - far, average - near, level, "score", 0)


def _means(totals: Tensor) -> tuple[float, float, float]:
    """Return mean risk, event rate, and what the rate is worth in equal rows."""
    count, risk, events = (part.sum().item() for part in totals[:3])
    n = count if len(totals) == 3 else worth(*totals[[0, 2, 3, 4]].sum(1)).item()
    return risk / count, min(1.0, events / count), n


def _finding(gap: Interval, chance: Consistency) -> RiskFinding:
    """Let the mean speak where it makes out at least half of the error; else too high here is too low there."""
    if 0.0 not in gap and (2 * abs(gap.estimate) >= chance.ece or not chance.miscalibrated):
        return "overstated" if gap.estimate > 0 else "understated"
    return "mixed" if chance.miscalibrated else "calibrated"


def _left_to_chance(totals: Tensor, n: float) -> float:
    """Return the variance of the events within bins of the risk, as a share of that of as many coin tosses."""
    totals = totals[:, totals[0] > 0]
    count, _, events = totals[:3]
    rate = float(events.sum() / count.sum())
    if not 0 < rate < 1:
        return 1.0
    if len(totals) > 3:
        share = _spread(totals) * n / (rate * (1 - rate))
        alike = abs(float(totals[4].sum() / events.sum() * count.sum() / totals[3].sum()) - 1) < 1e-9
        return min(1.0, share) if alike else share  # where events weigh as much as others, they are no more than tosses
    within = (events + 1) / (count + 2)  # never 0: bins with few examples must not look certain
    left: float = ((count * within * (1 - within)).sum() / (count.sum() * rate * (1 - rate))).item()
    return min(1.0, left)


def _spread(totals: Tensor) -> float:
    """Return the variance of mean risk less event rate where rows are weighted, given the risks.

    An event instead of none changes the gap by its residual, and where events weigh more or less than others, by
    what it takes from the weight of all, too.
    """
    count, risk, events, squares, of_events = totals[:5]
    others = (count - events).clamp(min=0)
    of_others = (squares - of_events).clamp(min=0)
    # Effective numbers of both in each bin, and what one of them weighs; where there is none, as much as elsewhere.
    m, n = ratio(events.square(), of_events), ratio(others.square(), of_others)
    event = torch.where(events > 0, ratio(of_events, events), of_events.sum() / events.sum())
    other = torch.where(others > 0, ratio(of_others, others), of_others.sum() / others.sum())
    mean_risk, gap = risk / count, (risk.sum() - events.sum()) / count.sum()
    change = event * (mean_risk - 1 - gap) - other * (mean_risk - gap)
    within = (m + 1) / (m + n + 2)  # never 0: bins with few examples must not look certain
    return float(((m + n) * within * (1 - within) * change.square()).sum() / count.sum().square())


def ranking(
    risk: Values,
    happened: Values,
    weights: Values | None = None,
    *,
    level: float = 0.95,
    weights_are: WeightsAre = "importance",
) -> tuple[Interval, Interval] | None:
    """Return how well the risk ranks: AUROC, and average precision, of the positive class.

    The AUROC gets the wider of two intervals: that of DeLong et al. 1988 on the scale of log-odds, and that which
    inverts the test with the variance of Hanley and McNeil 1982; below ten examples of a class, the exact one of a
    share of as many as the smaller class has, which no ranking can exceed (Birnbaum and Klose 1957). Average
    precision gets that of a share of as many as there are events (after Boyd et al. 2013). With weights numbers are
    effective ones, and that of average precision is smaller where its variance says so.

    Args:
        risk: Probability of the event, shape ``(n,)``.
        happened: 1 where it happened, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        level: Of the intervals.
        weights_are: How much a row represents, or how many independent rows it stands for.

    Returns:
        Both; None where all or none of the examples are events.

    Example:
        >>> auroc, precision = ranking([0.9, 0.7, 0.6], [1, 0, 1])
        >>> auroc.estimate, round(precision.estimate, 4)  # (1 + 2/3) / 2
        (0.5, 0.8333)
    """
    risk, happened = as_tensor(risk, "risk"), as_tensor(happened, "events")
    check_weights_are(weights_are)
    counts = None if weights is None else check_weights(weights, len(risk))
    if counts is not None and weights_are == "counts":
        (risk, happened), counts = repeated(counts, risk, happened), None
    elif counts is not None:
        counted = counts > 0
        risk, happened, counts = risk[counted], happened[counted], counts[counted]
    event = happened.bool()
    positive, negative = risk[event].double(), risk[~event].double()
    if not len(positive) or not len(negative):
        return None
    both = None if counts is None else (counts[event], counts[~event])
    m, n = (len(positive), len(negative)) if both is None else (kish(both[0]), kish(both[1]))
    area = area_under_roc(positive, negative, both).item()
    precision = average_precision(positive, negative, both).item()
    least, most = exact_ends(precision * m, m, level)
    if both is not None:
        least, most = _of_precision(positive, negative, both, precision, m, level)
    if min(m, n) < _FEW:
        low, high = exact_ends(area * min(m, n), min(m, n), level)
    else:
        ends = (_by_places(positive, negative, area, level, both), _by_test(area, m, n, level))
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    return (
        Interval("risk_auroc", area, low, high, level, "score", 0),
        Interval("average_precision", precision, least, most, level, "exact", 0),
    )


def _by_places(
    positive: Tensor, negative: Tensor, area: float, level: float, weights: tuple[Tensor, Tensor] | None
) -> tuple[float, float]:
    """Return DeLong's interval on the scale of log-odds; of no width where one class is above the other throughout."""
    if not 0 < area < 1:
        return area, area
    of_positive, of_negative = weights or (None, None)
    above = _variance(share_below(negative, positive, of_negative), of_positive)
    below = _variance(share_below(positive, negative, of_positive), of_negative)
    reach = NormalDist().inv_cdf((1 + level) / 2) * (above + below).sqrt().item() / (area * (1 - area))
    middle = math.log(area / (1 - area))
    return 1 / (1 + math.exp(reach - middle)), 1 / (1 + math.exp(-reach - middle))


def _of_precision(
    positive: Tensor, negative: Tensor, weights: tuple[Tensor, Tensor], precision: float, m: float, level: float
) -> tuple[float, float]:
    """Return the ends of a weighted average precision: of a share of as many as its variance says, m at most.

    Where other examples weigh more than events, few of them decide, and one that is not seen at the top makes it too
    high: the lower end is that with one more.
    """
    low = precision
    if 0 < precision < 1:
        variance, rows = precision_variance(positive, negative, weights)
        tails = NormalDist().inv_cdf((1 + level) / 2) / float(stdtrit(max(1.0, rows - 1), (1 + level) / 2))
        m = min(m, tails**2 * precision * (1 - precision) / variance)
    of_event, of_other = (float(each.square().sum() / each.sum()) for each in weights)
    if of_other > of_event:
        low = average_precision(positive, negative, weights, more=of_other - of_event).item()
    return exact_ends(low * m, m, level)[0], exact_ends(precision * m, m, level)[1]


def _variance(shares: Tensor, weights: Tensor | None) -> Tensor:
    """Return the variance of a mean."""
    if weights is None:
        return shares.var() / len(shares)
    off, n = shares - mean(shares, weights), kish(weights)
    return weights.square() @ off.square() / weights.sum().square() * (n / (n - 1))


def _by_test(area: float, m: float, n: float, level: float) -> tuple[float, float]:
    """Return all areas that a test with the variance of Hanley and McNeil does not refuse."""
    z = NormalDist().inv_cdf((1 + level) / 2)

    def refused(t: float) -> float:
        spread = t * (1 - t) + (m - 1) * (t / (2 - t) - t * t) + (n - 1) * (2 * t * t / (1 + t) - t * t)
        return (area - t) ** 2 - z * z * spread / (m * n)

    hair = 1e-9  # at 0 and 1 themselves the variance is 0, which would be a root too
    low = brentq(refused, 0.0, min(area, 1 - hair)) if area > 0 else 0.0
    high = brentq(refused, max(area, hair), 1.0) if area < 1 else 1.0
    return float(low), float(high)
