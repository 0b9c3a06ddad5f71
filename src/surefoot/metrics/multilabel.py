"""Several labels per row, each true or not by itself: every label judged alone, and all of them together.

The labels of one row belong together, so what is pooled over labels has no more independent parts than there are rows:
intervals of pooled numbers come from how whole rows differ. Of many labels some look miscalibrated by chance: the
findings of single labels are corrected for how many there are (Holm 1979).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import torch
from scipy.special import stdtrit
from torch import Generator, Tensor

from surefoot.errors import InputError
from surefoot.metrics._binning import bin_index
from surefoot.metrics._each_label import LabelVerdict, finding_of, judge_each
from surefoot.metrics._input import Values, as_tensor
from surefoot.metrics._weights import (
    WeightsAre,
    check_weights,
    check_weights_are,
    ratio,
    repeated,
    without_zeros,
)
from surefoot.metrics.interval import Interval
from surefoot.metrics.reliability import Consistency, Reliability
from surefoot.metrics.shares import exact_ends
from surefoot.metrics.verdict import CalibrationVerdict
from surefoot.seeding import generator as make_generator

__all__ = ["LabelStream", "LabelVerdict", "judge_labels"]

_DRAWS = 2000
_NEAR = 2.5  # standard errors from 0 within which a bin may be calibrated


class LabelStream:
    """Sums over batches: bins of every label, and how rows differ.

    Args:
        n_bins: Number of equal-width bins (a, b].
    """

    def __init__(self, n_bins: int = 15) -> None:
        self.n_bins, self.n = n_bins, 0
        self.bins = torch.zeros(3, 0, n_bins, dtype=torch.float64)  # with weights seven rows, as other bins have
        self.weight, self.squares = 0.0, 0.0  # Σ w, Σ w²
        # Of each row's residuals r by bin, and after them the share y of its labels that are true: Σ w (r, y),
        # Σ w² (r, y), and Σ w² (r, y)(r, y)ᵀ.
        self.rows = torch.zeros(n_bins + 1, dtype=torch.float64)
        self.squared = torch.zeros(n_bins + 1, dtype=torch.float64)
        self.products = torch.zeros(n_bins + 1, n_bins + 1, dtype=torch.float64)

    def update(self, probs: Values, labels: Values, weights: Values | None = None) -> None:
        """Add rows; all batches have weights, or none.

        Args:
            probs: Probability of every label, shape ``(n, labels)``, in [0, 1].
            labels: 1 where it is true, else 0; the same shape.
            weights: How much each row counts, shape ``(n,)``; None where all count alike.

        Raises:
            InputError: If they do not fit, or are no probabilities and labels.
        """
        p, y = _checked(probs, labels)
        if weights is None:
            w = torch.ones(len(p), dtype=torch.float64)
        else:
            p, y, w = without_zeros(check_weights(weights, len(p), some=False), p, y)
        n, k = p.shape
        if not n:
            return
        place = bin_index(p, self.n_bins)
        columns = [w, w * p.T, w * y.T]
        if weights is not None:
            columns += [w.square(), w.square() * y.T, torch.ones_like(w), (w != w.floor()).double()]
        cell = (torch.arange(k) * self.n_bins + place).T.reshape(-1)
        sums = [torch.bincount(cell, each.expand(k, n).reshape(-1), k * self.n_bins) for each in columns]
        table = torch.stack(sums).reshape(len(columns), k, self.n_bins)
        self.bins = table if not self.n else self.bins + table
        row = (torch.arange(n)[:, None] * self.n_bins + place).reshape(-1)
        residual = torch.bincount(row, (p - y).reshape(-1), n * self.n_bins).reshape(n, self.n_bins)
        both = torch.cat([residual, y.mean(1, keepdim=True)], 1)
        heavy = both * w[:, None]
        self.rows += heavy.sum(0)
        self.squared += w @ heavy
        self.products += heavy.T @ heavy
        self.weight, self.squares = self.weight + w.sum().item(), self.squares + w.square().sum().item()
        self.n += n

    def merge(self, other: LabelStream) -> None:
        """Add what another stream of the same labels has seen; all rows have weights, or none."""
        if not other.n:
            return
        self.bins = other.bins.clone() if not self.n else self.bins + other.bins
        self.rows, self.squared = self.rows + other.rows, self.squared + other.squared
        self.products = self.products + other.products
        self.weight, self.squares = self.weight + other.weight, self.squares + other.squares
        self.n += other.n

    @property
    def effective(self) -> float:
        """How many equal rows the rows are worth: (Σw)² / Σw² (Kish 1965)."""
        return self.weight**2 / self.squares if self.squares else 0.0

    def micro(self, *, level: float = 0.95, generator: Generator | None = None) -> CalibrationVerdict:
        """Judge all labels together, with the labels of a row as one draw.

        Args:
            level: Of the intervals, bars and the test of calibration.
            generator: Where the randomness comes from; the same numbers each time when left out.

        Returns:
            The verdict: ``accuracy`` is how often labels are true, ``gap`` the mean probability less that.
        """
        source = generator or make_generator(0, "multilabel")
        spread = self.spread()
        count, sure, right = self.bins[:3].sum(1)
        pairs = self.weight * self.bins.shape[1]
        gap = self.gap(level)
        chance, ece = self._ece(spread, pairs, level, source)
        finding = finding_of(0.0 not in gap, gap.estimate, chance.ece, miscalibrated=chance.miscalibrated)
        less = sure - right
        scale = None if len(self.bins) == 3 else self.n / self.weight
        return CalibrationVerdict(
            n=self.n,
            finding=finding,
            accuracy=self._rate(level),
            gap=gap,
            ece=ece,
            overconfidence=(less.clamp(min=0).sum() / pairs).item(),
            underconfidence=(-less.clamp(max=0).sum() / pairs).item(),
            consistency=chance,
            reliability=_bars(count, sure, right, spread, level, scale),
            classes=(),
        )

    def gap(self, level: float = 0.95) -> Interval:
        """Return the mean probability less how often labels are true, with the labels of a row as one draw.

        Args:
            level: Of the interval.

        Returns:
            The interval.
        """
        pairs = self.weight * self.bins.shape[1]
        off = (self.bins[1] - self.bins[2]).sum().item() / pairs
        reach = self._t(level) * math.sqrt(max(0.0, float(self.spread().sum()))) / pairs if self._tells else math.inf
        return Interval("confidence_gap", off, max(-1.0, off - reach), min(1.0, off + reach), level, "rows", 0)

    def spread(self) -> Tensor:
        """Return the covariance of the bins' sums of residuals, from how rows differ."""
        return self._covariance()[:-1, :-1]

    def _covariance(self) -> Tensor:
        mean = self.rows / self.weight
        crossed = torch.outer(self.squared, mean)
        within = self.products - crossed - crossed.T + self.squares * torch.outer(mean, mean)
        return within * (self.effective / (self.effective - 1) if self._tells else 1.0)

    @property
    def _tells(self) -> bool:
        """Whether rows are worth two, of which one can differ from the other."""
        return self.effective > 2 - 1e-9

    def _t(self, level: float) -> float:
        return float(stdtrit(max(1.0, self.effective - 1), (1 + level) / 2))

    def _rate(self, level: float) -> Interval:
        mean = min(1.0, self.rows[-1].item() / self.weight)
        variance = float(self._covariance()[-1, -1])
        if self._tells and variance > 1e-12 * self.squares:
            reach = self._t(level) * math.sqrt(variance) / self.weight
            ends = max(0.0, mean - reach), min(1.0, mean + reach)
        else:  # rows that are all alike say no more than as many that are true or not
            ends = exact_ends(mean * self.effective, self.effective, level)
        return Interval("accuracy", mean, *ends, level, "rows", 0)

    def _ece(self, spread: Tensor, pairs: float, level: float, source: Generator) -> tuple[Consistency, Interval]:
        """Do what the interval of ECE does for independent rows, with noise that is correlated between bins."""
        off = self.rows[:-1]
        ece = float(off.abs().sum()) / pairs
        if not self._tells:
            return Consistency(ece, ece, 1.0, 1.0, level), Interval("ece", ece, 0.0, 1.0, level, "rows", 0)
        noise = _draws(spread, source)
        by_chance = noise.abs().sum(1) / pairs
        p_value = (1 + int((by_chance >= ece - 1e-12).sum())) / (1 + _DRAWS)
        chance = Consistency(ece, float(by_chance.mean()), float(by_chance.quantile(level)), p_value, level)
        deviation = spread.diagonal().clamp(min=0).sqrt()
        truth = off.masked_fill(off.abs() <= _NEAR * deviation, 0.0)
        lifted = ((truth + noise).abs().sum(1) - truth.abs().sum()) / pairs
        down = float(lifted.quantile((1 + level) / 2)) if chance.miscalibrated else math.inf
        sign = off.sign()
        up = self._t(level) * math.sqrt(max(0.0, float(sign @ spread @ sign))) / pairs
        low, high = max(0.0, ece - max(0.0, down)), min(1.0, ece + up)
        return chance, Interval("ece", ece, min(low, ece), high, level, "rows", _DRAWS)

    def each(self, *, level: float = 0.95) -> tuple[LabelVerdict, ...]:
        """Judge every label alone, the worst first.

        Args:
            level: Of the intervals; findings hold with this probability for all labels at once.

        Returns:
            One verdict per label: those that are miscalibrated first, by how far they are off.
        """
        return judge_each(self.bins, level)


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


