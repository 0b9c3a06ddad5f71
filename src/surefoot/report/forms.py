"""Forms of predictions in words: what rows and columns are where they are not the same classes in every row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surefoot.report.bins import Bins
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


LABEL_AXES = ("probability", "frequency")
LABEL_HEADS = ("true", "mean %", "true %", "mean − true", QUANTITIES["ece"].heading, "AUROC %", "finding")


def label_rows(labels: Json) -> list[tuple[str, ...]]:
    """Write every label, the worst first: how often it is true, its probability, how far both lie apart."""
    rows: list[tuple[str, ...]] = []
    for one in labels["each"]:
        found, auroc = one["verdict"], one["auroc"]
        gap = f"{signed(100 * found['gap']['estimate'], 1)} ({show_interval(_GAP, found['gap'])})"
        rows.append((
            one["name"],
            show_count(found["events"]),
            f"{100 * found['mean']:.1f}",
            f"{100 * found['rate']['estimate']:.1f}",
            gap,
            f"{100 * found['ece']['estimate']:.1f}",
            f"{100 * auroc['estimate']:.1f}" if auroc else "–",
            found["finding"],
        ))
    return rows


def mean_words(audit: Json, bins: Bins) -> str:
    """Say the mean probability of all labels beside how often they are true."""
    pairs = zip(bins.count, bins.confidence, strict=True)
    mean = sum(n * p for n, p in pairs if p is not None) / max(1, bins.total)
    return f"Mean probability {100 * mean:.1f} %, true {100 * audit['verdict']['accuracy']['estimate']:.1f} %."


def label_advice(audit: Json) -> str:
    """Say what follows from the verdict about several labels."""
    labels = audit["labels"]
    wrong = [one["name"] for one in labels["each"] if one["verdict"]["finding"] != "calibrated"]
    if audit["verdict"]["finding"] == "calibrated" and not wrong:
        return "Nothing needs repair that these rows could show. Use the probabilities as they are."
    if not labels["repairs"]:
        return f"No repair can be judged here: {labels['why_no_repair']}."
    enough = [each for each in labels["repairs"] if each["repairs"]]
    if enough and enough[0]["temperature"]:
        return f"Divide the logits of all labels by {enough[0]['temperature']:.2f} before the sigmoid."
    named = "Fit a Platt scaling for every label by itself: it repairs them on rows that it was not fitted on. "
    return (named if enough else "") + f"Look first at {', '.join(wrong[:5]) or 'the bins that are off'}."


def confidence_words(audit: Json) -> str:
    """Say what confidence is."""
    form = form_of(audit)
    if form == "choices":
        return "The probability that the model gives to the choice it finds most likely, among those of its row."
    if form == "multilabel":
        return "The probability that the model gives to a label, whether or not it is true."
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
