"""An audit inside a notebook: its sentences, tables and diagrams as HTML that needs neither script nor network.

Notebooks that are not trusted keep tables and pictures and throw scripts, styles and inline SVG away; so diagrams are
pictures with the SVG in their address. A picture runs no script either, whatever is written in it.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from surefoot.report.audit_tables import name_of
from surefoot.report.bins import Bins
from surefoot.report.measures import Measure, show, show_interval, show_limit
from surefoot.report.numbers import show_count, show_gap
from surefoot.report.ranking import RANK_NOTE, rank_heads, rank_rows
from surefoot.report.risk import measures_of
from surefoot.report.risk_figures import risk_end

Json = Mapping[str, Any]
_SIZE, _LEFT, _BOTTOM = 190, 36, 30
_COLORS = (
    "#3769a9",
    "#8d1d01",
    "#188b44",
    "#933278",
    "#ab7300",
    "#3399d2",
    "#5c4ebc",
    "#6e6e6e",
)  # the page's light ones
_MOST_SLICES = 20


def audit_html(audits: Sequence[Json], comparison: Json | None = None, ranking: Json | None = None) -> str:
    """Write audits for a notebook.

    Args:
        audits: As ``Audit.to_json`` writes them.
        comparison: As ``AuditComparison.to_json`` writes it, where two models are compared.
        ranking: As ``Ranking.to_json`` writes it, where more are.

    Returns:
        HTML in which nothing that came from a file is markup.
    """
    names = _names(audits, comparison, ranking)
    parts = [_said(f"Doubt: {doubt}") for audit in audits for doubt in audit["doubts"]]
    if ranking is not None:
        parts += [
            _said(ranking["sentence"]),
            _table(rank_heads(audits, ranking), rank_rows(audits, ranking), RANK_NOTE),
        ]
    elif comparison is not None:
        parts += [_said(comparison["sentence"]), _side_by_side(audits, comparison)]
    for name, audit in zip(names, audits, strict=True):
        if len(audits) == 1:
            parts += [_said(audit["sentence"]), _measures(audit)]
        else:
            parts.append(f"<p>{html.escape(name)}: {html.escape(audit['sentence'])}.</p>")
        if audit["slices"]:
            parts += [_said(audit["slices_sentence"]), _slices(audit)]
    return f"<div>{''.join(parts)}<div>{''.join(_diagrams(names, audits))}</div></div>"


def _names(audits: Sequence[Json], comparison: Json | None, ranking: Json | None) -> list[str]:
    if ranking is not None:
        return [str(name) for name in ranking["names"]]
    letters = ["A: ", "B: "] if comparison is not None else [""] * len(audits)
    return [f"{letter}{name_of(audit)}" for letter, audit in zip(letters, audits, strict=True)]


def _said(sentence: str) -> str:
    return f"<p><b>{html.escape(sentence[:1].upper() + sentence[1:])}.</b></p>"


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    top = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    lines = "".join(
        f"<tr><td align='left'>{html.escape(row[0])}</td>"
        + "".join(f"<td align='right'>{html.escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    below = f"<p>{html.escape(note)}</p>" if note else ""
    return f"<table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>{below}"


def _measures(audit: Json) -> str:
    level = f"{100 * audit['verdict']['ece']['level']:g} % interval"
    rows = []
    for each in measures_of([audit], brief=True):
        value, chance = audit["measures"][each.key], audit["chance"].get(each.key)
        rows.append((each.label, show(each, value["estimate"]), show_interval(each, value), show_limit(each, chance)))
    return _table(("measure", "value", level, "by chance alone"), rows)


def _side_by_side(audits: Sequence[Json], comparison: Json) -> str:
    rows = []
    for each in measures_of(audits, brief=True):
        values = [show(each, a["measures"][each.key]["estimate"]) if each.key in a["measures"] else "–" for a in audits]
        gap = comparison["differences"].get(each.key)
        rows.append((each.label, *values, show_gap(each, gap) if gap else ""))
    return _table(("measure", "A", "B", "A − B and its interval"), rows)


def _slices(audit: Json) -> str:
    gap = Measure("gap", "")
    rows = [
        (
            f"{each['column']} = {each['value']}",
            show_count(each["verdict"]["n"]),
            f"{show(gap, each['gap']['estimate'])} ({show_interval(gap, each['gap'])})",
            each["finding"],
        )
        for each in audit["slices"][:_MOST_SLICES]
    ]
    rest = len(audit["slices"]) - _MOST_SLICES
    what = "risk − happened" if audit["slices"][0]["risk"] else "confidence − accuracy"
    return _table(("slice", "n", what, "finding"), rows, f"And {rest} more in .groups_frame()." if rest > 0 else "")


def _diagrams(names: Sequence[str], audits: Sequence[Json]) -> list[str]:
    """Draw a reliability diagram for each model, with one scale for all."""
    bins = [_bins(audit) for audit in audits]
    are_risks = [bool(audit.get("two_classes")) for audit in audits]
    end = max(map(risk_end, bins)) if all(are_risks) else 1.0
    return [
        diagram(each, name if len(audits) > 1 else "", _COLORS[number % len(_COLORS)], end=end, is_risk=is_risk)
        for number, (name, each, is_risk) in enumerate(zip(names, bins, are_risks, strict=True))
    ]


def _bins(audit: Json) -> Bins:
    two = audit.get("two_classes")
    found = (two["risk"] if two else audit["verdict"])["reliability"]
    count, confidence, accuracy, low, high = (
        tuple(found[key]) for key in ("count", "confidence", "accuracy", "low", "high")
    )
    return Bins(count, confidence, accuracy, 1, low, high)


def diagram(bins: Bins, name: str, color: str, *, end: float, is_risk: bool) -> str:
    """Draw a reliability diagram as a picture.

    Args:
        bins: With consistency bars.
        name: Of the model; empty where there is one.
        color: Of its points.
        end: Of both axes.
        is_risk: Whether it is of a risk rather than of confidence.

    Returns:
        An ``img`` tag that holds all it shows.
    """
    x = [_LEFT + _SIZE * value / end for value in (0.0, end / 2, end)]
    y = [8 + _SIZE - _SIZE * value / end for value in (0.0, end / 2, end)]
    across, up = ("mean risk", "happened") if is_risk else ("confidence", "accuracy")
    ticks = [f"{100 * end * part:.3g}%" for part in (0, 0.5, 1)]
    text = "font-family='sans-serif' font-size='10' fill='#565f69'"
    parts = [
        f"<rect width='100%' height='100%' fill='#fff'/><rect x='{x[0]}' y='{y[2]}' width='{_SIZE}' height='{_SIZE}' "
        "fill='none' stroke='#dcdfe2'/>",
        f"<path d='M{x[0]} {y[0]}L{x[2]} {y[2]}' stroke='#1c2126' stroke-dasharray='4 3'/>",
        *(
            f"<text x='{at:.1f}' y='{y[0] + 12}' text-anchor='middle' {text}>{t}</text>"
            for at, t in zip(x, ticks, strict=True)
        ),
        *(
            f"<text x='{x[0] - 4}' y='{at + 3:.1f}' text-anchor='end' {text}>{t}</text>"
            for at, t in zip(y, ticks, strict=True)
        ),
        f"<text x='{x[1]}' y='{y[0] + 25}' text-anchor='middle' {text}>{across} (up: {up})</text>",
    ]
    for count, at, right, low, high in zip(
        bins.count, bins.confidence, bins.accuracy, bins.low or (), bins.high or (), strict=True
    ):
        if count and at is not None and right is not None:
            left = x[0] + _SIZE * at / end
            ends = [y[0] - _SIZE * value / end for value in (low or 0.0, high or 0.0, right)]
            parts.append(f"<path d='M{left:.1f} {ends[0]:.1f}V{ends[1]:.1f}' stroke='#1c2126' stroke-width='1.2'/>")
            parts.append(f"<circle cx='{left:.1f}' cy='{ends[2]:.1f}' r='3.5' fill='{color}'/>")
    width, height = _LEFT + _SIZE + 16, 8 + _SIZE + _BOTTOM
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}'>{''.join(parts)}</svg>"
    packed = base64.b64encode(svg.encode()).decode()
    alt = html.escape(f"Reliability diagram{' of ' + name if name else ''}: {up} by {across}", quote=True)
    title = f"<br>{html.escape(name)}" if name else ""
    return (
        "<span style='display: inline-block; margin-right: 12px'>"
        f"<img width='{width}' height='{height}' alt='{alt}' src='data:image/svg+xml;base64,{packed}'>{title}</span>"
    )