def _draws(spread: Tensor, source: Generator) -> Tensor:
    """Draw from a normal distribution with this covariance, which may be singular."""
    values, vectors = torch.linalg.eigh((spread + spread.T) / 2)
    noise = torch.randn(_DRAWS, len(values), generator=source, dtype=torch.float64)
    drawn: Tensor = noise * values.clamp(min=0).sqrt() @ vectors.T
    return drawn


def _bars(count: Tensor, sure: Tensor, right: Tensor, spread: Tensor, level: float, scale: float | None) -> Reliability:
    reach = NormalDist().inv_cdf((1 + level) / 2) * spread.diagonal().clamp(min=0).sqrt()

    def column(values: Tensor) -> list[float | None]:
        shares = ratio(values, count).clamp(0, 1).tolist()
        return [share if n else None for share, n in zip(shares, count.tolist(), strict=True)]

    low, high = column(sure - reach), column(sure + reach)
    shown = [int(n) if scale is None else n * scale for n in count.tolist()]
    return Reliability(shown, column(sure), column(right), low, high, level)


def judge_labels(
    probs: Values,
    labels: Values,
    weights: Values | None = None,
    *,
    n_bins: int = 15,
    level: float = 0.95,
    weights_are: WeightsAre = "importance",
) -> tuple[CalibrationVerdict, tuple[LabelVerdict, ...]]:
    """Judge predictions of several labels per row.

    Args:
        probs: Probability of every label, shape ``(n, labels)``.
        labels: 1 where it is true, else 0; the same shape.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_bins: Number of equal-width bins (a, b].
        level: Of the intervals and findings.
        weights_are: How much a row represents, or how many independent rows it stands for.

    Returns:
        The verdict on all labels together, and that on each of them, the worst first.

    Example:
        >>> probs = torch.tensor([[0.9, 0.5]]).expand(400, 2)
        >>> labels = torch.stack([torch.arange(400) % 2, torch.arange(400) // 2 % 2], 1)
        >>> micro, each = judge_labels(probs, labels)
        >>> micro.finding, [(one.label, one.finding) for one in each]
        ('overstated', [(0, 'overstated'), (1, 'calibrated')])
    """
    check_weights_are(weights_are)
    stream = LabelStream(n_bins)
    if weights is not None:
        probs, labels = _checked(probs, labels)
        counts = check_weights(weights, len(probs))
        if weights_are == "counts":
            (probs, labels), weights = repeated(counts, probs, labels), None
    stream.update(probs, labels, weights)
    return stream.micro(level=level), stream.each(level=level)
