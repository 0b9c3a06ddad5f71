"""Several labels per row, each true or not by itself: every label judged alone, and all of them together.

The labels of one row belong together, so what is pooled over labels has no more independent parts than there are rows:
intervals of pooled numbers come from how whole rows differ. Of many labels some look miscalibrated by chance: the
findings of single labels are corrected for how many there are (Holm 1979).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from scipy.special import chdtrc, stdtrit
from torch import Generator, Tensor

from surefoot.errors import InputError
from surefoot.metrics._binning import bin_index
from surefoot.metrics._input import Values, as_tensor
from surefoot.metrics.interval import Interval
from surefoot.metrics.reliability import Consistency, Reliability
from surefoot.metrics.risk import RiskFinding, risk_of_sums
from surefoot.metrics.verdict import CalibrationVerdict
from surefoot.seeding import generator as make_generator

_DRAWS = 2000
_NEAR = 2.5  # standard errors from 0 within which a bin may be calibrated
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


class LabelStream:
    """Sums over batches: bins of every label, and how rows differ.

    Args:
        n_bins: Number of equal-width bins (a, b].
    """

    def __init__(self, n_bins: int = 15) -> None:
        self.n_bins, self.n = n_bins, 0
        self.bins = torch.zeros(3, 0, n_bins, dtype=torch.float64)
        self.rows = torch.zeros(n_bins, dtype=torch.float64)  # Σ of the rows' residuals, by bin
        self.products = torch.zeros(n_bins, n_bins, dtype=torch.float64)
        self.true, self.true_squares = 0.0, 0.0

    def update(self, probs: Values, labels: Values) -> None:
        """Add rows.

        Args:
            probs: Probability of every label, shape ``(n, labels)``, in [0, 1].
            labels: 1 where it is true, else 0; the same shape.

        Raises:
            InputError: If they do not fit, or are no probabilities and labels.
        """
        p, y = _checked(probs, labels)
        n, k = p.shape
        place = bin_index(p, self.n_bins)
        cell = (torch.arange(k) * self.n_bins + place).reshape(-1)
        sums = [
            torch.bincount(cell, each, k * self.n_bins)
            for each in (torch.ones(n * k).double(), p.reshape(-1), y.reshape(-1))
        ]
        table = torch.stack(sums).reshape(3, k, self.n_bins)
        self.bins = table if not self.n else self.bins + table
        row = (torch.arange(n)[:, None] * self.n_bins + place).reshape(-1)
        residual = torch.bincount(row, (p - y).reshape(-1), n * self.n_bins).reshape(n, self.n_bins)
        self.rows += residual.sum(0)
        self.products += residual.T @ residual
        true = y.mean(1)
        self.true, self.true_squares = self.true + true.sum().item(), self.true_squares + true.square().sum().item()
        self.n += n

    def micro(self, *, level: float = 0.95, generator: Generator | None = None) -> CalibrationVerdict:
        """Judge all labels together, with the labels of a row as one draw.

        Args:
            level: Of the intervals, bars and the test of calibration.
            generator: Where the randomness comes from; the same numbers each time when left out.

        Returns:
            The verdict: ``accuracy`` is how often labels are true, ``gap`` the mean probability less that.
        """
        source = generator or make_generator(0, "multilabel")
        n, k = self.n, self.bins.shape[1]
        spread = self.spread()
        count, sure, right = self.bins.sum(1)
        pairs = n * k
        t = float(stdtrit(max(1, n - 1), (1 + level) / 2))
        off = (sure - right).sum().item() / pairs
        reach = t * math.sqrt(max(0.0, float(spread.sum()))) / pairs
        gap = Interval("confidence_gap", off, max(-1.0, off - reach), min(1.0, off + reach), level, "rows", 0)
        chance, ece = self._ece(spread, pairs, level, t, source)
        finding = _finding(0.0 not in gap, gap.estimate, chance.miscalibrated, chance.ece)
        less = sure - right
        return CalibrationVerdict(
            n=n,
            finding=finding,
            accuracy=self._rate(level, t),
            gap=gap,
            ece=ece,
            overconfidence=(less.clamp(min=0).sum() / pairs).item(),
            underconfidence=(-less.clamp(max=0).sum() / pairs).item(),
            consistency=chance,
            reliability=_bars(count, sure, right, spread, level),
            classes=(),
        )

    def spread(self) -> Tensor:
        """Return the covariance of the bins' sums of residuals, from how rows differ."""
        mean = self.rows / self.n
        within = self.products - self.n * torch.outer(mean, mean)
        return within * self.n / max(1, self.n - 1)

    def _rate(self, level: float, t: float) -> Interval:
        mean = self.true / self.n
        variance = max(0.0, self.true_squares / self.n - mean**2) / max(1, self.n - 1)
        reach = t * math.sqrt(variance)
        return Interval("accuracy", mean, max(0.0, mean - reach), min(1.0, mean + reach), level, "rows", 0)

    def _ece(
        self, spread: Tensor, pairs: int, level: float, t: float, source: Generator
    ) -> tuple[Consistency, Interval]:
        """Do what the interval of ECE does for independent rows, with noise that is correlated between bins."""
        off = self.rows
        ece = float(off.abs().sum()) / pairs
        noise = _draws(spread, source)
        by_chance = noise.abs().sum(1) / pairs
        p_value = (1 + int((by_chance >= ece - 1e-12).sum())) / (1 + _DRAWS)
        chance = Consistency(ece, float(by_chance.mean()), float(by_chance.quantile(level)), p_value, level)
        deviation = spread.diagonal().clamp(min=0).sqrt()
        truth = off.masked_fill(off.abs() <= _NEAR * deviation, 0.0)
        lifted = ((truth + noise).abs().sum(1) - truth.abs().sum()) / pairs
        down = float(lifted.quantile((1 + level) / 2)) if chance.miscalibrated else math.inf
        sign = off.sign()
        up = t * math.sqrt(max(0.0, float(sign @ spread @ sign))) / pairs
        low, high = max(0.0, ece - max(0.0, down)), min(1.0, ece + up)
        return chance, Interval("ece", ece, min(low, ece), high, level, "rows", _DRAWS)

    def each(self, *, level: float = 0.95) -> tuple[LabelVerdict, ...]:
        """Judge every label alone, the worst first.

        Args:
            level: Of the intervals; findings hold with this probability for all labels at once.

        Returns:
            One verdict per label: those that are miscalibrated first, by how far they are off.
        """
        k = self.bins.shape[1]
        raw = [_p_value(self.bins[:, label]) for label in range(k)]
        adjusted = holm(raw)
        found = []
        for label in range(k):
            sums = self.bins[:, label]
            risk = risk_of_sums(sums, sums, level=level)
            clear = adjusted[label] < 1 - level
            large = 2 * abs(risk.gap.estimate) >= risk.ece.estimate
            word = _finding(clear and large, risk.gap.estimate, clear, risk.ece.estimate)
            found.append(
                LabelVerdict(
                    label, risk.n, risk.events, risk.mean, risk.rate, risk.gap, risk.ece, adjusted[label], word
                )
            )
        return tuple(sorted(found, key=lambda each: (each.finding == "calibrated", -each.ece.estimate)))


