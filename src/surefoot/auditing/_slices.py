"""Slices that are off, after a correction for how many were looked at: of twenty calibrated ones, one looks off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from surefoot.auditing._reading import Reading
from surefoot.auditing._two_classes import TwoClasses, slice_risk
from surefoot.metrics.interval import Interval
from surefoot.metrics.reliability import consistency
from surefoot.metrics.risk import Risk, risk_gap_of_sums
from surefoot.metrics.shares import gap_of_sums
from surefoot.metrics.verdict import CalibrationVerdict, verdict_of_sums
from surefoot.statistics import bonferroni, holm, p_value

FEW = 10  # examples, below which nothing is said about calibration
HIDDEN = 0.05  # a gap that examples must be able to show for their slice not to be too small
OF_RATE = 0.5  # the same of a risk, as a part of the event rate
TOO_FEW, WITHIN = "too few to tell", "within chance"
_DRAWS = 2000
_MOST_NAMED = 6
_ORDER = {WITHIN: 1, TOO_FEW: 2}  # what is off comes first


@dataclass(frozen=True)
class SliceVerdict:
    """One value of a group column.

    Attributes:
        column: What rows are divided by.
        value: The slice.
        verdict: On its rows alone, as if nothing else had been looked at.
        risk: Of two classes: the risk beside the events.
        gap: Confidence − accuracy, or mean risk − event rate, with an interval that holds for all slices at once.
        p_value: Of the slice being calibrated, after Holm's correction for all slices.
        finding: What is said after the correction: a fault, ``mixed`` where only the ECE shows one; ``within chance``;
            or ``too few to tell``.
    """

    column: str
    value: str
    verdict: CalibrationVerdict
    risk: Risk | None
    gap: Interval
    p_value: float
    finding: str

    @property
    def off(self) -> bool:
        """Whether a fault is found after the correction."""
        return self.finding not in _ORDER


def judge_slices(reading: Reading, level: float, two: TwoClasses | None) -> tuple[SliceVerdict, ...]:
    """Judge every slice, by confidence or of two classes by the risk, the worst of a column first.

    A slice is off where its gap or its ECE is more than chance explains, each with half the chance of an error, after
    Holm's correction for all slices. One that is not off, and too small to show a gap of five points (of a risk, of
    half the event rate), is too few to tell.

    Args:
        reading: What was read.
        level: Of all decisions together.
        two: What was found about the risk, where there are two classes.

    Returns:
        All slices of all columns.
    """
    places = [(column, value) for column, found in reading.slices.items() for value in found]
    if not places:
        return ()
    if two is None:
        sums = [reading.slices[column][value].sums for column, value in places]
    else:
        sums = [reading.class_slices[column][value].sums[:, two.positive.index] for column, value in places]
    looks = [_p_values(each, level, len(places), risk=two is not None) for each in sums]
    by_holm, of_gaps = holm([min(each) for each in looks]), holm([by_gap for by_gap, _ in looks])
    at_once = bonferroni(level, len(places))
    found = []
    for (column, value), each, p, of_gap in zip(places, sums, by_holm, of_gaps, strict=True):
        verdict = verdict_of_sums(reading.slices[column][value].sums, level=level)
        risk = None
        if two is not None:
            risk = slice_risk(reading.class_slices[column][value].sums, two.positive, level)
            verdict = replace(verdict, finding=risk.finding)
        gap = _gap(each, at_once, risk=two is not None)
        said = TOO_FEW if _too_few(verdict, risk, gap) else WITHIN
        if p <= 1 - level and verdict.n >= FEW and verdict.finding != "calibrated":
            said = verdict.finding if of_gap <= 1 - level else "mixed"
        found.append(SliceVerdict(column, value, verdict, risk, gap, p, said))
    columns = list(reading.slices)
    return tuple(
        sorted(found, key=lambda each: (columns.index(each.column), _ORDER.get(each.finding, 0), -_size(each)))
    )


def _gap(sums: Tensor, level: float, *, risk: bool) -> Interval:
    return risk_gap_of_sums(sums, level) if risk else gap_of_sums(sums, level)


def _p_values(sums: Tensor, level: float, n_slices: int, *, risk: bool) -> tuple[float, float]:
    """Return those of a calibrated slice from two looks, at the gap and at the ECE, each corrected for the other."""
    by_gap = p_value(lambda level: 0.0 not in _gap(sums, level, risk=risk))
    by_ece = consistency(sums, n_resamples=_DRAWS).p_value
    draws = math.ceil(20 * 2 * n_slices / (1 - level))  # twenty beyond the strictest limit
    if by_ece < 10 / _DRAWS and draws > _DRAWS and by_gap > by_ece:
        by_ece = consistency(sums, n_resamples=draws).p_value
    return min(1.0, 2 * by_gap), min(1.0, 2 * by_ece)


def _too_few(verdict: CalibrationVerdict, risk: Risk | None, gap: Interval) -> bool:
    reach = (gap.high - gap.low) / 2
    least = HIDDEN if risk is None else min(HIDDEN, OF_RATE * risk.rate.estimate)
    return verdict.n < FEW or reach > least


def _size(each: SliceVerdict) -> float:
    return abs(each.risk.gap.estimate) if each.risk is not None else each.verdict.ece.estimate


def slice_words(slices: Sequence[SliceVerdict]) -> str:
    """Say which slices are off, and how many were looked at.

    Args:
        slices: All of them.

    Returns:
        A sentence without its full stop; empty where there are no slices.
    """
    if not slices:
        return ""
    off = sorted((each for each in slices if each.off), key=lambda each: (each.p_value, -_size(each)))
    few = sum(each.finding == TOO_FEW for each in slices)
    looked = "the only slice" if len(slices) == 1 else f"{len(slices)} slices looked at"
    start = "none is off" if not off else f"{len(off)} {'is' if len(off) == 1 else 'are'} off"
    said = f"of {looked}, {start} after Holm's correction"
    if len(slices) == 1:
        said = f"{looked} is {'off' if off else 'not shown to be off'}"
    if off:
        rest = f" and {len(off) - _MOST_NAMED} more" if len(off) > _MOST_NAMED else ""
        said += f": {', '.join(map(_named, off[:_MOST_NAMED]))}{rest}"
    if few:
        said += f"; {few} {'has' if few == 1 else 'have'} too few examples to tell"
    return said


def _named(each: SliceVerdict) -> str:
    gap = each.risk.gap if each.risk is not None else each.verdict.gap
    by = "" if each.finding == "mixed" else f" by {100 * abs(gap.estimate):.1f} points"
    return f"{each.column} = {each.value} ({each.finding}{by})"
