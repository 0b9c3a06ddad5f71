"""How far a measure has moved since a baseline: row by row where both are of the same examples, else as two studies."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from surefoot.auditing._reading import part_of
from surefoot.auditing._summary import Summary
from surefoot.auditing.better import scaled
from surefoot.metrics.ece_interval import ece_difference
from surefoot.metrics.interval import Interval, no_interval
from surefoot.metrics.mean_losses import loss
from surefoot.metrics.paired import paired_share
from surefoot.sources.labels import Array

GAPS = ("confidence_gap", "risk_gap")
_ERRORS = ("ece", "risk_ece", *GAPS)


def difference(new: Summary, old: Summary, key: str, level: float) -> Interval:
    """Return how much larger a measure has become; of a gap, its size.

    Calibration errors are biased, and pairing rows does not cancel that: their interval reaches from the one's lower to
    the other's upper end. Of other measures, paired differences are those of the audit of two files, and unpaired
    ones are put together from the reach of each (MOVER, Zou and Donner 2008).

    Args:
        new: What is checked.
        old: The baseline.
        key: Of a measure that both have.
        level: Of the interval.

    Returns:
        The interval of new − old.
    """
    a, b = (sized(each.interval(key, level)) if key in GAPS else each.interval(key, level) for each in (new, old))
    paired = new.pairs_with(old)
    if not (math.isfinite(a.estimate) and math.isfinite(b.estimate)):
        return _of_infinite(key, a, b, level, paired)
    if key in _ERRORS:
        return replace(ece_difference(a, b), metric=key)
    if not paired:
        return unpaired(a, b)
    estimate, share = a.estimate - b.estimate, len(new.rows.correct) / new.n
    if key == "accuracy" or part_of(key, 15)[0].facts.get("interval") == "exact":
        one, other = (each.rows.correct if key == "accuracy" else each.rows.losses[key] for each in (new, old))
        return scaled(paired_share(key, _tensor(one), _tensor(other), level), estimate, share)
    each = _tensor(new.rows.losses[key]) - _tensor(old.rows.losses[key])
    right = torch.from_numpy(new.rows.correct & old.rows.correct)
    return scaled(loss(key, each, right, level, (-math.inf, math.inf)), estimate, share)


def sized(gap: Interval) -> Interval:
    """Return the interval of a gap's size.

    Example:
        >>> found = sized(Interval("confidence_gap", -0.02, -0.05, 0.01, 0.95, "exact"))
        >>> found.estimate, found.low, found.high
        (0.02, 0.0, 0.05)
    """
    ends = abs(gap.low), abs(gap.high)
    return replace(gap, estimate=abs(gap.estimate), low=0.0 if 0.0 in gap else min(ends), high=max(ends))


def unpaired(a: Interval, b: Interval) -> Interval:
    """Return the difference of two estimates from independent rows.

    Args:
        a: One.
        b: The other.

    Returns:
        The interval of A − B; it excludes nothing where one of them has none.

    Example:
        >>> a, b = (Interval("nll", mean, mean - 3.0, mean + 4.0, 0.95, "parts") for mean in (10.0, 5.0))
        >>> found = unpaired(a, b)  # 5 − √(3² + 4²) and 5 + √(4² + 3²)
        >>> found.low, found.high
        (0.0, 10.0)
    """
    estimate = a.estimate - b.estimate
    if not (a.known and b.known):
        return no_interval(a.metric, estimate, a.level, a.note or f"of the baseline, {b.note}")
    down = math.hypot(a.estimate - a.low, b.high - b.estimate)
    up = math.hypot(a.high - a.estimate, b.estimate - b.low)
    return Interval(a.metric, estimate, estimate - down, estimate + up, a.level, "mover")


def _of_infinite(key: str, a: Interval, b: Interval, level: float, paired: bool) -> Interval:
    """A row of probability 0 on the true class makes a mean infinite for good, however many rows there are."""
    if paired and math.isfinite(b.estimate):
        return Interval(key, math.inf, math.inf, math.inf, level, "parts", note="it has become infinite")
    if paired and math.isfinite(a.estimate):
        return Interval(key, -math.inf, -math.inf, -math.inf, level, "parts", note="it is infinite no more")
    both = "both are" if a.estimate == b.estimate else "one of them is"
    return no_interval(key, a.estimate - b.estimate, level, f"{both} infinite")


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(values).double()
