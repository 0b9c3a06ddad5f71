"""Which of two predictions of the same examples is better calibrated, said only where chance would seldom say it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Literal

import torch
from torch import Tensor

from surefoot.auditing._reading import Reading
from surefoot.metrics.bootstrap import bootstrap_sums
from surefoot.metrics.ece_interval import ece_difference
from surefoot.metrics.interval import Interval
from surefoot.metrics.mean_losses import loss
from surefoot.metrics.paired import paired_gap, paired_share
from surefoot.metrics.verdict import CalibrationVerdict
from surefoot.registry import METRICS
from surefoot.schema import Form
from surefoot.sources.forms import scale_of, top_of

Letter = Literal["A", "B"]
_DRAWS = 1000
_BEYOND = 20  # draws beyond both ends of an interval together


@dataclass(frozen=True)
class PairedRows:
    """Rows that were sampled of both."""

    probs: tuple[Tensor, Tensor]
    labels: Tensor
    weights: Tensor | None = None
    form: Form = "multiclass"
    _differences: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, a: Reading, b: Reading, few: int) -> PairedRows:
        """Take the first sampled rows, which are the same of both."""
        weights = None if a.weights is None else torch.from_numpy(a.weights[:few])
        return cls((a.probs(few), b.probs(few)), torch.from_numpy(a.labels[:few]), weights, a.form)

    @cached_property
    def tops(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Confidence and correctness of both."""
        (a, b), top = self.probs, top_of(self.form)
        return top(a, self.labels), top(b, self.labels)

    def share(self, level: float) -> Interval:
        """Return the difference of accuracies."""
        (_, a), (_, b) = self.tops
        return paired_share("accuracy", a, b, level, self.weights)

    def gap(self, level: float, sign: int = -1) -> Interval:
        """Return the difference of confidence − accuracy, or the sum."""
        return paired_gap(*self.tops, level, self.weights, sign=sign)

    def loss(self, name: str, level: float) -> Interval:
        """Return the difference of a mean loss."""
        if name not in self._differences:
            each, scale = METRICS[name].facts["each"], scale_of(name, self.form)
            a, b = (scale * each(probs, self.labels).double() for probs in self.probs)
            self._differences[name] = a - b
        (_, right_a), (_, right_b) = self.tops
        return loss(name, self._differences[name], right_a & right_b, level, (-math.inf, math.inf), self.weights)


@dataclass(frozen=True)
class Better:
    """The better calibrated one, and what shows it."""

    letter: Letter
    by: Literal["confidence_gap", "ece"]


def better_calibrated(
    a: CalibrationVerdict,
    b: CalibrationVerdict,
    bins: tuple[Tensor, Tensor],
    pair: PairedRows,
    share: float,
    *,
    level: float | None = None,
) -> Better | None:
    """Return which one is better calibrated.

    Two things can show it: that confidence is off by less, and a smaller ECE. Each is looked at with half the chance of
    an error, so that together they find a winner where there is none no more often than one interval would.
    |g_A| > |g_B| means that g_A − g_B and g_A + g_B have one sign, so both have to be clear of 0. The worse one must
    have been found fault with on its own, and have the larger ECE: nothing is said that other lines do not bear out.

    Args:
        a: Verdict on one.
        b: Verdict on the other.
        bins: Of all rows of both, shape ``(3, n_bins)`` each.
        pair: Rows of both.
        share: Of all rows that these are.
        level: Of the decision; that of the verdicts where none is given.

    Returns:
        The better one; None where it cannot be told.
    """
    level = (1 + (a.gap.level if level is None else level)) / 2
    found: list[Better] = []
    if (larger := _larger_gap(a, b, pair, share, level)) is not None:
        found.append(Better("B" if larger == "A" else "A", "confidence_gap"))
    ece = ece_difference(*(ece_at(level, sums) for sums in bins))
    if 0.0 not in ece:
        found.append(Better("A" if ece.estimate < 0 else "B", "ece"))
    if len({each.letter for each in found}) != 1:
        return None
    better, worse = (a, b) if found[0].letter == "A" else (b, a)
    agrees = worse.finding != "calibrated" and better.ece.estimate <= worse.ece.estimate
    return found[0] if agrees else None


def ece_at(level: float, sums: Tensor) -> Interval:
    """Return the interval of ECE with as many draws as the tails of a level need."""
    return _ece_at(level, tuple(map(tuple, sums.tolist())))


@lru_cache(maxsize=1000)  # of many models each is in many pairs
def _ece_at(level: float, sums: tuple[tuple[float, ...], ...]) -> Interval:
    draws = max(_DRAWS, math.ceil(_BEYOND / (1 - level)))
    return bootstrap_sums("ece", torch.tensor(sums, dtype=torch.float64), level=level, n_resamples=draws)


def _larger_gap(
    a: CalibrationVerdict, b: CalibrationVerdict, pair: PairedRows, share: float, level: float
) -> Letter | None:
    less, more = (scaled(pair.gap(level, sign), a.gap.estimate + sign * b.gap.estimate, share) for sign in (-1, 1))
    if 0.0 in less or 0.0 in more:
        return None
    return "A" if (less.estimate > 0) == (more.estimate > 0) else "B"


def scaled(spread: Interval, estimate: float, share: float) -> Interval:
    """Move the interval of some rows to the estimate of all, and narrow it.

    Args:
        spread: From a sample.
        estimate: From all rows.
        share: Of all rows that were sampled.

    Returns:
        The interval of all.
    """
    low, high = (estimate + math.sqrt(share) * (end - spread.estimate) for end in (spread.low, spread.high))
    return replace(spread, estimate=estimate, low=low, high=high)
