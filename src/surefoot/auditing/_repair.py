"""What temperature scaling would do, on rows that it was not fitted on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from surefoot.auditing._counted import ValueSums
from surefoot.auditing._engine import HERE, Engine
from surefoot.auditing._reading import OnRows, Reading
from surefoot.auditing._sampling import halves
from surefoot.auditing._walking import walk
from surefoot.calibrators.temperature import HIGHEST, LOWEST, fit_temperature
from surefoot.metrics._wide import wide_rows
from surefoot.metrics.interval import Interval
from surefoot.metrics.reliability import Consistency, Reliability
from surefoot.metrics.verdict import verdict_of_sums
from surefoot.sources.forms import Bins, as_confidence, bins_of, is_wide
from surefoot.sources.labels import Array
from surefoot.sources.source import Source, rows_per_chunk

TOO_FEW = 20  # rows; a temperature fitted on fewer says nothing
LEFT = 0.25  # of the gap, and of the ECE, that may be left for a repair to be called one


@dataclass(frozen=True)
class Repair:
    """Temperature scaling and how it fares on rows that it was not fitted on. Fractions."""

    temperature: float
    fitted_on: str
    ece: Interval
    chance: Consistency
    nll: float
    reliability: Reliability


@dataclass(frozen=True)
class CalibratorEffect:
    """What a calibrator makes of a risk or a confidence, on rows that it was not fitted on. Fractions; NLL in nats."""

    name: str
    temperature: float | None
    mean: float
    gap: Interval
    ece: Interval
    nll: float
    repairs: bool
    """Whether chance explains what is left of the gap and of the ECE; or nearly so."""
    reliability: Reliability


class Judged(Protocol):
    """A verdict on a probability."""

    @property
    def gap(self) -> Interval:
        """Its mean less how often it came true."""

    @property
    def ece(self) -> Interval:
        """Its calibration error."""

    @property
    def consistency(self) -> Consistency:
        """What chance alone makes of that."""


def is_repaired(gap: float, ece: float, after: Judged) -> bool:
    """Return whether chance explains what a calibrator leaves of a gap and an ECE, or little is left of both."""
    fits = 0.0 in after.gap or abs(after.gap.estimate) <= LEFT * abs(gap)
    close = after.ece.estimate <= LEFT * ece or not after.consistency.miscalibrated
    return fits and close


def fit(reading: Reading, rows: slice | np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None) -> float:
    """Fit a temperature on sampled rows."""
    chosen = slice(None) if rows is None else rows
    return fit_temperature(reading.predictions().rows(chosen)).temperature


def repair(
    source: Source,
    reading: Reading,
    held_out: Reading | None,
    *,
    n_bins: int,
    level: float,
    where: str,
    on_rows: OnRows | None = None,
    engine: Engine = HERE,
) -> tuple[Repair | None, str]:
    """Fit elsewhere and score all rows; or fit on each half of the rows and score on the other.

    Args:
        source: The rows to be scored.
        reading: What was read of them.
        held_out: What was read of a calibration set, if there is one.
        n_bins: Number of bins.
        level: Of the interval.
        where: The file, for messages.
        on_rows: Called while reading.
        engine: Walks through the rows.

    Returns:
        What scaling would do; or None, and why there is nothing to say.
    """
    fitted = held_out or reading
    if len(fitted.labels) < TOO_FEW:
        return None, f"{len(fitted.labels)} examples are too few to fit a temperature"
    overall = fit(fitted)
    if overall < 1.001 * LOWEST:
        return None, "every true class has the largest score, so no temperature is low enough"
    if overall > 0.999 * HIGHEST:
        return None, "the scores say nothing about the labels, so no temperature is high enough"
    if held_out is not None:
        pair, on = (overall, overall), "the calibration set of the same file"
    else:
        pair, on = (fit(reading, reading.folds == 1), fit(reading, reading.folds == 0)), "one half of the rows"
        on += ", scored on the other, and the other way round"
    wide = is_wide(source.kind, source.form, reading.n_classes)
    if source.once:  # what is gone cannot be scored
        if len(reading.labels) < reading.n:
            on += f", both on {len(reading.labels):,} rows drawn at random"
        found = Scored(bins_of(source.form, n_bins, wide=wide))
        for start in range(0, len(reading.labels), step := rows_per_chunk(reading.n_classes)):
            here = slice(start, start + step)
            logits, labels = torch.from_numpy(reading.logits[here]), torch.from_numpy(reading.labels[here])
            weights = None if reading.weights is None else torch.from_numpy(reading.weights[here])
            found.add(logits, by_half(pair, reading.folds[here]), labels, weights, wide=wide)
    else:
        step_of = partial(rescore, pair=pair, n_bins=n_bins, where=where, wide=wide)
        found = engine.walk(source, step_of, on_rows)
    after = verdict_of_sums(found.bins.sums, level=level)
    return Repair(overall, on, after.ece, after.consistency, found.losses.mean, after.reliability), ""


@dataclass
class Scored:
    """Rows behind a temperature: bins of their confidence and their NLL."""

    bins: Bins
    losses: ValueSums = field(default_factory=ValueSums)

    def add(self, logits: Tensor, by: Tensor, labels: Tensor, weights: Tensor | None, *, wide: bool) -> None:
        """Add rows, each behind its own temperature."""
        (_score_wide if wide else _score)(logits, by, labels, weights, self.bins, self.losses)

    def merge(self, other: Scored) -> None:
        """Add other rows."""
        self.bins.merge(other.bins)
        self.losses = self.losses + other.losses


def by_half(pair: tuple[float, float], folds: Array) -> Tensor:
    """Return the temperature of each row by its half."""
    return torch.tensor(pair, dtype=torch.float64)[torch.from_numpy(folds)]


def rescore(
    source: Source, on_rows: OnRows | None, *, pair: tuple[float, float], n_bins: int, where: str, wide: bool
) -> Scored:
    """Walk through rows once more, each behind the temperature of its half.

    Args:
        source: The rows.
        on_rows: Called while reading.
        pair: The temperatures of both halves.
        n_bins: Number of bins.
        where: The file, for messages.
        wide: Whether rows are logits over a vocabulary.

    Returns:
        Sums, which merge with those of other rows.
    """
    found = Scored(bins_of(source.form, n_bins, wide=wide))
    for logits, labels, weights, rows in walk(source, where, on_rows, wide=wide):
        found.add(logits, by_half(pair, halves(rows)), labels, weights, wide=wide)
    return found


def _score(logits: Tensor, by: Tensor, labels: Tensor, weights: Tensor | None, bins: Bins, losses: ValueSums) -> None:
    log_p = (logits.double() / by[:, None]).log_softmax(1)
    bins.update(log_p.exp(), labels, weights)
    losses.add(-log_p.gather(1, labels[:, None]).squeeze(1), weights)


def _score_wide(
    logits: Tensor, by: Tensor, labels: Tensor, weights: Tensor | None, bins: Bins, losses: ValueSums
) -> None:
    rows = wide_rows(logits, labels, 1 / by)
    bins.update(*as_confidence(rows), weights)
    losses.add(-rows.log_truth, weights)
