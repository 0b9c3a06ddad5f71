"""An audit for the terminal, from its JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from surefoot.report.forms import CONFIDENCE_HEADS, LABEL_HEADS, confidence_rows, is_classes, label_rows, size_words
from surefoot.report.measures import Measure, show, show_interval, show_limit
from surefoot.report.numbers import join, show_count, show_gap
from surefoot.report.quantities import QUANTITIES
from surefoot.report.ranking import PAIR_HEADS, RANK_NOTE, pair_note, pair_rows, rank_heads, rank_rows
from surefoot.report.risk import REPAIR_HEADS, SLICE_HEADS, measures_of, of_two, positive_words, repair_rows, slice_row
from surefoot.report.thresholds import GROUP_HEADS, group_columns, group_rows, group_words, threshold_text

Json = Mapping[str, Any]
_FEW = 5  # classes shown
_SLICES = 20
_PAIRS = 15
GAP = Measure("confidence_gap", "confidence − accuracy")


def name_of(audit: Json) -> str:
    """Name an audited model: by its file, and by its name within it."""
    return f"{audit['file']}, {audit['model']}" if audit["model"] else str(audit["file"])


def audit_text(
    audits: Sequence[Json], comparison: Json | None = None, ranking: Json | None = None
) -> Iterator[RenderableType]:
    """Lay audits out for a terminal, the verdict first; before it only why it may be of something else.

    Args:
        audits: One or more, as ``Audit.to_json`` writes them.
        comparison: As ``AuditComparison.to_json`` writes it, where two models are compared.
        ranking: As ``Ranking.to_json`` writes it, where more are.

    Yields:
        What rich prints.
    """
    for audit in audits:
        for doubt in audit.get("doubts", ()):
            yield Text(f"Doubt: {name_of(audit) + ': ' if len(audits) > 1 else ''}{doubt}", "bold")
    if comparison is not None:
        yield Text(f"{comparison['sentence']}.", "bold")
        for letter, audit in zip("AB", audits, strict=True):
            yield Text(f"{letter}: {name_of(audit)}: {audit['sentence']}.")
        yield ""
        yield _side_by_side(audits, comparison)
    elif ranking is not None:
        yield Text(f"{ranking['sentence']}.", "bold")
        yield ""
        yield table_of(rank_heads(audits, ranking), rank_rows(audits, ranking), caption=RANK_NOTE)
        yield ""
        yield table_of(PAIR_HEADS, pair_rows(ranking)[:_PAIRS], caption=f"{pair_note(ranking, _PAIRS)} ● told apart.")
        yield ""
        for place in ranking["order"]:
            yield Text(f"{ranking['names'][place]}: {audits[place]['sentence']}.")
    elif len(audits) > 1:
        for audit in audits:
            yield Text.assemble((f"{audit['model'] or 'without a name'}: ", "bold"), f"{audit['sentence']}.")
        yield ""
        yield _models(audits)
    else:
        yield Text(f"{audits[0]['sentence']}.", "bold")
        yield from threshold_text(audits[0])
        yield ""
        yield _measures(audits[0])
    for audit in audits:
        yield from _details(audit, named=len(audits) > 1)


def table_of(heads: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "") -> Table:
    """Lay out rows for a terminal, with a note below."""
    table = _table(*heads)
    for row in rows:
        table.add_row(*row)
    table.caption, table.caption_justify = caption or None, "left"
    return table


def _table(*heads: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number else "left", no_wrap=number > 0)
    return table


def _shown(audits: Sequence[Json]) -> list[Measure]:
    return measures_of(audits, brief=True)


def _measures(audit: Json) -> Table:
    level = f"{100 * audit['verdict']['ece']['level']:.0f} % interval"
    table = _table("measure", "value", level, "by chance alone")
    for each in _shown([audit]):
        value, limit = audit["measures"][each.key], show_limit(each, audit["chance"].get(each.key))
        table.add_row(each.label, show(each, value["estimate"]), show_interval(each, value), limit)
        if each.key == "ece" and audit["repair"]:
            after, limit = audit["repair"]["ece"], show_limit(each, audit["repair"]["chance"])
            table.add_row("  after temperature", show(each, after["estimate"]), show_interval(each, after), limit)
    return table


def _without(audit: Json) -> Iterator[str]:
    """Say why a measure of the table that is no calibration error has no interval."""
    found: dict[str, list[str]] = {}
    for each in _shown([audit]):
        note = audit["measures"][each.key]["note"] if each.key in audit["measures"] else ""
        if note and each.key not in audit["chance"]:
            found.setdefault(note, []).append(each.label)
    return (f"{join(labels)}: {note}." for note, labels in found.items())


def _models(audits: Sequence[Json]) -> Table:
    if of_two(audits):
        return _risk_models(audits)
    shown = [each for each in _shown(audits) if each.key in ("accuracy", "confidence_gap", "ece", "nll")]
    table = _table("model", *(each.label for each in shown), "temperature", f"{QUANTITIES['ece'].label} after")
    for audit in audits:
        values = [show(each, audit["measures"][each.key]["estimate"]) for each in shown]
        repair = audit["repair"]
        after = [f"{repair['temperature']:.2f}", f"{100 * repair['ece']['estimate']:.1f} %"] if repair else ["–", "–"]
        table.add_row(audit["model"] or audit["file"], *values, *after)
    return table


def _risk_models(audits: Sequence[Json]) -> Table:
    shown = [
        each for each in _shown(audits) if each.key in ("mean_risk", "event_rate", "risk_ece", "risk_auroc", "nll")
    ]
    table = _table("model", *(each.label for each in shown))
    for audit in audits:
        found = [audit["measures"].get(each.key) for each in shown]
        values = [show(each, value["estimate"]) if value else "–" for each, value in zip(shown, found, strict=True)]
        table.add_row(audit["model"] or audit["file"], *values)
    return table


def _side_by_side(audits: Sequence[Json], comparison: Json) -> Table:
    level = f"{100 * audits[0]['verdict']['ece']['level']:.0f} %"
    table = _table("measure", "A", "B", f"A − B and its {level} interval")
    for each in _shown(audits):
        values = [show(each, a["measures"][each.key]["estimate"]) if each.key in a["measures"] else "–" for a in audits]
        gap = comparison["differences"].get(each.key)
        table.add_row(each.label, *values, show_gap(each, gap) if gap else "")
    return table


def _details(audit: Json, *, named: bool) -> Iterator[RenderableType]:
    yield ""
    if named:
        yield Text(name_of(audit), "bold")
        yield from threshold_text(audit)
    two = audit.get("two_classes")
    if two and two["repairs"] and audit["verdict"]["finding"] != "calibrated":
        yield _repairs(REPAIR_HEADS, repair_rows(two), two["fitted_on"])
    if audit.get("confidence") and audit["verdict"]["finding"] != "calibrated":
        yield _repairs(CONFIDENCE_HEADS, confidence_rows(audit), audit["confidence"]["fitted_on"])
    if audit.get("labels"):
        yield _labels(audit["labels"])
    if not two and audit["verdict"]["classes"] and audit["verdict"]["finding"] != "calibrated":
        worst = audit["verdict"]["classes"][:_FEW]
        words = ", ".join(f"{each['name']} {100 * each['ece']:.1f} %" for each in worst)
        yield Text(f"Worst classes by the ECE of their probability: {words}.")
    if audit["slices"]:
        yield _slices(audit)
        said = audit["slices_sentence"]
        yield Text(f"Slices: {said}. Intervals hold for all of them at once.")
    for each in audit.get("thresholds", ()):
        for column in group_columns(each):
            yield ""
            yield Text(group_words(each, column))
            if by_group := group_rows(each, column):
                yield _groups(column, by_group)
    for note in (*_without(audit), *audit["notes"]):
        yield Text(f"Note: {note}")
    if two:
        yield Text(f"Positive: {positive_words(two)}.")
    rows = f"{show_count(audit['n'])} × {show_count(audit['n_classes'])}" if is_classes(audit) else size_words(audit)
    yield Text(f"Read: {audit['file']}, {rows}: {audit['took']}.")


def _labels(labels: Json) -> Table:
    table = _table("label", *LABEL_HEADS)
    for row in label_rows(labels)[:_SLICES]:
        table.add_row(*row)
    rest = len(labels["each"]) - _SLICES
    more = f" {rest} more on the page." if rest > 0 else ""
    table.caption = f"Findings are corrected for the number of labels (Holm).{more}"
    table.caption_justify = "left"
    return table


def _repairs(heads: Sequence[str], rows: Sequence[Sequence[str]], fitted_on: str) -> Table:
    table = _table(*heads)
    for row in rows:
        table.add_row(*row)
    table.caption = f"Fitted on {fitted_on}."
    table.caption_justify = "left"
    return table


def _slices(audit: Json) -> Table:
    if audit["slices"][0].get("risk"):
        table = _table("slice", *SLICE_HEADS)
        for each in audit["slices"][:_SLICES]:
            table.add_row(f"{each['column']} = {each['value']}", *slice_row(each)[1:])
        return _cut(table, audit)
    accuracy, ece = QUANTITIES["accuracy"], QUANTITIES["ece"]
    table = _table("slice", "n", accuracy.label, GAP.label, ece.label, "finding")
    for each in audit["slices"][:_SLICES]:
        verdict = each["verdict"]
        table.add_row(
            f"{each['column']} = {each['value']}",
            show_count(verdict["n"]),
            show(accuracy, verdict["accuracy"]["estimate"]),
            f"{show(GAP, each['gap']['estimate'])} ({show_interval(GAP, each['gap'])})",
            show(ece, verdict["ece"]["estimate"]),
            each["finding"],
        )
    return _cut(table, audit)


def _groups(column: str, rows: Sequence[tuple[str, ...]]) -> Table:
    table = _table(column, *GROUP_HEADS)
    for row in rows:
        table.add_row(*row)
    return table


def _cut(table: Table, audit: Json) -> Table:
    if (rest := len(audit["slices"]) - _SLICES) > 0:
        table.caption = f"and {rest} more on the page"
    return table


def calibrators_table(values: Json) -> Table:
    """Lay a comparison of calibrators out for a terminal, the smallest NLL first.

    Args:
        values: As ``Fitted.to_json`` writes them.

    Returns:
        The table.
    """
    is_risk = values.get("n_classes") == 2
    nll, brier, ece, accuracy = (QUANTITIES[key].label for key in ("nll", "brier", "ece", "accuracy"))
    of_risk = f"{ece} of P" if is_risk else ece
    table = _table("calibrator", nll, "gain in NLL", brier, of_risk, accuracy, "parameters")
    for each in values["candidates"]:
        gain = "" if each["name"] == "none" else _gain(each)
        cells = (
            "∞" if each["nll"] is None else f"{each['nll']:.4f}",
            gain,
            f"{each['brier']:.4f}",
            f"{100 * each['risk_ece' if is_risk else 'ece']:.1f} %",
            f"{100 * each['accuracy']:.1f} %",
            show_count(each["n_parameters"]),
        )
        table.add_row(f"{each['name']} {'★' if each['name'] == values['best'] else ''}", *cells)
    rows = f"{show_count(values['compared_on'])} rows, {values['n_folds']} parts"
    reasons: dict[str, list[str]] = {}
    for name, reason in values["left_out"].items():
        reasons.setdefault(reason, []).append(name)
    left = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
    left = f" Left out: {left}." if left else ""
    table.caption = f"On rows that each was not fitted on: {rows}; gains as 95 % intervals. ★ the one to use.{left}"
    table.caption_justify = "left"
    return table


def _gain(candidate: Json) -> str:
    """Write by how much a calibrator lowers the NLL, with its interval."""
    low, high = candidate["change_low"], candidate["change_high"]
    return "–" if low is None or high is None else f"{-high:.4f}…{-low:.4f}"
