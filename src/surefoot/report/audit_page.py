"""The page of an audit, from its JSON alone: no torch, no metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from surefoot.report.audit_figures import class_figure, risk_figure, slice_figure
from surefoot.report.audit_tables import GAP, name_of
from surefoot.report.bins import Bins, bin_rows, lean
from surefoot.report.document import write_document
from surefoot.report.figures import Figure, reliability_figure
from surefoot.report.forms import (
    CONFIDENCE_HEADS,
    LABEL_AXES,
    LABEL_HEADS,
    confidence_advice,
    confidence_rows,
    confidence_words,
    label_advice,
    label_rows,
    mean_words,
    size_words,
)
from surefoot.report.marks import Mark, mark_of
from surefoot.report.measures import Measure, show, show_interval, show_limit
from surefoot.report.numbers import join, show_count, show_gap, signed
from surefoot.report.quantities import QUANTITIES
from surefoot.report.ranking_figures import ranking_context, ranking_figures
from surefoot.report.risk import (
    REPAIR_HEADS,
    SLICE_HEADS,
    measures_of,
    of_two,
    positive_words,
    repair_rows,
    risk_advice,
    risk_cards,
    slice_row,
)
from surefoot.report.risk_figures import risk_end, risk_reliability_figure
from surefoot.report.thresholds import GROUP_HEADS, threshold_cards

Json = Mapping[str, Any]


def write_audit_page(
    audits: Sequence[Json],
    path: Path | str,
    *,
    comparison: Json | None = None,
    ranking: Json | None = None,
    command: str | None = None,
    repair_commands: Sequence[str] = (),
    repair_notes: Sequence[str] = (),
) -> Path:
    """Write the page of one or several audits.

    Args:
        audits: As ``Audit.to_json`` writes them.
        path: The file to write; its folder is made if need be.
        comparison: As ``AuditComparison.to_json`` writes it, where two models are compared.
        ranking: As ``Ranking.to_json`` writes it, where more are.
        command: What was typed.
        repair_commands: What to type next, one per audit.
        repair_notes: What must be known about each; empty where nothing.

    Returns:
        ``path``.
    """
    labels, is_risk = _labels(audits, comparison, ranking), of_two(audits)
    models: list[dict[str, Any]] = [
        {"label": label, "mark": mark_of(index), "audit": audit, "id": index, "repairs": _repairs(audit)}
        for index, (label, audit) in enumerate(zip(labels, audits, strict=True))
    ]
    cards_of = risk_cards if is_risk else _cards
    cards = [card for model in models for card in cards_of(model, alone=len(models) == 1)]
    thresholds = [found for model in models if (found := threshold_cards(model))]
    if ranking is not None:  # of many models each as it is, the best first
        first = {card["id"]: card for card in cards}
        cards = [{**first[f"reliability-{place}-0"], "label": labels[place]} for place in ranking["order"]]
    figures = [*_figures(models, cards, ranking), *(ranking_figures(audits, ranking) if ranking else [])]
    return write_document(
        "audit.html",
        path,
        figures=[*figures, *({"id": each["id"], "views": {"": each["figure"]}} for each in thresholds)],
        title=_title(audits, ranking),
        sentences=_sentences(labels, audits, comparison, ranking),
        command=command,
        models=models,
        comparison=comparison,
        ranking=ranking_context(audits, ranking) if ranking is not None else None,
        is_risk=is_risk,
        has_classes=any(audit["verdict"]["classes"] for audit in audits),
        confidence_is=confidence_words(audits[0]),
        repair_heads=REPAIR_HEADS,
        confidence_heads=CONFIDENCE_HEADS,
        has_labels=any(audit.get("labels") for audit in audits),
        label_heads=LABEL_HEADS,
        label_rows=label_rows,
        has_curve=any(audit["risk_coverage"] for audit in audits),
        facts=[(model["label"] if len(models) > 1 else "File", _facts(model["audit"])) for model in models],
        rows=_measure_rows(audits, comparison),
        cards=cards,
        views=[("", "as shown")],
        thresholds=thresholds,
        threshold_heads=GROUP_HEADS,
        slices=[table for model in models for table in _slice_tables(model)],
        slices_said=[
            (model["label"] if len(models) > 1 else "", model["audit"]["slices_sentence"])
            for model in models
            if model["audit"]["slices"]
        ],
        advice=[_advice(audit) for audit in audits],
        repair_commands=list(repair_commands),
        repair_notes=list(repair_notes) or [""] * len(audits),
        level=f"{100 * audits[0]['verdict']['ece']['level']:.0f} %",
    )


def _labels(audits: Sequence[Json], comparison: Json | None, ranking: Json | None) -> list[str]:
    if ranking is not None:
        return [str(name) for name in ranking["names"]]
    if comparison is not None:
        return [f"{letter}: {name_of(audit)}" for letter, audit in zip("AB", audits, strict=True)]
    return [str(audit["model"] or audit["file"]) for audit in audits]


def _title(audits: Sequence[Json], ranking: Json | None) -> str:
    if ranking is not None:
        return f"Which of {len(audits)} models can be trusted most?"
    files = list(dict.fromkeys(str(audit["file"]) for audit in audits))
    return f"Can {join(files)} be trusted?"


def _sentences(
    labels: Sequence[str], audits: Sequence[Json], comparison: Json | None, ranking: Json | None
) -> list[str]:
    doubts = [
        f"Doubt: {f'{label}: ' if len(audits) > 1 else ''}{doubt}"
        for label, audit in zip(labels, audits, strict=True)
        for doubt in audit.get("doubts", ())
    ]
    if ranking is not None:
        return [*doubts, f"{ranking['sentence']}."]
    own = [_sentence(audit["sentence"]) for audit in audits]
    if len(own) == 1:
        return [*doubts, *own]
    named = [f"{label}: {audit['sentence']}." for label, audit in zip(labels, audits, strict=True)]
    return [*doubts, *([_sentence(comparison["sentence"])] if comparison is not None else []), *named]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _facts(audit: Json) -> list[str]:
    words = [
        str(audit["file"]),
        size_words(audit),
        f"taken: {audit['took']}",
        *audit["notes"],
    ]
    if audit.get("two_classes"):
        words.append(f"positive: {positive_words(audit['two_classes'])}")
    if audit["repair"]:
        words.append(f"Temperature fitted on {audit['repair']['fitted_on']}.")
    return words


def _repairs(audit: Json) -> list[tuple[str, ...]]:
    if audit.get("confidence"):
        return confidence_rows(audit)
    return repair_rows(audit["two_classes"]) if audit.get("two_classes") else []


def _measure_rows(audits: Sequence[Json], comparison: Json | None) -> list[dict[str, Any]]:
    rows = []
    for each in measures_of(audits, brief=False):
        found = [audit["measures"].get(each.key) for audit in audits]
        if not any(found):
            continue
        cells = [_cell(each, value, audit["chance"].get(each.key)) for value, audit in zip(found, audits, strict=True)]
        gap = comparison["differences"].get(each.key) if comparison is not None else None
        rows.append({"measure": each, "cells": cells, "gap": show_gap(each, gap) if gap else ""})
        if each.key == "ece" and any(audit["repair"] for audit in audits):
            repairs = [audit["repair"] or {"ece": None, "chance": None} for audit in audits]
            cells = [_cell(each, repair["ece"], repair["chance"]) for repair in repairs]
            rows.append({"measure": None, "cells": cells, "gap": ""})
    return rows


def _cell(measure: Measure, value: dict[str, Any] | None, chance: dict[str, Any] | None) -> tuple[str, str, str]:
    """Value, interval or the reason why there is none, and what chance alone gives."""
    if value is None:
        return "–", "", ""
    limit = show_limit(measure, chance, fine=True)
    usual = f"by chance {show(measure, chance['expected'], fine=True)}, {limit}" if chance else ""
    why = "" if chance else str(value["note"])
    return show(measure, value["estimate"], fine=True), show_interval(measure, value, fine=True) or why, usual


def _cards(model: Mapping[str, Any], *, alone: bool) -> list[dict[str, Any]]:
    """One card for the predictions as they are, and one for what a temperature would make of them."""
    audit, prefix = model["audit"], "" if alone else f"{model['label']}, "
    found = [(f"{prefix}as they are", audit["verdict"]["reliability"])]
    if audit["repair"]:
        temperature = f"{audit['repair']['temperature']:.2f}"
        found.append((f"{prefix}after temperature {temperature}", audit["repair"]["reliability"]))
    cards = []
    for number, (label, diagram) in enumerate(found):
        bins = _bins(diagram)
        says = lean(bins) if not audit.get("labels") else mean_words(audit, bins)
        view = {"bins": bins, "says": f"{says} {_outside(bins)}", "rows": bin_rows(bins)}
        identity = f"reliability-{model['id']}-{number}"
        words = LABEL_AXES if audit.get("labels") else ("confidence", "accuracy")
        cards.append({"id": identity, "mark": model["mark"], "label": label, "views": {"": view}, "words": words})
    return cards


def _bins(diagram: Json) -> Bins:
    keys = ("count", "confidence", "accuracy", "low", "high")
    count, confidence, accuracy, low, high = (tuple(diagram[key]) for key in keys)
    return Bins(count, confidence, accuracy, 1, low, high)


def _outside(bins: Bins) -> str:
    """Return how many bins are further off than chance explains."""
    bars = zip(bins.accuracy, bins.low or (), bins.high or (), strict=True)
    off = [not low <= at <= high for at, low, high in bars if at is not None and low is not None and high is not None]
    if not any(off):
        return f"All {len(off)} filled bins are within what chance explains."
    return f"{sum(off)} of {len(off)} filled bins are further off than chance explains."


def _slice_tables(model: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns: dict[str, list[Json]] = {}
    for each in model["audit"]["slices"]:
        columns.setdefault(each["column"], []).append(each)
    return [
        {
            "id": f"slices-{model['id']}-{number}",
            "label": model["label"],
            "column": column,
            "mark": model["mark"],
            "slices": slices,
            "heads": SLICE_HEADS if slices[0].get("risk") else _SLICE_HEADS,
            "says": _slice_words(slices[0]),
            "rows": [slice_row(each) if each.get("risk") else _slice_row(each) for each in slices],
        }
        for number, (column, slices) in enumerate(columns.items())
    ]


_SLICE_HEADS = ("n", QUANTITIES["accuracy"].heading, "gap", QUANTITIES["ece"].heading, "finding")


def _slice_words(each: Json) -> tuple[str, str]:
    if each.get("risk"):
        return "Mean risk less event rate", "right of zero overstated, left of it understated"
    return "Confidence less accuracy", "right of zero over-confident, left of it under-confident"


def _slice_row(each: Json) -> tuple[str, ...]:
    verdict, gap = each["verdict"], each["gap"]
    return (
        each["value"],
        show_count(verdict["n"]),
        f"{100 * verdict['accuracy']['estimate']:.1f}",
        f"{signed(100 * gap['estimate'], 1)} ({show_interval(GAP, gap)})",
        f"{100 * verdict['ece']['estimate']:.1f}",
        each["finding"],
    )


def _figures(
    models: Sequence[Mapping[str, Any]], cards: Sequence[Mapping[str, Any]], ranking: Json | None
) -> list[dict[str, Any]]:
    end = max((risk_end(card["bins"]) for card in cards if "bins" in card), default=None) if ranking else None
    figures = [{"id": card["id"], "switch": "view", "views": {"": _diagram(card, end)}} for card in cards]
    for model in models:
        if ranking is None and model["audit"]["verdict"]["classes"]:
            classes = class_figure(model["audit"]["verdict"]["classes"], model["mark"])
            figures.append({"id": f"classes-{model['id']}", "views": {"": classes}})
        for table in _slice_tables(model):
            figures.append({"id": table["id"], "views": {"": slice_figure(table["slices"], model["mark"])}})
    curves: list[tuple[str, Mark, list[tuple[float, float]]]] = [
        (model["label"], model["mark"], model["audit"]["risk_coverage"]) for model in models
    ]
    if not any(points for _, _, points in curves):
        return figures
    return [*figures, {"id": "risk", "views": {"": risk_figure(curves)}}]


def _diagram(card: Mapping[str, Any], end: float | None) -> Figure:
    if "bins" in card:
        return risk_reliability_figure(card["bins"], card["mark"], end=end)
    return reliability_figure(card["views"][""]["bins"], card["mark"], card["words"])


def _advice(audit: Json) -> str:
    """Say what follows from the verdict."""
    if audit.get("two_classes"):
        return risk_advice(audit)
    if audit.get("labels"):
        return label_advice(audit)
    if audit.get("confidence") and audit["verdict"]["finding"] != "calibrated":
        return confidence_advice(audit)
    finding, repair = audit["verdict"]["finding"], audit["repair"]
    limit = 100 * audit["verdict"]["consistency"]["limit"]
    if finding == "calibrated":
        if limit > 5:
            return (
                f"Nothing needs repair that these examples could show. But they are few: an ECE of up to {limit:.1f} % "
                "could hide behind chance. Audit again with more of them."
            )
        return "Nothing needs repair. Use the probabilities as they are."
    if repair is None:
        return f"No temperature can be given here: {audit['why_no_repair']}. Compare the other calibrators:"
    if audit["temperature_helps"]:
        return (
            f"Divide the logits by {repair['temperature']:.2f} before the softmax; what is predicted stays as it is. "
            "Or compare all calibrators and save the best:"
        )
    return "One temperature is not enough here. Compare all calibrators and save the best:"
