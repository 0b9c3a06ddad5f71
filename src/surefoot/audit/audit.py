"""Can these predictions be trusted? Every number with an interval, and what would repair them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import torch

from surefoot.audit._names import CALIBRATION, TEST, Kind
from surefoot.audit._reading import Reading, read, walk
from surefoot.audit._source import Source
from surefoot.audit.files import open_predictions
from surefoot.calibrators.temperature import Temperature, fit_temperature
from surefoot.errors import InputError
from surefoot.metrics import Stream
from surefoot.metrics.bootstrap import Interval, bootstrap, bootstrap_sums, paired_bootstrap
from surefoot.metrics.reliability import Reliability, reliability_of_sums
from surefoot.metrics.verdict import Verdict, verdict_of_sums
from surefoot.registry import METRICS
from surefoot.schema import Predictions

OF_BINS = ("mce", "rms_ce", "debiased_ece")
OF_MEANS = ("nll", "brier")
OF_SAMPLE = ("ada_ece", "smooth_ece", "kce", "misclassification_auroc", "aurc")
MOST_RANKED = 20_000  # rows for metrics that look at every example at once, hundreds of times
TOO_FEW = 20  # rows; a temperature fitted on fewer says nothing


@dataclass(frozen=True)
class Repair:
    """What temperature scaling would do, on rows that it was not fitted on."""

    temperature: float
    fitted_on: str
    ece: Interval
    nll: float
    reliability: Reliability


@dataclass(frozen=True)
class SliceVerdict:
    """One value of a group column."""

    column: str
    value: str
    verdict: Verdict


@dataclass(frozen=True)
class Audit:
    """All that was found out about one model's predictions. Fractions."""

    file: str
    model: str
    took: str
    kind: Kind
    n: int
    n_classes: int
    class_names: tuple[str, ...]
    verdict: Verdict
    measures: dict[str, Interval]
    sampled: int | None
    """How many rows the measures that look at all rows at once were computed on; None for all."""
    repair: Repair | None
    why_no_repair: str | None
    slices: tuple[SliceVerdict, ...]

    def class_name(self, label: int) -> str:
        """Give the name of a class, or its number."""
        return self.class_names[label] if self.class_names else f"class {label}"

    def sentence(self) -> str:
        """Say in one line what a person can act on."""
        found, gap = self.verdict.finding, self.verdict.gap
        low, high = sorted(100 * abs(bound) for bound in (gap.low, gap.high))
        if found in ("over-confident", "under-confident"):
            text = f"{found} by {100 * abs(gap.estimate):.1f} points, 95 % interval {low:.1f}–{high:.1f}"
        elif found == "mixed":
            text = f"too sure in places and too unsure in others, ECE {_percent(self.verdict.ece)}"
        else:
            text = f"calibrated as far as {self.n:,} examples can tell, ECE {_percent(self.verdict.ece)}"
        if self.repair is not None:
            after = 100 * self.repair.ece.estimate
            if found == "calibrated" or after >= 100 * self.verdict.ece.estimate:
                text += f"; temperature scaling ({self.repair.temperature:.2f}) would not help"
            else:
                text += f"; temperature {self.repair.temperature:.2f} brings ECE to {after:.1f} %"
        elif self.why_no_repair:
            text += f"; {self.why_no_repair}"
        if self.verdict.classes and found != "calibrated":
            text += f"; worst class: {self.class_name(self.verdict.classes[0].label)}"
        return text

    def to_json(self) -> dict[str, Any]:
        """Write the audit for machines: fractions, null for what is not defined."""
        values: dict[str, Any] = _plain(dataclasses.asdict(self))
        return {**values, "sentence": self.sentence()}


@dataclass(frozen=True)
class AuditComparison:
    """Two sets of predictions for the same examples: differences A − B with paired intervals."""

    differences: dict[str, Interval]
    n: int
    sampled: int | None

    def to_json(self) -> dict[str, Any]:
        """Write the comparison for machines."""
        values: dict[str, Any] = _plain(dataclasses.asdict(self))
        return values


