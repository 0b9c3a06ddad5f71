"""What the lines of each file must hold, so that a damaged one is refused by its name instead of misread."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from surefoot.json_values import is_number

MOST_DIGITS = 17  # a number has no more
_MORE = {"constant_accuracy": ("lead", "lead_error")}  # numbers beside the value
_BINS = ("count", "confidence", "accuracy")
_PLACE = ("corruption", "severity", "ood", "published")
_QUALITY = ("accuracy", "ece", "nll")


def is_step(line: Mapping[str, Any]) -> bool:
    """Return whether a line says, in numbers, what happened at which step."""
    values = (value for key, value in line.items() if "/" in key)
    return is_number(line.get("step")) and all(map(_is_value, values))


def is_tracked(line: Mapping[str, Any]) -> bool:
    """Return whether it also says which tracker saw it."""
    return isinstance(line.get("tracker"), str) and is_step(line)


def is_timing(line: Mapping[str, Any]) -> bool:
    """Return whether a line says, in numbers, at which step how many seconds were spent."""
    return all(map(is_number, (line.get("step"), line.get("seconds"), line.get("tracking", 0.0))))


def is_measure(line: Mapping[str, Any]) -> bool:
    """Return whether a line holds a value or bins, and says of what."""
    is_named = all(isinstance(line.get(key), str) for key in ("metric", "split"))
    is_placed = isinstance(line.get("calibrator", 0), str | None)
    is_scored = _is_bins(line["bins"]) if "bins" in line else "value" in line and _is_value(line["value"])
    is_whole = is_named and all(is_number(line.get(key)) for key in _MORE.get(line["metric"], ()))
    return is_whole and is_placed and is_scored and _is_described(line)


def is_shift(line: Mapping[str, Any]) -> bool:
    """Return whether a line says how good predictions are, and on which pictures."""
    is_placed = is_number(line.get("n")) and all(key in line for key in _PLACE)
    is_scored = all(key in line and _is_value(line[key]) for key in _QUALITY)
    return is_placed and is_scored and _is_detection(line.get("detection", 0))


def _is_value(value: Any) -> bool:
    """Return whether a value is a number, perhaps NaN or infinite, or stands for one that is not defined."""
    return value is None or isinstance(value, float) or is_number(value)


def _is_described(line: Mapping[str, Any]) -> bool:
    """Return whether what is said about how to show a value, if anything is, can be used."""
    digits, ends = line.get("digits", 0), line.get("range", [None, None])
    return (
        all(isinstance(line.get(key, ""), str) for key in ("label", "unit", "meaning"))
        and (isinstance(digits, int) and 0 <= digits <= MOST_DIGITS)
        and line.get("lower_is_better") in (True, False, None)
        and (isinstance(ends, list) and len(ends) == 2 and all(map(_is_value, ends)))
    )


def _is_bins(bins: Any) -> bool:
    columns: list[Any] = [bins.get(key) for key in _BINS] if isinstance(bins, dict) else []
    are_lists = bool(columns) and all(isinstance(column, list) for column in columns)
    return are_lists and len(set(map(len, columns))) == 1 and all(map(_is_value, chain(*columns)))


def _is_detection(found: Any) -> bool:
    if not isinstance(found, dict):
        return found is None
    return all(
        isinstance(score, dict) and is_number(score.get("auroc")) and all(map(_is_value, score.values()))
        for score in found.values()
    )
