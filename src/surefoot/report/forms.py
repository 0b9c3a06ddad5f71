"""Forms of predictions in words: what rows and columns are where they are not the same classes in every row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surefoot.report.measures import Measure, show_interval
from surefoot.report.numbers import show_count, signed
from surefoot.report.quantities import QUANTITIES

Json = Mapping[str, Any]
_GAP = Measure("confidence_gap", "confidence − right")
CONFIDENCE_HEADS = (
    *("repair", "mean confidence", _GAP.label, QUANTITIES["ece"].label, QUANTITIES["nll"].label, "repairs it"),
)


def form_of(audit: Json) -> str:
    """Return the form of audited predictions."""
    return str(audit.get("form", "multiclass"))


def is_classes(audit: Json) -> bool:
    """Return whether columns stand for the same classes in every row."""
    return form_of(audit) == "multiclass"


def size_words(audit: Json) -> str:
    """Say how many rows and columns there are, and what they are."""
    n, k = show_count(audit["n"]), show_count(audit["n_classes"])
    form = form_of(audit)
    if form == "choices":
        return f"{n} rows of up to {k} choices"
    if form == "confidence":
        return f"{n} predictions, each with its confidence"
    return f"{n} examples, {k} {'labels' if form == 'multilabel' else 'classes'}"


def confidence_words(audit: Json) -> str:
    """Say what confidence is."""
    form = form_of(audit)
    if form == "choices":
        return "The probability that the model gives to the choice it finds most likely, among those of its row."
    if form == "confidence":
        return "How sure the prediction is said to be, as the file has it."
    return "The probability that the model gives to the class it finds most likely."


def confidence_rows(audit: Json) -> list[tuple[str, ...]]:
    """Write what each repair makes of a confidence, on rows that it was not fitted on, as it is first."""
    found, verdict = audit["confidence"], audit["verdict"]
    rows = [("none", found["mean"], verdict["gap"], verdict["ece"], found["nll"], "")]
    for each in found["repairs"]:
        name = f"temperature {each['temperature']:.2f}" if each["temperature"] else each["name"]
        rows.append((name, each["mean"], each["gap"], each["ece"], each["nll"], "yes" if each["repairs"] else "no"))
    return [
        (
            name,
            f"{100 * mean:.1f} %",
            f"{signed(100 * gap['estimate'], 1)} ({show_interval(_GAP, gap)})",
            f"{100 * ece['estimate']:.1f} %",
            f"{nll:.4f}",
            repairs,
        )
        for name, mean, gap, ece, nll, repairs in rows
    ]


def confidence_advice(audit: Json) -> str:
    """Say what follows from the verdict about a confidence."""
    found = audit["confidence"]
    if not found["repairs"]:
        return f"No repair can be judged here: {found['why_no_repair']}. Get more rows."
    if audit["temperature_helps"]:
        (one,) = (each for each in found["repairs"] if each["name"] == "temperature")
        return f"Divide the log-odds of the confidence by {one['temperature']:.2f}. Or compare repairs and save one:"
    named = ", ".join(found["advised"]) or "none of those tried here is enough"
    return (
        "One temperature is not enough: it moves every confidence towards or away from one half. What repairs it, on "
        f"rows that it was not fitted on: {named}. Compare them and save the best:"
    )
