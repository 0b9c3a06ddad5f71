"""What a gate compares by: sums over all rows, and what pairs one row with itself, small enough to keep for later."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from surefoot.auditing._counted import ValueSums
from surefoot.auditing._measures import measure
from surefoot.auditing._reading import MOST_RANKED, Reading, part_of
from surefoot.auditing._two_classes import RISK_ROWS
from surefoot.metrics import top_label
from surefoot.metrics.interval import Interval, no_interval
from surefoot.metrics.mean_losses import loss_of_parts
from surefoot.metrics.risk import ranking, risk_of_sums, risk_sums
from surefoot.metrics.shares import accuracy_of_sums, exact_ends, gap_of_sums
from surefoot.sources.labels import Array
from surefoot.sources.positive import Positive

OF_BINS = ("accuracy", "confidence_gap", "ece")
OF_RISK = ("risk_gap", "risk_ece")
RANKS = ("risk_auroc", "average_precision")
_MOST = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class Rows:
    """A random sample of rows, the same of equally many rows: enough for the spread of differences.

    Attributes:
        confidence: Shape ``(n,)``, float16.
        correct: Shape ``(n,)``, bool.
        losses: By the key of a metric that is a mean over rows, shape ``(n,)``, float16.
    """

    confidence: Array
    correct: Array
    losses: dict[str, Array]

    @classmethod
    def of(cls, reading: Reading, keys: Sequence[str]) -> Rows:
        """Take the first sampled rows; both sides of a comparison are rounded alike, so equal rows stay equal."""
        few = min(len(reading.labels), MOST_RANKED)
        probs, labels = reading.probs(few), torch.from_numpy(reading.labels[:few])
        confidence, correct = top_label(probs, labels)
        losses = {}
        for key in keys:
            part, options = part_of(key, reading.n_bins)
            losses[key] = _half(part.facts["each"](probs, labels, **options))
        return cls(_half(confidence), correct.numpy().astype(bool), losses)


@dataclass(frozen=True)
class Summary:
    """One model's predictions, as far as limits and comparisons need them.

    Attributes:
        n: How many rows.
        n_classes: How many classes.
        labels_digest: Of all labels in their order; the same labels are taken for the same examples.
        bins: Of the confidence, shape ``(3, n_bins)``.
        values: Sums over all rows, and over wrongly predicted ones, by the key of a metric that is a mean over rows.
        positive: Of two classes, the one whose probability is the risk.
        totals: Of two classes, sums of the risk over all rows, shape ``(3, any)``.
        risk_bins: Of two classes, bins of the risk, shape ``(3, bins)``.
        rows: For pairing.
    """

    n: int
    n_classes: int
    labels_digest: str
    bins: Tensor
    values: dict[str, tuple[ValueSums, ValueSums]]
    positive: str | None
    totals: Tensor | None
    risk_bins: Tensor | None
    rows: Rows

    @classmethod
    def of(cls, reading: Reading, positive: Positive | None) -> Summary:
        """Keep of what was read what a gate needs."""
        values = {key: (reading.values[key], reading.of_wrong[key]) for key in reading.values}
        totals = bins = None
        if positive is not None:
            totals = reading.class_bins.sums[:, positive.index]
            bins = risk_sums(*_risk(reading, positive), reading.n_bins)
        return cls(
            n=reading.n,
            n_classes=reading.n_classes,
            labels_digest=reading.labels_digest,
            bins=reading.bins.sums,
            values=values,
            positive=positive.name if positive else None,
            totals=totals,
            risk_bins=bins,
            rows=Rows.of(reading, list(values)),
        )

    def interval(self, key: str, level: float) -> Interval:
        """Return a measure with its interval.

        Args:
            key: One of :data:`OF_BINS` or, of two classes, :data:`OF_RISK`; or that of a metric in ``values``.
            level: Of the interval.

        Returns:
            The interval.
        """
        if key == "accuracy":
            return accuracy_of_sums(self.bins, level)
        if key == "confidence_gap":
            return gap_of_sums(self.bins, level)
        if key == "ece":
            from surefoot.metrics.bootstrap import bootstrap_sums

            return bootstrap_sums("ece", self.bins, level=level)
        if key in OF_RISK and self.totals is not None and self.risk_bins is not None:
            risk = risk_of_sums(self.totals, self.risk_bins, level=level)
            return risk.gap if key == "risk_gap" else replace(risk.ece, metric="risk_ece")
        return _mean(key, *self.values[key], level)

    def pairs_with(self, other: Summary) -> bool:
        """Return whether both are of the same examples."""
        same = (self.n, self.n_classes, self.labels_digest) == (other.n, other.n_classes, other.labels_digest)
        return same and len(self.rows.correct) == len(other.rows.correct)


def ranks(reading: Reading, positive: Positive | None, key: str, level: float) -> Interval | None:
    """Return a measure that no sums tell: how well risk or confidence ranks examples.

    Args:
        reading: What was read.
        positive: Of two classes, the one whose probability is the risk.
        key: ``risk_auroc`` or ``average_precision`` of two classes, or the key of a metric.
        level: Of the interval.

    Returns:
        The interval; None where it is not defined, such as an AUROC without errors.
    """
    if key in RANKS and positive is not None:
        found = ranking(*_risk(reading, positive), level=level)
        return found[RANKS.index(key)] if found else None
    return measure(reading, (key,), {}, level).get(key)


def _risk(reading: Reading, positive: Positive) -> tuple[Tensor, Tensor]:
    happened = torch.from_numpy(reading.labels[:RISK_ROWS] == positive.index)
    return reading.probs(RISK_ROWS)[:, positive.index], happened


def _mean(key: str, every: ValueSums, wrong: ValueSums, level: float) -> Interval:
    from surefoot.metrics.describe import range_of

    part, _ = part_of(key, 15)
    if part.facts.get("interval") == "exact":
        return Interval(key, every.mean, *exact_ends(every.total, every.n, level), level, "exact")
    if not math.isfinite(every.total):
        return no_interval(key, every.mean, level, "it is infinite")
    if not every.has_squares:
        return no_interval(key, every.mean, level, "some values are too large to be squared")
    return loss_of_parts(key, (every - wrong).losses(), wrong.losses(), level, range_of(part))


def _half(values: Tensor) -> Array:
    half: Array = values.double().clamp(max=_MOST).numpy().astype(np.float16)
    return half
