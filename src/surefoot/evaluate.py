"""From a run folder's predictions to its measures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from surefoot.metrics.reliability import reliability
from surefoot.records import RunFolder
from surefoot.registry import CALIBRATORS, METRICS, Part
from surefoot.schema import SPLITS, Predictions

REPAIRS = ("temperature", "isotonic")


def evaluate(folder: RunFolder, passes: int) -> list[dict[str, Any]]:
    """Measure a run: the metrics on every split, and on the test split once more behind the usual calibrators.

    Calibrators are fitted on the calibration split only. The measures are written to the folder. Metrics whose time
    grows with the square of the number of examples are left out; ``surefoot audit`` has the others' intervals.

    Args:
        folder: Holds the predictions.
        passes: What the run cost, in gradient passes.

    Returns:
        The records, as written.
    """
    records = list(_measure(folder))
    stamp = {"run": folder.run_id, "seed": folder.spec.seed, "passes": passes}
    records = [{**stamp, **record} for record in records]
    folder.write_measures(records)
    return records


def _measure(folder: RunFolder) -> Iterator[dict[str, Any]]:
    for split in SPLITS:
        yield from _score(folder.predictions(split), calibrator=None)
    held_out, test = folder.predictions("calibration"), folder.predictions("test")
    for name in REPAIRS:
        fitted = CALIBRATORS[name].build(held_out)
        settings = {key: value for key, value in dataclasses.asdict(fitted).items() if isinstance(value, int | float)}
        for record in _score(fitted(test), calibrator=name):
            yield {**record, "fitted": settings}


def _score(predictions: Predictions, calibrator: str | None) -> Iterator[dict[str, Any]]:
    probs = torch.from_numpy(predictions.logits).double().softmax(1)
    labels = torch.from_numpy(predictions.labels)
    place = {"split": predictions.split, "calibrator": calibrator}
    for part in (part for part in METRICS if not part.facts.get("quadratic")):
        yield {**place, "metric": part.name, "value": _value(part, probs, labels), **_description(part)}
    bins = dataclasses.asdict(reliability(probs, labels))
    yield {**place, "metric": "reliability", "bins": bins}


def _value(part: Part, probs: Tensor, labels: Tensor) -> float | None:
    value = part.build(probs, labels).item()
    return value if math.isfinite(value) else None


def _description(part: Part) -> dict[str, Any]:
    """What a reader without metric code needs to know."""
    low, high = (bound if math.isfinite(bound) else None for bound in part.facts["range"])
    return {"label": part.facts["label"], "lower_is_better": part.facts["lower_is_better"], "range": [low, high]}
