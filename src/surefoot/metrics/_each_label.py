"""Every label judged alone: of many some look miscalibrated by chance, so findings are corrected for their number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from scipy.special import chdtrc
from torch import Tensor

from surefoot.corrections import holm
from surefoot.metrics._weights import ratio, worth
from surefoot.metrics.interval import Interval
from surefoot.metrics.risk import RiskFinding, risk_of_sums

_LEAST = 1.0  # variance of the events of a bin for the distribution of its square to be known


@dataclass(frozen=True)
class LabelVerdict:
    """Calibration of one label's probability. Fractions, with intervals."""

    label: int
    n: int
    events: int
    mean: float
    rate: Interval
    """How often it is true."""
    gap: Interval
    """Mean probability less that rate."""
    ece: Interval
    p_value: float
    """How often chance alone gives as much, corrected for the number of labels."""
    finding: RiskFinding


def judge_each(bins: Tensor, level: float) -> tuple[LabelVerdict, ...]:
    """Judge every label alone, the worst first.

    Args:
        bins: Shape ``(3, labels, n_bins)``: count, sum of the probability, how many are true; with weights
            ``(7, labels, n_bins)``.
        level: Of the intervals; findings hold with this probability for all labels at once.

    Returns:
        One verdict per label: those that are miscalibrated first, by how far they are off.
    """
    found = []
    for label, (sums, p) in enumerate(zip(bins.unbind(1), corrected(bins), strict=True)):
        risk = risk_of_sums(sums, sums, level=level)
        clear = p < 1 - level
        large = 2 * abs(risk.gap.estimate) >= risk.ece.estimate
        word = finding_of(clear and large, risk.gap.estimate, risk.ece.estimate, miscalibrated=clear)
        found.append(LabelVerdict(label, risk.n, risk.events, risk.mean, risk.rate, risk.gap, risk.ece, p, word))
    return tuple(sorted(found, key=lambda each: (each.finding == "calibrated", -each.ece.estimate)))


def corrected(bins: Tensor) -> tuple[float, ...]:
    """Return of every label how often chance alone gives as much, corrected for the number of labels."""
    return holm([_p_value(sums) for sums in bins.unbind(1)])


def finding_of(clear: bool, gap: float, ece: float, *, miscalibrated: bool) -> RiskFinding:
    """Put a word to the numbers.

    Args:
        clear: Whether the gap is more than chance explains.
        gap: Mean probability less how often labels are true.
        ece: Of the same labels.
        miscalibrated: Whether the ECE is more than chance explains.

    Returns:
        The finding.
    """
    if clear and (2 * abs(gap) >= ece or not miscalibrated):
        return "overstated" if gap > 0 else "understated"
    return "mixed" if miscalibrated else "calibrated"


def _p_value(sums: Tensor) -> float:
    """How often chance alone gives such a gap, or such squares of the bins' gaps, whichever is rarer."""
    count, sure, right = sums[:3]
    size = count if len(sums) == 3 else worth(count, right, sums[3], sums[4])
    p = ratio(sure, count).clamp(0, 1)
    enough = size * p * (1 - p)  # events of so many equal rows vary by this
    variance = ratio(count.square(), size) * p * (1 - p)
    total = float(variance.sum())
    off = sure - right
    if total <= 0:
        return 0.0 if float(off.abs().sum()) > 1e-9 * max(1.0, float(count.sum())) else 1.0
    one = 1.0 if len(sums) == 3 else float(sums[3].sum() / count.sum())  # events come in whole numbers
    z = max(0.0, abs(float(off.sum())) - 0.5 * one) / math.sqrt(total)
    of_gap = 2 * (1 - NormalDist().cdf(z))
    large = enough >= _LEAST
    squares = [float(o * o / v) for o, v in zip(off[large], variance[large], strict=True)]
    if float(enough[~large].sum()) >= _LEAST:
        squares.append(float(off[~large].sum()) ** 2 / float(variance[~large].sum()))
    of_bins = float(chdtrc(len(squares), sum(squares))) if squares else 1.0
    return min(1.0, 2 * min(of_gap, of_bins))