def _checked(probs: Values, labels: Values) -> tuple[Tensor, Tensor]:
    p, y = as_tensor(probs, "probs").double(), as_tensor(labels, "labels").double()
    if p.ndim != 2 or p.shape != y.shape or not len(p):
        raise InputError(
            f"Expected probs and labels (n, labels), but got {tuple(p.shape)} and {tuple(y.shape)}. Pass one "
            "column per label."
        )
    if not bool(((p >= 0) & (p <= 1)).all()):
        raise InputError("Expected probabilities in [0, 1] for every label, but some are outside. Pass the sigmoid.")
    if not bool(((y == 0) | (y == 1)).all()):
        raise InputError("Expected 1 or 0 for every label, but got others. Pass 1 where a label is true.")
    return p, y


def _finding(clear: bool, gap: float, miscalibrated: bool, ece: float) -> RiskFinding:
    if clear and (2 * abs(gap) >= ece or not miscalibrated):
        return "overstated" if gap > 0 else "understated"
    return "mixed" if miscalibrated else "calibrated"


def _draws(spread: Tensor, source: Generator) -> Tensor:
    """Draw from a normal distribution with this covariance, which may be singular."""
    values, vectors = torch.linalg.eigh((spread + spread.T) / 2)
    noise = torch.randn(_DRAWS, len(values), generator=source, dtype=torch.float64)
    drawn: Tensor = noise * values.clamp(min=0).sqrt() @ vectors.T
    return drawn


