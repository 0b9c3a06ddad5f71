"""What is shown of a metric, from what it declared: all that tables, pages and machines know about it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from surefoot.registry import Part
from surefoot.schema import OptionValue, show_option


def describe(part: Part, options: Mapping[str, OptionValue] | None = None) -> dict[str, Any]:
    """Return what a reader without metric code needs to know, ready for JSON.

    Args:
        part: A metric. One that is named by import path may declare as little as it likes, as attributes of the
            function: ``my_metric.label = "mine"``.
        options: Those that it is computed with; what differs from the default is added to the label.

    Returns:
        ``label``, ``unit``, ``digits``, ``lower_is_better``, ``range`` (null for infinite) and ``meaning``.

    Example:
        >>> from surefoot.registry import METRICS
        >>> found = describe(METRICS["ece"], {"n_bins": 30})
        >>> found["label"], found["unit"], found["digits"], found["range"]
        ('ECE, n_bins=30', '%', 1, [0.0, 1.0])
    """
    facts = part.facts
    changed = [
        f"{key}={show_option(value)}"
        for key, value in (options or {}).items()
        if key in part.options and value != part.options[key].default
    ]
    unit = str(facts.get("unit", ""))
    low, high = range_of(part)
    return {
        "label": ", ".join([str(facts.get("label", part.name.rpartition(":")[2])), *changed]),
        "unit": unit,
        "digits": int(facts.get("digits", 1 if unit == "%" else 3)),
        "lower_is_better": facts.get("lower_is_better"),
        "range": [low if math.isfinite(low) else None, high if math.isfinite(high) else None],
        "meaning": part.summary,
    }


def range_of(part: Part) -> tuple[float, float]:
    """Return the least and the largest value that a metric can have."""
    low, high = part.facts.get("range", (-math.inf, math.inf))
    return float(low), float(high)
