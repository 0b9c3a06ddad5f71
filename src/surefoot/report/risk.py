"""Two classes on the page and in the terminal: the risk, P(positive), beside how often it happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from surefoot.report.bins import Bins, bin_rows
from surefoot.report.measures import Measure, show_interval
from surefoot.report.numbers import show_count, signed
from surefoot.report.quantities import QUANTITIES

Json = Mapping[str, Any]
GAP = Measure("risk_gap", "mean risk − event rate", meaning="Above 0 the risk is overstated, below 0 understated.")
COMMON = Measure(
    *("common_accuracy", "  always saying {common}"),
    meaning="Accuracy of a constant answer: a model that is below it decides worse than none.",
)
RISK_MEASURES = (
    Measure("mean_risk", "mean risk, {of}", meaning="The probability given to the positive class, on average."),
    Measure("event_rate", "event rate", meaning="How often the positive class is the true one."),
    GAP,
    Measure(
        *("risk_ece", f"{QUANTITIES['ece'].label} of {{of}}"),
        lower_is_better=True,
        meaning="How far risk and event rate lie apart, over bins of the risk.",
    ),
    Measure(
        *("risk_auroc", "AUROC of {positive}"),
        lower_is_better=False,
        meaning="How often an event has the higher risk than an example without; 50 % is guessing.",
    ),
    Measure(
        *("average_precision", "average precision"),
        lower_is_better=False,
        meaning="Mean share of events among those with at least an event's risk; guessing gives the event rate.",
    ),
)


def of_two(audits: Sequence[Json]) -> bool:
    """Return whether all audits are of two classes."""
    return all(audit.get("two_classes") for audit in audits)


def measures_of(audits: Sequence[Json], *, brief: bool) -> list[Measure]:
    """List the measures to show: for two classes those of the risk first.

    Args:
        audits: As ``Audit.to_json`` writes them.
        brief: For the terminal.

    Returns:
        The measures that at least one of the audits has.
    """
    values = [audit["measures"] for audit in audits]
    keys = dict.fromkeys(key for audit in audits for key in (audit["in_table"] if brief else audit["measures"]))
    known = [Measure.of(key, each[key]) for key in keys if (each := next((v for v in values if key in v), None))]
    risks = {each.key for each in (*RISK_MEASURES, COMMON)}
    found = [each for each in known if each.key not in risks]
    if of_two(audits):
        right = [each for each in found if each.key == "accuracy"]
        rest = [each for each in found if each.key != "accuracy"]
        found = [*(_named(each, audits) for each in RISK_MEASURES), *right, _named(COMMON, audits), *rest]
    return [each for each in found if any(each.key in v for v in values)]


def _named(measure: Measure, audits: Sequence[Json]) -> Measure:
    """Put the names of the classes in, where all audits have the same."""
    names = {(a["two_classes"]["positive"]["name"], a["two_classes"]["common"]) for a in audits}
    positive, common = names.pop() if len(names) == 1 else ("positive", "the common class")
    words = {"of": f"P({positive})", "positive": positive, "common": common}
    label = measure.label
    for key, word in words.items():
        label = label.replace(f"{{{key}}}", word)
    return replace(measure, label=label)


def risk_cards(model: Mapping[str, Any], *, alone: bool) -> list[dict[str, Any]]:
    """One card for the risks as they are, and one for what the advised repair would make of them."""
    two, prefix = model["audit"]["two_classes"], "" if alone else f"{model['label']}, "
    found = [(f"{prefix}as they are", two["risk"]["mean"], two["risk"]["reliability"])]
    repair = next((each for each in two["repairs"] if each["name"] in two["advised"][:1]), None)
    if repair:
        found.append((f"{prefix}after {repair_name(repair)}", repair["mean"], repair["reliability"]))
    cards = []
    for number, (label, mean, diagram) in enumerate(found):
        keys = ("count", "confidence", "accuracy", "low", "high")
        count, risk, happened, low, high = (tuple(diagram[key]) for key in keys)
        bins = Bins(count, risk, happened, 1, low, high)
        rate = two["risk"]["rate"]["estimate"]
        says = f"Mean risk {100 * mean:.1f} %, event rate {100 * rate:.1f} %."
        identity = f"reliability-{model['id']}-{number}"
        card = {"id": identity, "mark": model["mark"], "label": label, "says": says, "bins": bins}
        cards.append({**card, "rows": [row[1:] for row in bin_rows(bins)]})
    return cards


def repair_name(repair: Json) -> str:
    """Name a repair, a temperature with its value."""
    return f"temperature {repair['temperature']:.2f}" if repair["temperature"] else str(repair["name"])


SLICE_HEADS = ("n", "positives", "risk %", "happened %", "risk − happened", "finding")


def slice_row(each: Json) -> tuple[str, ...]:
    """Write a slice: value, examples, positives, mean risk, event rate, their gap with its interval, finding."""
    risk, gap = each["risk"], each["gap"]
    return (
        each["value"],
        show_count(risk["n"]),
        show_count(risk["events"]),
        f"{100 * risk['mean']:.1f}",
        f"{100 * risk['rate']['estimate']:.1f}",
        f"{signed(100 * gap['estimate'], 1)} ({show_interval(GAP, gap)})",
        each["finding"],
    )


REPAIR_HEADS = ("repair", "mean risk", GAP.label, QUANTITIES["ece"].label, QUANTITIES["nll"].label, "repairs it")


def repair_rows(two: Json) -> list[tuple[str, ...]]:
    """Write what each repair brings, on rows that it was not fitted on, the risks as they are first."""
    rows = [("none", two["risk"]["mean"], two["risk"]["gap"], two["risk"]["ece"], two["nll"], "")]
    rows += [
        (repair_name(each), each["mean"], each["gap"], each["ece"], each["nll"], "yes" if each["repairs"] else "no")
        for each in two["repairs"]
    ]
    return [
        (
            name,
            f"{100 * mean:.1f} %",
            f"{signed(100 * gap['estimate'], 1)} ({show_interval(GAP, gap)})",
            f"{100 * ece['estimate']:.1f} %",
            f"{nll:.4f}",
            repairs,
        )
        for name, mean, gap, ece, nll, repairs in rows
    ]


def positive_words(two: Json) -> str:
    """Return which class is the positive one, how often it is there, and how it was chosen."""
    positive, risk = two["positive"], two["risk"]
    return (
        f"{positive['name']}, {show_count(risk['events'])} of {show_count(risk['n'])} ({positive['how']}); "
        f"its probability is the risk"
    )


def risk_advice(audit: Json) -> str:
    """Say what follows from the verdict about the risk."""
    two = audit["two_classes"]
    if audit["verdict"]["finding"] == "calibrated":
        limit = 100 * two["risk"]["consistency"]["limit"]
        few = f"With these examples an ECE of up to {limit:.1f} % could hide behind chance. "
        return f"Nothing needs repair that these examples could show. {few}Use the risks as they are."
    if not two["repairs"]:
        return f"No repair can be judged here: {two['why_no_repair']}. Get more examples of the rarer class."
    if audit["temperature_helps"]:
        (one,) = (each for each in two["repairs"] if each["name"] == "temperature")
        return (
            f"Divide the logits by {one['temperature']:.2f} before the softmax; what is predicted stays as it is. "
            "Or compare all calibrators and save the best:"
        )
    named = ", ".join(two["advised"]) or "none of those tried here is enough"
    return (
        "A temperature does not repair the risk: it moves both classes towards or away from one half. What does, on "
        f"rows that it was not fitted on: {named}. Compare all calibrators and save the best:"
    )
