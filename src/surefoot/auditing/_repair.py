"""What temperature scaling would do, on rows that it was not fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from surefoot.auditing._counted import ValueSums
from surefoot.auditing._forms import Bins, as_confidence, bins_of, is_wide
from surefoot.auditing._reading import OnRows, Reading, walk
from surefoot.auditing._sampling import Folds
from surefoot.auditing._source import Source, rows_per_chunk
from surefoot.calibrators.temperature import HIGHEST, LOWEST, fit_temperature
from surefoot.metrics._wide import wide_rows
from surefoot.metrics.interval import Interval
from surefoot.metrics.reliability import Consistency, Reliability
from surefoot.metrics.verdict import verdict_of_sums

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
    bins, losses, folds = bins_of(source.form, n_bins, wide=wide), ValueSums(), Folds()
    by_half = torch.tensor(pair, dtype=torch.float64)
    score = _score_wide if wide else _score
    if source.once:  # what is gone cannot be scored
        on += f", both on {len(reading.labels):,} rows drawn at random"
        for start in range(0, len(reading.labels), step := rows_per_chunk(reading.n_classes)):
            here = slice(start, start + step)
            logits, labels = torch.from_numpy(reading.logits[here]), torch.from_numpy(reading.labels[here])
            weights = None if reading.weights is None else torch.from_numpy(reading.weights[here])
            score(logits, by_half[torch.from_numpy(reading.folds[here])], labels, weights, bins, losses)
    else:
        for logits, labels, weights in walk(source, where, on_rows, wide=wide):
            half = torch.from_numpy(folds.next(len(labels)))
            score(logits, by_half[half], labels, weights, bins, losses)
    after = verdict_of_sums(bins.sums, level=level)
    return Repair(overall, on, after.ece, after.consistency, losses.mean, after.reliability), ""


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
