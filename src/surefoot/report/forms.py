"""Forms of predictions in words: what rows and columns are where they are not the same classes in every row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surefoot.report.numbers import show_count

Json = Mapping[str, Any]


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
