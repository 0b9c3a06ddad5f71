"""What would repair a confidence: calibrators of its log-odds, scored on rows that they were not fitted on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surefoot.auditing._reading import Reading
from surefoot.auditing._repair import CalibratorEffect, is_repaired
from surefoot.calibrators.temperature import fit_temperature
from surefoot.metrics._binning import bin_sums
from surefoot.metrics._weights import mean as weighted_mean
from surefoot.metrics.interval import Interval
from surefoot.metrics.verdict import CalibrationVerdict, verdict_of_sums
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions
from surefoot.sources.forms import CALIBRATORS_OF
from surefoot.sources.labels import Array

_ROWS = 200_000  # on which repairs are fitted and scored
_FEW = 5  # right or wrong ones; a repair fitted on fewer says nothing


@dataclass(frozen=True)
class OfConfidence:
    """The confidence beside how often it was right, and what would repair it."""

    mean: float
    right: Interval
    nll: float
    """Before any repair, on the rows that repairs are scored on."""
    repairs: tuple[CalibratorEffect, ...]
    fitted_on: str
    why_no_repair: str

    @property
    def advised(self) -> tuple[CalibratorEffect, ...]:
        """The repairs to use: a temperature where it is enough, else all others that are, the smallest NLL first."""
        enough = sorted((each for each in self.repairs if each.repairs), key=lambda each: each.nll)
        one = [each for each in enough if each.name == "temperature"]
        return tuple(one or enough)


def of_confidence(
    reading: Reading, held_out: Reading | None, before: CalibrationVerdict, *, n_bins: int, level: float
) -> OfConfidence:
    """Fit elsewhere and score all rows; or fit on each half of the rows and score on the other.

    Args:
        reading: What was read.
        held_out: What was read of a calibration set, if there is one.
        before: The verdict on the confidence as it is.
        n_bins: Number of bins.
        level: Of the intervals.

    Returns:
        The confidence and what repairs it.
    """
    logits, labels, weights = _taken(reading)
    if held_out is not None:
        parts = [(_rows(*_taken(held_out)), np.full(len(labels), True))]
        on = "the calibration set of the same file"
    else:
        halves = [reading.folds[:_ROWS] == half for half in (0, 1)]
        parts = [(_rows(logits, labels, weights).rows(~half), half) for half in halves]
        on = "one half of the rows, scored on the other, and the other way round"
    right = torch.from_numpy(labels == 1)
    mean = before.accuracy.estimate + before.gap.estimate
    counts = None if weights is None else torch.from_numpy(weights)
    nll = _nll(torch.from_numpy(np.asarray(logits, np.float64)).softmax(1)[:, 1], right, counts)
    fewest = min(int((part.labels == k).sum()) for part, _ in parts for k in (0, 1))
    if fewest < _FEW:
        few = f"only {fewest} right or wrong rows to fit on are too few for a repair"
        return OfConfidence(mean, before.accuracy, nll, (), on, few)
    found = []
    whole = _rows(logits, labels, weights) if held_out is None else parts[0][0]
    for name in CALIBRATORS_OF["confidence"]:
        sure = torch.empty(len(labels), dtype=torch.float64)
        for part, rows in parts:
            sure[torch.from_numpy(rows)] = torch.from_numpy(CALIBRATORS[name].build(part).probs(logits[rows])[:, 1])
        after = verdict_of_sums(bin_sums(sure, right, n_bins, counts), level=level)
        temperature = fit_temperature(whole).temperature if name == "temperature" else None
        found.append(_repair(name, temperature, before, after, _nll(sure, right, counts)))
    return OfConfidence(mean, before.accuracy, nll, tuple(found), on, "")


def _taken(reading: Reading) -> tuple[Array, Array, Array | None]:
    weights = None if reading.weights is None else reading.weights[:_ROWS]
    return reading.logits[:_ROWS], reading.labels[:_ROWS], weights


def _rows(logits: Array, labels: Array, weights: Array | None) -> Predictions:
    return Predictions(logits, labels, "calibration", weights=weights, form="confidence")


def _nll(sure: Tensor, right: Tensor, weights: Tensor | None) -> float:
    given = torch.where(right, sure, 1 - sure).double()
    return -weighted_mean(given.where(given > 0, torch.finfo(torch.float32).tiny).log(), weights).item()


def _repair(
    name: str, temperature: float | None, before: CalibrationVerdict, after: CalibrationVerdict, nll: float
) -> CalibratorEffect:
    repairs = is_repaired(before.gap.estimate, before.ece.estimate, after)
    mean = after.accuracy.estimate + after.gap.estimate
    return CalibratorEffect(
        name, temperature, mean, after.gap, after.ece, nll, repairs=repairs, reliability=after.reliability
    )


def confidence_words(found: OfConfidence, ece: float) -> str:
    """Say what repairs the confidence, and what does not.

    Args:
        found: What was found.
        ece: As it is.

    Returns:
        The second part of the sentence.
    """
    if not found.repairs:
        return found.why_no_repair
    before = f"{100 * ece:.1f} %"
    one = next(each for each in found.repairs if each.name == "temperature")
    if not found.advised:
        best = min(found.repairs, key=lambda each: each.ece.estimate)
        return f"no calibrator repairs it: {best.name} brings ECE from {before} to {100 * best.ece.estimate:.1f} % only"
    names = [each.name for each in found.advised]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    errors = sorted(100 * each.ece.estimate for each in found.advised)
    span = f"{errors[0]:.1f}" if len(errors) == 1 else f"{errors[0]:.1f}–{errors[-1]:.1f}"
    if found.advised[0] is one:
        return f"temperature {one.temperature:.2f} brings ECE from {before} to {span} %"
    said = f"{listed} {'brings' if len(names) == 1 else 'bring'} ECE from {before} to {span} %"
    return f"{said}, a temperature does not ({100 * one.ece.estimate:.1f} %)"
