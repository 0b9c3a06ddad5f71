"""From a run's predictions to its measures: what is shown, and whatever else is asked for, each computed once.

A measure has a key, as :mod:`~surefoot.metric_keys` reads it: a metric, and perhaps a calibrator that was fitted on the
calibration split. ``reliability`` stands for the bins of the diagram. What was computed stays in the run folder, with
all that is needed to show it. Torch is imported only when something has to be computed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from surefoot.metric_keys import read_metric, split_key
from surefoot.records import RunFolder
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions, SplitName

Record = dict[str, Any]

IN_TABLE = ("accuracy", "ece", "nll", "ece@temperature")
SHOWN = (*IN_TABLE, "brier")  # on the page
DIAGRAMS = ("reliability", "reliability@temperature", "reliability@isotonic")
CONSTANT = "constant_accuracy"
OF_EVERY_RUN: dict[SplitName, tuple[str, ...]] = {
    "calibration": (*(key for key in SHOWN if "@" not in key), CONSTANT),
    "test": (*SHOWN, CONSTANT, *DIAGRAMS),
}


def key_of(record: Record) -> str:
    """Return the key of a record: its metric, and the calibrator that it was computed behind."""
    return f"{record['metric']}@{record['calibrator']}" if record["calibrator"] else str(record["metric"])


def evaluate(run: RunFolder, passes: int) -> list[Record]:
    """Measure a run on all that its page shows: the calibration split, which is chosen by, and the test split.

    Args:
        run: Holds the predictions.
        passes: What the run cost, in gradient passes.

    Returns:
        The records, as written to the folder.
    """
    records = [record for split, keys in OF_EVERY_RUN.items() for record in _compute(run, keys, split, passes)]
    run.write_measures(records)
    return records


def measures_of(run: RunFolder, keys: Sequence[str], *, split: SplitName = "test") -> dict[str, Record]:
    """Read measures of a run; those that it does not hold are computed from its predictions and kept in the folder.

    Args:
        run: A finished run.
        keys: As :func:`~surefoot.metric_keys.read_metrics` gives them, or ``reliability``.
        split: Of which predictions.

    Returns:
        Records by key; without those of a run that was kept without its predictions.
    """
    records = run.measures()
    found = {key_of(record): record for record in records if record["split"] == split}
    missing = [key for key in dict.fromkeys(keys) if not _is_complete(found.get(key))]
    if missing and run.has_predictions(split):
        passes = (run.done() or {}).get("passes")
        new = {key_of(record): record for record in _compute(run, missing, split, passes)}
        kept = [record for record in records if record["split"] != split or key_of(record) not in new]
        _keep(run, [*kept, *new.values()])
        found |= new
    return {key: found[key] for key in keys if key in found}


def value_of(run: RunFolder, key: str, *, split: SplitName = "test") -> float | None:
    """Read one measure of a run, see :func:`measures_of`; None where it is not defined or not to be had."""
    found = measures_of(run, [key], split=split).get(key)
    value: float | None = found["value"] if found else None
    return value


def kept_value(
    run: RunFolder, name: str, compute: Callable[[RunFolder], float], *, split: SplitName = "test"
) -> float | None:
    """Read a number that is no metric of surefoot's; where the run does not hold it, compute it and keep it there.

    Args:
        run: A finished run.
        name: Under which it is kept beside the measures.
        compute: From the run's predictions to the number.
        split: Of which predictions.

    Returns:
        The number; None where it is neither held nor to be computed, since the run was kept without predictions.
    """
    held = [each for each in run.measures() if (each["split"], key_of(each)) == (split, name)]
    if held:
        return float(held[0]["value"])
    if not run.has_predictions(split):
        return None
    value, passes = compute(run), (run.done() or {}).get("passes")
    _keep(run, [*run.measures(), {**_stamp(run, split, passes), "calibrator": None, "metric": name, "value": value}])
    return value


def _stamp(run: RunFolder, split: SplitName, passes: int | None) -> Record:
    return {"run": run.run_id, "seed": run.spec.seed, "passes": passes, "split": split}


def _is_complete(record: Record | None) -> bool:
    """Say whether a record is there and says how it is shown."""
    return record is not None and ("unit" in record or "bins" in record or record["metric"] == CONSTANT)


def _keep(run: RunFolder, records: Iterable[Record]) -> None:
    with suppress(OSError):  # a folder that may only be read: then they are computed again another time
        run.write_measures(records)


def _compute(run: RunFolder, keys: Sequence[str], split: SplitName, passes: int | None) -> list[Record]:
    stamp = _stamp(run, split, passes)
    predictions: dict[str | None, tuple[Predictions, Record]] = {None: (run.predictions(split), {})}
    records = []
    for key in keys:
        metric, calibrator = split_key(key)
        if calibrator not in predictions:
            predictions[calibrator] = _calibrated(run, str(calibrator), predictions[None][0])
        scored, fitted = predictions[calibrator]
        place = {**stamp, "calibrator": calibrator, "metric": metric}
        records.append({**place, **_score(run, metric, calibrator, scored), **fitted})
    return records


def _calibrated(run: RunFolder, name: str, scored: Predictions) -> tuple[Predictions, Record]:
    """Fit on the calibration split, which a calibrator refuses to be scored on."""
    fitted = CALIBRATORS[name].build(run.predictions("calibration"))
    settings = {key: value for key, value in dataclasses.asdict(fitted).items() if isinstance(value, int | float)}
    return fitted(scored), {"fitted": settings}


def _score(run: RunFolder, metric: str, calibrator: str | None, predictions: Predictions) -> Record:
    if metric == CONSTANT:
        return _beside_constant(predictions, int(np.bincount(run.predictions("train").labels).argmax()))
    import torch

    from surefoot.metrics import describe, reliability

    probs = torch.from_numpy(predictions.logits).double().softmax(1)
    if metric == "reliability":
        return {"bins": dataclasses.asdict(reliability(probs, predictions.labels))}
    part, options = read_metric(metric)
    value = float(part.build(probs, torch.from_numpy(predictions.labels), **options))
    described = describe(part, options)
    if calibrator:
        described["label"] += f" after {'T' if calibrator == 'temperature' else calibrator}"
    return {"value": value if math.isfinite(value) else None, **described}


def _beside_constant(predictions: Predictions, common: int) -> Record:
    """Return the accuracy of always saying one class, by how much the network leads, and that lead's standard error.

    Both answer the same examples, so the error is that of a mean of paired differences of −1, 0 and 1.
    """
    constant = predictions.labels == common
    lead = (predictions.logits.argmax(1) == predictions.labels).astype(np.float64) - constant
    error = float(lead.std() / math.sqrt(len(lead)))
    return {"class": common, "value": float(constant.mean()), "lead": float(lead.mean()), "lead_error": error}
