"""The curves of one run: records in, columns of numbers out."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from surefoot.serve.findings import findings
from surefoot.serve.runs import held_out, number
from surefoot.serve.stability import LOOKED_AT

Record = Mapping[str, Any]
POINTS = 2000  # of the loss of single steps, at most, in one message
COUNTED = ("quality", "gn_sharpness", "keep_calibrated")  # trackers whose looks the findings go by
CURVES = {  # by tracker: the curve's name, and the key of its values; {split} is the one that the run is watched by
    "quality": {
        "nll": "{split}/loss",
        "train_nll": "train/loss",
        "accuracy": "{split}/accuracy",
        "train_accuracy": "train/accuracy",
        "ece": "{split}/ece",
        "ece_by_chance": "{split}/ece_by_chance",
        "gap": "{split}/gap",
        "gap_error": "{split}/gap_error",
    },
    "gn_sharpness": {
        "sharpness": "gn_sharpness/value",
        "two_over_lr": "gn_sharpness/two_over_lr",
        "threshold": "gn_sharpness/threshold",
    },
    "margins": {
        "margin_low": "test/margin_q10",
        "margin_median": "test/margin_median",
        "margin_high": "test/margin_q90",
    },
    "step_facts": {"rho": "step/rho", "gamma": "step/gamma"},
    "keep_calibrated": {
        "steered_rho": "steering/rho",
        "steered_gamma": "steering/gamma",
        "steered_weight_decay": "steering/weight_decay",
    },
}


class Curves:
    """Gathers what a page draws of one run, and what the findings need."""

    def __init__(self) -> None:
        self._looks: list[Record] = []
        self._steps: deque[Record] = deque(maxlen=LOOKED_AT)
        self._bad: Record | None = None
        self._failed: dict[str, Record] = {}

    def add(self, records: Sequence[Record]) -> dict[str, Any]:
        """Take new records.

        Args:
            records: As they were written.

        Returns:
            Steps and values by curve, and the newest reliability bins, of these records alone.
        """
        found: dict[str, tuple[list[float], list[float | None]]] = {}
        bins = None
        losses = [record for record in records if "tracker" not in record and "loss" in record]
        found["loss"] = thin([(_step(r), number(r["loss"])) for r in losses], POINTS)
        self._steps.extend(losses)
        self._bad = self._bad or next((r for r in losses if number(r["loss"]) is None), None)
        for record in records:
            name = record.get("tracker")
            if not isinstance(name, str):
                continue
            if "failed" in record:
                self._failed[name] = record
            if name in COUNTED:
                self._looks.append(record)
            split = held_out(record)
            for curve, key in CURVES.get(name, {}).items():
                value = number(record.get(key.format(split=split)))
                if value is not None:
                    x, y = found.setdefault(curve, ([], []))
                    x.append(_step(record))
                    y.append(value)
            if name == "quality" and isinstance(record.get("bins"), dict):
                bins = clean_bins(record["bins"])
        return {"curves": {name: columns for name, columns in found.items() if columns[0]}, "bins": bins}

    def findings(self, kept: Collection[int] | None = ()) -> list[str]:
        """Say what all records so far amount to."""
        bad = [] if self._bad is None else [self._bad]
        return findings([*self._looks, *self._failed.values(), *bad, *self._steps], kept)


def thin(points: Sequence[tuple[float, float | None]], most: int) -> tuple[list[float], list[float | None]]:
    """Replace neighbours by their mean, so that there are not more points than asked for.

    Args:
        points: Steps and values; None where one is not finite, which stays visible.
        most: How many may be left.

    Returns:
        Steps (the last of each group) and values.

    Example:
        >>> thin([(1, 2.0), (2, 4.0), (3, 6.0), (4, 10.0)], 2)
        ([2, 4], [3.0, 8.0])
    """
    size = max(1, -(-len(points) // most))
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return [group[-1][0] for group in groups], [_mean(value for _, value in group) for group in groups]


def _mean(values: Iterable[float | None]) -> float | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return float(f"{sum(known) / len(known):.6g}") if len(known) == len(found) else None


def clean_bins(bins: Mapping[str, Any]) -> dict[str, Any] | None:
    """Take reliability bins from a file; None where they are not what they should be."""
    columns = [bins.get(name) for name in ("count", "confidence", "accuracy")]
    if not all(isinstance(column, list) and 0 < len(column) <= 1000 for column in columns):
        return None
    count, confidence, accuracy = ([number(value) for value in column] for column in columns if column is not None)
    if not len(count) == len(confidence) == len(accuracy):
        return None
    return {"split": str(bins.get("split")), "count": count, "confidence": confidence, "accuracy": accuracy}


def _step(record: Record) -> float:
    return number(record.get("step")) or 0
