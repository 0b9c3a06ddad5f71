"""From a run folder's predictions to its measures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.metrics.reliability import reliability
from surefoot.records import RunFolder
from surefoot.registry import CALIBRATORS, METRICS, Part
from surefoot.schema import SPLITS, Predictions

REPAIRS = ("temperature", "isotonic")


def evaluate(folder: RunFolder, passes: int) -> list[dict[str, Any]]:
    """Measure a run: the metrics on every split, and on the test split once more behind the usual calibrators.

    Calibrators are fitted on the calibration split only. Beside each split's accuracy stands that of always saying one
    class. The measures are written to the folder. Metrics whose time grows with the square of the number of examples
    are left out; ``surefoot audit`` has the others' intervals.

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
    common = int(np.bincount(folder.predictions("train").labels).argmax())
    for split in SPLITS:
        predictions = folder.predictions(split)
        yield from _score(predictions, calibrator=None)
        yield _beside_constant(predictions, common)
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


def _beside_constant(predictions: Predictions, common: int) -> dict[str, Any]:
    """Return the accuracy of always saying one class, by how much the network leads, and that lead's standard error.

    Both answer the same examples, so the error is that of a mean of paired differences of −1, 0 and 1.
    """
    constant = predictions.labels == common
    lead = (predictions.logits.argmax(1) == predictions.labels).astype(np.float64) - constant
    place = {"split": predictions.split, "calibrator": None, "metric": "constant_accuracy", "class": common}
    error = float(lead.std() / math.sqrt(len(lead)))
    return {**place, "value": float(constant.mean()), "lead": float(lead.mean()), "lead_error": error}


def _value(part: Part, probs: Tensor, labels: Tensor) -> float | None:
    value = part.build(probs, labels).item()
    return value if math.isfinite(value) else None


def _description(part: Part) -> dict[str, Any]:
    """What a reader without metric code needs to know."""
    low, high = (bound if math.isfinite(bound) else None for bound in part.facts["range"])
    return {"label": part.facts["label"], "lower_is_better": part.facts["lower_is_better"], "range": [low, high]}