def audit(
    path: Path | str,
    *,
    kind: Kind | None = None,
    labels: str | None = None,
    groups: Sequence[str] = (),
    n_bins: int = 15,
    level: float = 0.95,
    on_rows: Callable[[int], None] | None = None,
) -> list[Audit]:
    """Audit a file of predictions, reading it in pieces.

    Where a file holds a calibration (or validation) and a test set, the test set is audited and repaired by what
    was fitted on the other. Else the temperature is fitted on one half of the rows and scored on the other half.

    Args:
        path: The file; see :func:`~surefoot.audit.files.open_predictions`.
        kind: Logits or probabilities, where names and values do not tell.
        labels: The labels' file or column, where names do not tell.
        groups: Arrays or columns that divide the rows into slices.
        n_bins: Number of bins.
        level: Of the intervals.
        on_rows: Called with the number of rows read so far.

    Returns:
        One audit per model in the file.
    """
    sources = open_predictions(path, kind=kind, labels=labels, groups=groups)
    held_out = next((source for source in sources if source.name in CALIBRATION), None)
    tested = [source for source in sources if source.name in TEST]
    rest = [source for source in sources if source is not held_out and source not in tested]
    chosen = (tested or rest) if held_out is not None and (tested or rest) else sources
    file = Path(path).name
    fitted = None
    if held_out is not None and held_out not in chosen:
        fitted = _fit(read(held_out, n_bins=n_bins, where=file), f"the {held_out.name} set")
    return [_audit(source, file, fitted, n_bins, level, on_rows) for source in chosen]


def _audit(
    source: Source,
    file: str,
    fitted: tuple[Temperature, str] | None,
    n_bins: int,
    level: float,
    on_rows: Callable[[int], None] | None,
) -> Audit:
    reading = read(source, n_bins=n_bins, where=file, on_rows=on_rows)
    bins = reading.streams["ece"].sums
    judged = verdict_of_sums(bins, reading.streams["classwise_ece"].sums, level=level)
    repair, why = _repair(source, reading, fitted, n_bins, level, file)
    slices = tuple(
        SliceVerdict(column, value, verdict_of_sums(stream.sums, level=level))
        for column, found in reading.slices.items()
        for value, stream in sorted(found.items())
    )
    ranked = min(len(reading.labels), MOST_RANKED)
    return Audit(
        file=file,
        model=source.name,
        took=source.took,
        kind=source.kind or "logits",
        n=reading.n,
        n_classes=reading.n_classes,
        class_names=source.class_names,
        verdict=judged,
        measures=_measures(reading, bins, level),
        sampled=ranked if ranked < reading.n else None,
        repair=repair,
        why_no_repair=why,
        slices=slices,
    )


def _measures(reading: Reading, bins: torch.Tensor, level: float) -> dict[str, Interval]:
    found = {name: bootstrap_sums(name, bins, level=level) for name in OF_BINS}
    probs, labels = reading.probs(), torch.from_numpy(reading.labels)
    for name in OF_MEANS:
        found[name] = _of_mean(name, reading, probs, labels, level)
    classwise = reading.streams["classwise_ece"].compute().item()
    few, some = probs[:MOST_RANKED], labels[:MOST_RANKED]
    spread = bootstrap("classwise_ece", few, some, n_resamples=100, level=level)
    if not reading.is_sample and len(few) == reading.n:
        found["classwise_ece"] = spread
    else:  # all rows are in the estimate; its interval shrinks with their number
        shrink = math.sqrt(len(few) / reading.n)
        ends = (classwise + shrink * (bound - spread.estimate) for bound in (spread.low, spread.high))
        low, high = ends
        found["classwise_ece"] = dataclasses.replace(spread, estimate=classwise, low=max(0.0, low), high=high)
    for name in OF_SAMPLE:
        value = METRICS[name].build(few, some).item()
        if math.isfinite(value):
            found[name] = bootstrap(name, few, some, n_resamples=200, level=level)
    return found


