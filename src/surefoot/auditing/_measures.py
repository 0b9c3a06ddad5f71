"""The measures of an audit, with intervals where there are some, and what chance alone makes of calibration errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from surefoot.auditing._reading import Reading, part_of
from surefoot.errors import InputError
from surefoot.metric_keys import read_metrics
from surefoot.metrics._weights import worth
from surefoot.metrics.bootstrap import WHY_NONE
from surefoot.metrics.chance import Chance, chance, chance_of_sums, chance_of_top, classwise_chance
from surefoot.metrics.describe import range_of
from surefoot.metrics.interval import Interval, no_interval
from surefoot.metrics.mean_losses import loss_of_parts
from surefoot.metrics.ranking_interval import area, risk
from surefoot.metrics.reliability import Consistency
from surefoot.metrics.shares import exact_ends
from surefoot.registry import Part
from surefoot.schema import Form
from surefoot.seeding import generator
from surefoot.sources.forms import fitting

SHOWN = (
    *("accuracy", "confidence_gap", "ece", "debiased_ece", "ada_ece", "smooth_ece", "kce", "rms_ce", "mce"),
    *("classwise_ece", "nll", "brier", "misclassification_auroc", "aurc"),
)
_ON_PAGE_ONLY = ("ada_ece", "kce", "rms_ce", "mce", "aurc")
IN_TABLE = tuple(key for key in SHOWN if key not in _ON_PAGE_ONLY)
BESIDE_RISK = ("accuracy", "nll", "brier")  # of two classes, beside the measures of the risk
_DRAWS = 100  # of labels, for measures that take long
_MOST_VALUES = 1_000_000  # rows × classes whose labels are drawn
_MOST_PAIRED = 2_000  # rows for metrics whose time grows with their square


def wanted(metrics: str | Sequence[str] | None, form: Form = "multiclass", n_classes: int = 0) -> tuple[str, ...]:
    """Read which metrics an audit is to show.

    Args:
        metrics: As people type them; else the usual ones.
        form: Of the predictions.
        n_classes: How many classes there are.

    Returns:
        Their keys.

    Raises:
        InputError: If there is no such metric, it is to stand behind a calibrator, or the form has no use for it.
    """
    keys = read_metrics(metrics) if metrics else SHOWN
    if behind := [key for key in keys if "@" in key]:
        raise InputError(f"Expected metrics of the file as it is, but got {behind[0]!r}. Use `surefoot calibrate`.")
    return fitting(tuple(keys), form, n_classes, asked=bool(metrics))


def measure(reading: Reading, keys: Sequence[str], known: Mapping[str, Interval], level: float) -> dict[str, Interval]:
    """Compute what is wanted.

    Args:
        reading: What was read.
        keys: Of the metrics.
        known: What the verdict holds already, by metric.
        level: Of the intervals.

    Returns:
        Intervals by key; a metric that is not defined on these rows is left out.
    """
    found = {}
    for key in keys:
        part, options = part_of(key, reading.n_bins)
        own = known.get(part.name) if options.get("n_bins", reading.n_bins) == reading.n_bins else None
        each = own or _interval(key, part, options, reading, level)
        if not math.isnan(each.estimate):
            found[key] = each
    return found


def _interval(key: str, part: Part, options: dict[str, Any], reading: Reading, level: float) -> Interval:
    kind = part.facts.get("interval")
    if key in reading.values and kind == "parts":
        return _mean(key, part, reading, level)
    if key in reading.values and kind == "exact":
        sums = reading.values[key]
        if sums.weight is not None:
            n = worth(*torch.tensor([sums.weight, sums.total, *sums.powers[:2]], dtype=torch.float64)).item()
            return Interval(key, sums.mean, *exact_ends(min(1.0, sums.mean) * n, n, level), level, "exact")
        return Interval(key, sums.mean, *exact_ends(sums.total, sums.n, level), level, "exact")
    top, weights = (reading.confidence, reading.correct), reading.top_weights
    if kind == "log":
        return risk(*top, level, _DRAWS, generator(0, "bootstrap"), weights)
    if kind == "delong":
        return area(key, *top, level, weights)
    return no_interval(key, _value(key, part, options, reading), level, WHY_NONE)


def _value(key: str, part: Part, options: dict[str, Any], reading: Reading) -> float:
    """Compute a metric from as much of the rows as it can be computed from: their sums, else a random sample."""
    if key in reading.values:
        return reading.values[key].mean
    if _is_of_bins(part, options, reading):
        return float(part.facts["finish"](reading.bins.sums))
    stream = reading.class_bins if _is_classwise(part, options, reading) else reading.streams.get(key)
    if stream is not None:
        return float(stream.compute())
    if "top" in part.facts:
        of_tops = {} if reading.top_weights is None else {"weights": reading.top_weights}
        return float(part.facts["top"](reading.confidence, reading.correct, **of_tops, **options))
    most = _MOST_PAIRED if part.facts.get("quadratic") else None
    more = {} if reading.weights is None else {"weights": reading.weights[:most]}
    return float(part.build(reading.probs(most), torch.from_numpy(reading.labels[:most]), **more, **options))


def _is_of_bins(part: Part, options: Mapping[str, Any], reading: Reading) -> bool:
    return bool(part.facts.get("bins")) and options["n_bins"] == reading.n_bins


def _is_classwise(part: Part, options: Mapping[str, Any], reading: Reading) -> bool:
    return part.name == "classwise_ece" and options["n_bins"] == reading.n_bins


def by_chance(reading: Reading, keys: Sequence[str], test: Consistency) -> dict[str, Chance]:
    """Say what the calibration errors would be if every probability were right.

    Args:
        reading: What was read.
        keys: Of the metrics; those of which no interval is known to cover are calibration errors.
        test: What is known of ECE already.

    Returns:
        Mean and limit by key.
    """
    found = {}
    for key in keys:
        part, options = part_of(key, reading.n_bins)
        if part.facts.get("interval") in ("none", "corrected") and (each := _chance(part, options, reading, test)):
            found[key] = each
    return found


def _chance(part: Part, options: dict[str, Any], reading: Reading, test: Consistency) -> Chance | None:
    level = test.level
    if _is_of_bins(part, options, reading):
        if part.facts["interval"] == "corrected":
            return Chance(part.name, test.ece, test.expected, test.limit, test.p_value, level)
        return chance_of_sums(part.name, reading.bins.sums, level=level)
    if "top" in part.facts:
        top = reading.confidence, reading.correct, reading.top_weights
        return chance_of_top(part.name, *top, n_resamples=_DRAWS, level=level, **options)
    if _is_classwise(part, options, reading):
        return _classwise(reading, level)
    if len(reading.labels) < reading.n or part.facts.get("quadratic"):
        return None  # chance makes more of fewer rows
    labels = torch.from_numpy(reading.labels)
    return chance(part.name, reading.probs(), labels, reading.weights, n_resamples=_DRAWS, level=level, **options)


def _classwise(reading: Reading, level: float) -> Chance:
    """Draw labels of some rows, which tells what those of all do."""
    rows = max(1000, _MOST_VALUES // max(50, reading.n_classes))
    estimate = float(reading.class_bins.compute())
    weights = None if reading.weights is None else torch.from_numpy(reading.weights[:rows])
    some = reading.probs(rows), estimate, reading.effective, reading.n_bins, weights
    return classwise_chance(*some, n_resamples=_DRAWS, level=level)


def _mean(key: str, part: Part, reading: Reading, level: float) -> Interval:
    every, wrong = reading.values[key], reading.of_wrong[key]
    if not math.isfinite(every.total):
        return no_interval(key, every.mean, level, "it is infinite")
    if not every.has_squares:
        return no_interval(key, every.mean, level, "some values are too large to be squared")
    return loss_of_parts(key, (every - wrong).losses(), wrong.losses(), level, range_of(part))
