"""Two classes get a reading of their own: the risk, P(positive), and what would repair it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from surefoot.auditing._reading import Reading
from surefoot.auditing._repair import CalibratorEffect, is_repaired
from surefoot.calibrators.temperature import fit_temperature
from surefoot.metrics._weights import mean
from surefoot.metrics.interval import Interval, no_interval
from surefoot.metrics.risk import Risk, judge_risk, ranking, risk_of_sums, risk_sums
from surefoot.metrics.shares import exact_ends
from surefoot.metrics.verdict import Finding
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions
from surefoot.sources.labels import Array
from surefoot.sources.positive import Positive, choose_positive

RISK_ROWS = 200_000  # on which risks are ranked and repairs are fitted and scored
FEW_EVENTS = 5  # of a class; a repair fitted on fewer says nothing
REPAIRS = ("temperature", "platt", "beta", "isotonic")


@dataclass(frozen=True)
class TwoClasses:
    """The risk beside the events."""

    positive: Positive
    risk: Risk
    auroc: Interval | None
    average_precision: Interval | None
    common: str
    """The more frequent class."""
    common_accuracy: Interval
    """Accuracy of always saying so."""
    nll: float
    """Before any repair, on the rows that repairs are scored on."""
    repairs: tuple[CalibratorEffect, ...]
    fitted_on: str
    why_no_repair: str

    @property
    def temperature(self) -> CalibratorEffect | None:
        """What one temperature makes of the risk."""
        return next((each for each in self.repairs if each.name == "temperature"), None)

    @property
    def finding(self) -> Finding:
        """A word for the verdict; one temperature tells risks that are too extreme from those that are too moderate."""
        one = self.temperature
        if self.risk.finding == "mixed" and one is not None and one.repairs and one.temperature is not None:
            return "over-confident" if one.temperature > 1 else "under-confident"
        return self.risk.finding

    @property
    def advised(self) -> tuple[CalibratorEffect, ...]:
        """The repairs to use: a temperature where it is enough, else all others that are, the smallest NLL first."""
        if self.finding == "calibrated":
            return ()
        enough = sorted((each for each in self.repairs if each.repairs), key=lambda each: each.nll)
        one = [each for each in enough if each.name == "temperature"]
        return tuple(one or enough)

    def measures(self) -> dict[str, Interval]:
        """Return what is measured for two classes only."""
        risk = self.risk
        average = no_interval("mean_risk", risk.mean, risk.gap.level, "")
        found = {"mean_risk": average, "event_rate": risk.rate, "risk_gap": risk.gap}
        found["risk_ece"] = replace(risk.ece, metric="risk_ece")
        found |= {"risk_auroc": self.auroc} if self.auroc else {}
        found |= {"average_precision": self.average_precision} if self.average_precision else {}
        return {**found, "common_accuracy": self.common_accuracy}


def two_classes(
    reading: Reading,
    held_out: Reading | None,
    class_names: tuple[str, ...],
    *,
    positive: str | None,
    n_bins: int,
    level: float,
    where: str,
) -> TwoClasses:
    """Read predictions for two classes as risks.

    Args:
        reading: What was read of them.
        held_out: What was read of a calibration set, if there is one.
        class_names: Two, or none.
        positive: Name or number of the class that matters, where it was said.
        n_bins: Number of bins.
        level: Of the intervals.
        where: The file, for messages.

    Returns:
        The risk and what repairs it.
    """
    chosen = choose_positive(class_names, positive, where)
    logits, labels = reading.logits[:RISK_ROWS], torch.from_numpy(reading.labels[:RISK_ROWS] == chosen.index)
    risk, weights = _risk(logits, chosen.index), _weights(reading)
    found = risk_of_sums(_totals(reading, chosen), risk_sums(risk, labels, n_bins, weights), level=level)
    ranks = ranking(risk, labels, weights, level=level)
    repairs, on, why = _repairs(reading, held_out, chosen.index, found, n_bins)
    rate = found.rate.estimate
    return TwoClasses(
        positive=chosen,
        risk=found,
        auroc=ranks[0] if ranks else None,
        average_precision=ranks[1] if ranks else None,
        common=chosen.name if rate > 0.5 else chosen.other,
        common_accuracy=_common(found, weights is not None),
        nll=_nll(risk, labels, weights),
        repairs=repairs,
        fitted_on=on,
        why_no_repair=why,
    )


def slice_risk(class_sums: Tensor, positive: Positive, level: float) -> Risk:
    """Judge the risk of a slice from the bins of its classes."""
    sums = class_sums[:, positive.index]
    return risk_of_sums(sums, sums, level=level)


def _totals(reading: Reading, positive: Positive) -> Tensor:
    return reading.class_bins.sums[:, positive.index]


def _common(risk: Risk, weighted: bool) -> Interval:
    """Return the accuracy of always saying the more frequent class: the event rate, or what it leaves."""
    rate, n, level = risk.rate.estimate, risk.n, risk.rate.level
    share = max(rate, 1 - rate)
    ends = (risk.rate.low, risk.rate.high) if rate > 0.5 else (1 - risk.rate.high, 1 - risk.rate.low)
    return Interval(
        "common_accuracy", share, *(ends if weighted else exact_ends(share * n, n, level)), level, "exact", 0
    )


def _weights(reading: Reading) -> Tensor | None:
    return None if reading.weights is None else torch.from_numpy(reading.weights[:RISK_ROWS])


def _risk(logits: Array, index: int) -> Tensor:
    return torch.from_numpy(np.asarray(logits, np.float64)).softmax(1)[:, index]


def _nll(risk: Tensor, happened: Tensor, weights: Tensor | None) -> float:
    given = torch.where(happened, risk, 1 - risk).double()
    return -mean(given.where(given > 0, torch.finfo(torch.float32).tiny).log(), weights).item()


def _repairs(
    reading: Reading, held_out: Reading | None, index: int, before: Risk, n_bins: int
) -> tuple[tuple[CalibratorEffect, ...], str, str]:
    """Fit elsewhere and score all rows; or fit on each half of the rows and score on the other."""
    logits, labels = reading.logits[:RISK_ROWS], reading.labels[:RISK_ROWS]
    if held_out is not None:
        whole = _predictions(held_out)
        parts = [(whole, np.full(len(labels), True))]
        on = "the calibration set of the same file"
    else:
        whole, folds = _predictions(reading), reading.folds[:RISK_ROWS]
        halves = [(folds != half, folds == half) for half in (0, 1)]
        parts = [(whole.rows(fit), score) for fit, score in halves]
        on = "one half of the rows, scored on the other, and the other way round"
    fewest = min(int((part.labels == k).sum()) for part, _ in parts for k in (0, 1))
    if fewest < FEW_EVENTS:
        few = "1 example of a class is" if fewest == 1 else f"{fewest} examples of a class are"
        return (), on, f"{few} too few to fit a repair"
    happened, weights = torch.from_numpy(labels == index), _weights(reading)
    found = []
    for name in REPAIRS:
        risk = torch.empty(len(labels), dtype=torch.float64)
        for part, rows in parts:
            fitted = CALIBRATORS[name].build(part)
            risk[torch.from_numpy(rows)] = torch.from_numpy(fitted.probs(logits[rows])[:, index])
        after = judge_risk(risk, happened, weights, n_bins=n_bins, level=before.gap.level)
        temperature = fit_temperature(whole).temperature if name == "temperature" else None
        found.append(_repair(name, temperature, before, after, _nll(risk, happened, weights)))
    return tuple(found), on, ""


def _predictions(reading: Reading) -> Predictions:
    return Predictions(reading.logits, reading.labels, "calibration", weights=reading.weights).rows(slice(RISK_ROWS))


def _repair(name: str, temperature: float | None, before: Risk, after: Risk, nll: float) -> CalibratorEffect:
    repairs = is_repaired(before.gap.estimate, before.ece.estimate, after)
    return CalibratorEffect(
        name, temperature, after.mean, after.gap, after.ece, nll, repairs=repairs, reliability=after.reliability
    )