def _of_mean(name: str, reading: Reading, probs: torch.Tensor, labels: torch.Tensor, level: float) -> Interval:
    if not reading.is_sample:
        return bootstrap(name, probs, labels, level=level)
    each = METRICS[name].facts["each"](probs, labels)
    estimate = reading.streams[name].compute().item()
    half = NormalDist().inv_cdf((1 + level) / 2) * each.std().item() / math.sqrt(reading.n)
    return Interval(name, estimate, max(0.0, estimate - half), estimate + half, level, "normal", 0)


def _fit(reading: Reading, where: str) -> tuple[Temperature, str] | None:
    if len(reading.labels) < TOO_FEW:
        return None
    return fit_temperature(Predictions(reading.logits, reading.labels, "calibration")), where


def _repair(
    source: Source, reading: Reading, fitted: tuple[Temperature, str] | None, n_bins: int, level: float, where: str
) -> tuple[Repair | None, str | None]:
    """Fit elsewhere and score everything; or fit on one half and score on the other, both ways."""
    ece, nll = Stream("ece", n_bins=n_bins), Stream("nll")
    if fitted is not None:
        scaler, on = fitted
        for logits, labels in walk(source, where):
            _score(scaler, logits, labels, ece, nll)
    else:
        n = len(reading.labels)
        if n < TOO_FEW:
            return None, f"{n} rows are too few to fit a temperature"
        halves = np.arange(n) % 2 == 0
        for half in (halves, ~halves):
            scaler = fit_temperature(Predictions(reading.logits[half], reading.labels[half], "calibration"))
            _score(scaler, reading.logits[~half], torch.from_numpy(reading.labels[~half]), ece, nll)
        scaler = fit_temperature(Predictions(reading.logits, reading.labels, "calibration"))
        on = "one half of the rows, scored on the other"
    after = bootstrap_sums("ece", ece.sums, level=level)
    diagram = reliability_of_sums(ece.sums, level=level)
    return Repair(scaler.temperature, on, after, nll.compute().item(), diagram), None


def _score(scaler: Temperature, logits: np.ndarray[Any, Any], labels: torch.Tensor, *streams: Stream) -> None:
    probs = torch.from_numpy(np.asarray(logits, np.float64) / scaler.temperature).softmax(1)
    for stream in streams:
        stream.update(probs, labels)


def compare_audits(
    path_a: Path | str, path_b: Path | str, *, kind: Kind | None = None, level: float = 0.95
) -> AuditComparison:
    """Compare two files with predictions for the same examples.

    Args:
        path_a: One file; of several models the first is taken.
        path_b: The other.
        kind: Logits or probabilities, where names and values do not tell.
        level: Of the intervals.

    Returns:
        Differences A − B in ECE, NLL, Brier score and accuracy.

    Raises:
        InputError: If the examples are not the same.
    """
    readings = []
    for path in (path_a, path_b):
        sources = open_predictions(path, kind=kind)
        source = next((s for s in sources if s.name in TEST), sources[0])
        readings.append(read(source, n_bins=15, where=Path(path).name))
    a, b = readings
    if a.n != b.n or a.n_classes != b.n_classes or not np.array_equal(a.labels, b.labels):
        raise InputError(
            f"Expected predictions for the same examples, but got {a.n} × {a.n_classes} and {b.n} × {b.n_classes}"
            f"{' with other labels' if a.n == b.n else ''}. Audit them one by one."
        )
    some = slice(0, MOST_RANKED)
    labels = torch.from_numpy(a.labels)[some]
    differences = {
        name: paired_bootstrap(name, a.probs()[some], b.probs()[some], labels, level=level)
        for name in ("ece", "nll", "brier", "accuracy")
    }
    return AuditComparison(differences, a.n, len(labels) if len(labels) < a.n else None)


def _percent(interval: Interval) -> str:
    return f"{100 * interval.estimate:.1f} % ({100 * interval.low:.1f}–{100 * interval.high:.1f})"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