def _bars(count: Tensor, sure: Tensor, right: Tensor, spread: Tensor, level: float) -> Reliability:
    reach = NormalDist().inv_cdf((1 + level) / 2) * spread.diagonal().clamp(min=0).sqrt()

    def column(values: Tensor) -> list[float | None]:
        shares = (values / count.clamp(min=1)).clamp(0, 1).tolist()
        return [share if n else None for share, n in zip(shares, count.tolist(), strict=True)]

    low, high = column(sure - reach), column(sure + reach)
    return Reliability([int(n) for n in count.tolist()], column(sure), column(right), low, high, level)


def _p_value(sums: Tensor) -> float:
    """How often chance alone gives such a gap, or such squares of the bins' gaps, whichever is rarer."""
    count, sure, right = sums
    p = (sure / count.clamp(min=1)).clamp(0, 1)
    variance = count * p * (1 - p)
    total = float(variance.sum())
    off = sure - right
    if total <= 0:
        return 0.0 if float(off.abs().sum()) > 1e-9 * max(1.0, float(count.sum())) else 1.0
    z = max(0.0, abs(float(off.sum())) - 0.5) / math.sqrt(total)  # events come in whole numbers
    of_gap = 2 * (1 - NormalDist().cdf(z))
    large = variance >= _LEAST
    squares = [float(o * o / v) for o, v in zip(off[large], variance[large], strict=True)]
    rest = float(variance[~large].sum())
    if rest >= _LEAST:
        squares.append(float(off[~large].sum()) ** 2 / rest)
    of_bins = float(chdtrc(len(squares), sum(squares))) if squares else 1.0
    return min(1.0, 2 * min(of_gap, of_bins))


def holm(p_values: list[float]) -> list[float]:
    """Correct p-values for how many there are.

    Args:
        p_values: One per question.

    Returns:
        Corrected ones in the same order: those below α are findings of which, with probability 1 − α, none is chance.

    Example:
        >>> [round(p, 6) for p in holm([0.01, 0.04, 0.03])]
        [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    found, highest = [1.0] * len(p_values), 0.0
    for place, number in enumerate(order.tolist()):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[number]))
        found[number] = highest
    return found


def judge_labels(
    probs: Values, labels: Values, *, n_bins: int = 15, level: float = 0.95
) -> tuple[CalibrationVerdict, tuple[LabelVerdict, ...]]:
    """Judge predictions of several labels per row.

    Args:
        probs: Probability of every label, shape ``(n, labels)``.
        labels: 1 where it is true, else 0; the same shape.
        n_bins: Number of equal-width bins (a, b].
        level: Of the intervals and findings.

    Returns:
        The verdict on all labels together, and that on each of them, the worst first.

    Example:
        >>> probs = torch.tensor([[0.9, 0.5]]).expand(400, 2)
        >>> labels = torch.stack([torch.arange(400) % 2, torch.arange(400) // 2 % 2], 1)
        >>> micro, each = judge_labels(probs, labels)
        >>> micro.finding, [(one.label, one.finding) for one in each]
        ('overstated', [(0, 'overstated'), (1, 'calibrated')])
    """
    stream = LabelStream(n_bins)
    stream.update(probs, labels)
    return stream.micro(level=level), stream.each(level=level)
