"""Several labels per row: can their probabilities be trusted, together and one by one, and what would repair them?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from scipy.special import stdtrit

from surefoot.auditing._counted import ValueSums, weight_notes
from surefoot.auditing._engine import HERE, Engine
from surefoot.auditing._label_words import LabelFound, LabelRepair, Labels
from surefoot.auditing._labels_read import TINY, LabelsRead, collect_labels
from surefoot.auditing._reading import OnRows
from surefoot.auditing._repair import TOO_FEW, Repair, is_repaired
from surefoot.auditing.result import Audit
from surefoot.calibrators.temperature import fit_temperature
from surefoot.metric_keys import read_metrics
from surefoot.metrics._weights import mean
from surefoot.metrics.chance import Chance
from surefoot.metrics.interval import Interval
from surefoot.metrics.multilabel import LabelStream
from surefoot.metrics.risk import ranking
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions
from surefoot.sources.forms import fitting
from surefoot.sources.labels import Array
from surefoot.sources.names import Kind
from surefoot.sources.source import Source

_MEASURES = ("accuracy", "confidence_gap", "ece", "nll", "brier")
_FEW = 5  # of a label that are true, or not; a repair fitted on fewer says nothing
_FITTED = 400_000  # pairs of rows and labels that one temperature is fitted on


def audit_labels(
    source: Source,
    held_out: Source | None,
    file: str,
    n_bins: int,
    level: float,
    on_rows: OnRows | None,
    metrics: str | Sequence[str] | None = None,
    engine: Engine = HERE,
) -> Audit:
    """Audit one model's predictions of several labels per row.

    Args:
        source: What to audit.
        held_out: Its calibration set, if the file has one.
        file: Name of the file.
        n_bins: Number of bins.
        level: Of the intervals.
        on_rows: Called while reading.
        metrics: What to show: some of ``nll`` and ``brier``; else all.
        engine: Walks through the rows.

    Returns:
        The audit.
    """
    step = partial(collect_labels, n_bins=n_bins)
    read = engine.walk(source, step, on_rows).finish(source)
    fitted = engine.walk(held_out, step).finish(held_out) if held_out is not None else None
    return finish_labels(source, read, fitted, file, n_bins, level, metrics)


def finish_labels(
    source: Source,
    read: LabelsRead,
    fitted: LabelsRead | None,
    file: str,
    n_bins: int,
    level: float,
    metrics: str | Sequence[str] | None = None,
) -> Audit:
    """Say what all rows together tell.

    Args:
        source: What was read.
        read: What it left behind.
        fitted: The same of a calibration set, if there is one.
        file: Name of the file.
        n_bins: Number of bins.
        level: Of the intervals.
        metrics: What to show: some of ``nll`` and ``brier``; else all.

    Returns:
        The audit.
    """
    asked = fitting(read_metrics(metrics), "multilabel", source.n_classes, asked=True) if metrics else ()
    keys = (*_MEASURES[:3], *(asked or _MEASURES[3:]))
    verdict = read.stream.micro(level=level)
    names = source.class_names or tuple(f"label {k}" for k in range(source.n_classes))
    found = [
        LabelFound(names[each.label], each, _auroc(read, each.label, level)) for each in read.stream.each(level=level)
    ]
    repairs, on, why = _repairs(read, fitted, verdict.gap.estimate, verdict.ece.estimate, n_bins, level)
    measures = {
        "accuracy": verdict.accuracy,
        "confidence_gap": verdict.gap,
        "ece": verdict.ece,
        **{key: _mean(key, sums, level) for key, sums in read.losses.items()},
    }
    kind: Kind = source.kind or "probs"
    test = verdict.consistency
    return Audit(
        file=file,
        model=source.model,
        split=source.split,
        took=source.took,
        kind=kind,
        n=read.stream.n,
        n_classes=source.n_classes,
        class_names=source.class_names,
        verdict=verdict,
        measures={key: measures[key] for key in keys},
        in_table=keys,
        chance={"ece": Chance("ece", test.ece, test.expected, test.limit, test.p_value, level)},
        sampled=len(read.labels) if len(read.labels) < read.stream.n else None,
        repair=_temperature(repairs, on),
        why_no_repair=why,
        slices=(),
        risk_coverage=(),
        notes=tuple(_notes(read, source)),
        held_out=fitted is not None,
        form="multilabel",
        labels=Labels(tuple(found), tuple(each for each, _ in repairs), on, why),
    )


def _notes(read: LabelsRead, source: Source) -> list[str]:
    notes = [*source.notes, *weight_notes(read.weighing, read.stream.n, source)]
    never = int((read.stream.bins[2].sum(1) == 0).sum())
    if never:
        notes.append(f"{never:,} of {source.n_classes:,} labels are true in no row.")
    if len(read.labels) < read.stream.n:
        notes.append(
            f"AUROC and repairs are computed on {len(read.labels):,} rows drawn at random, all else on every row."
        )
    return notes


def _mean(key: str, sums: ValueSums, level: float) -> Interval:
    """Return a mean over rows: the labels of one row belong together."""
    reach = float(stdtrit(max(1.0, sums.losses().n - 1), (1 + level) / 2)) * sums.standard_error
    return Interval(key, sums.mean, max(0.0, sums.mean - reach), sums.mean + reach, level, "rows", 0)


def _auroc(read: LabelsRead, label: int, level: float) -> Interval | None:
    risk, true = (torch.from_numpy(each[:, label]) for each in (read.logits, read.labels))
    found = ranking(risk.sigmoid(), true, read.weights, level=level)
    return found[0] if found else None


def _repairs(
    read: LabelsRead, held_out: LabelsRead | None, gap: float, ece: float, n_bins: int, level: float
) -> tuple[list[tuple[LabelRepair, LabelStream]], str, str]:
    """Fit elsewhere and score all rows; or fit on each half of the rows and score on the other."""
    if len((held_out or read).labels) < TOO_FEW:
        return [], "", f"{len((held_out or read).labels)} rows are too few to fit a repair"
    if held_out is not None:
        parts = [(_rows_of(held_out), np.full(len(read.labels), True))]
        on = "the calibration set of the same file"
    else:
        halves = [read.folds == half for half in (0, 1)]
        parts = [(_rows_of(read).rows(~half), half) for half in halves]
        on = "one half of the rows, scored on the other, and the other way round"
    whole = _rows_of(read) if held_out is None else parts[0][0]
    weights = None if read.weights is None else torch.from_numpy(read.weights)
    found = []
    ways: dict[str, Callable[[Predictions, Array], Array]] = {"temperature": _by_temperature, "platt": _by_platt}
    for name, way in ways.items():
        probs = np.empty(read.logits.shape)
        for part, rows in parts:
            probs[rows] = way(part, read.logits[rows])
        stream = LabelStream(n_bins)
        stream.update(probs, read.labels, weights)
        after = stream.micro(level=level)
        likely = torch.from_numpy(np.where(read.labels > 0, probs, 1 - probs)).clamp(min=TINY)
        repairs = is_repaired(gap, ece, after)
        temperature = _fit(whole) if name == "temperature" else None
        nll = -mean(likely.log().mean(1), weights).item()
        found.append((LabelRepair(name, temperature, after.gap, after.ece, nll, repairs), stream))
    return found, on, ""


def _rows_of(read: LabelsRead) -> Predictions:
    return Predictions(read.logits, read.labels, "calibration", weights=read.weights, form="multilabel")


def _fit(rows: Predictions) -> float:
    rows = rows.rows(slice(max(1, _FITTED // rows.logits.shape[1])))
    z, y = rows.logits.reshape(-1), rows.labels.reshape(-1).astype(np.int64)
    weights = None if rows.weights is None else np.repeat(rows.weights, rows.logits.shape[1])
    pairs = Predictions(np.stack([np.zeros_like(z), z], 1), y, "calibration", weights=weights)
    return fit_temperature(pairs).temperature


def _by_temperature(rows: Predictions, others: Array) -> Array:
    return _sigmoid(others / _fit(rows))


def _by_platt(rows: Predictions, others: Array) -> Array:
    """Fit two numbers per label; a label that is hardly ever true, or hardly ever not, stays as it is."""
    found = _sigmoid(others)
    for label in range(rows.logits.shape[1]):
        y = rows.labels[:, label].astype(np.int64)
        if min(int(y.sum()), int((1 - y).sum())) < _FEW:
            continue
        pair = np.stack([np.zeros(len(y)), rows.logits[:, label]], 1)
        fitted = CALIBRATORS["platt"].build(Predictions(pair, y, "calibration", weights=rows.weights))
        found[:, label] = fitted.probs(np.stack([np.zeros(len(others)), others[:, label]], 1))[:, 1]
    return found


def _sigmoid(z: Array) -> Array:
    probs: Array = torch.from_numpy(np.asarray(z, np.float64)).sigmoid().numpy()
    return probs


def _temperature(repairs: Sequence[tuple[LabelRepair, LabelStream]], on: str) -> Repair | None:
    """Return the temperature as the diagrams show it."""
    for each, stream in repairs:
        if each.temperature is not None:
            after = stream.micro(level=each.gap.level)
            return Repair(each.temperature, on, after.ece, after.consistency, each.nll, after.reliability)
    return None
