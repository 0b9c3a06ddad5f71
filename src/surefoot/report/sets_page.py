"""The page of prediction sets, from their JSON alone: no torch, no metric."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from surefoot.report.document import write_document
from surefoot.report.figures import AXIS, PERCENT, Figure, layout, whiskers
from surefoot.report.marks import Mark, mark_of
from surefoot.report.numbers import show_count
from surefoot.report.sets_tables import MANY, grids, sets_facts

Json = Mapping[str, Any]
MOST_CLASSES = 20
_MOST_BARS = 30


def write_sets_page(found: Json, path: Path | str, *, command: str | None = None) -> Path:
    """Write the page of prediction sets.

    Args:
        found: As ``FittedSets.to_json`` writes it.
        path: The file to write; its folder is made if need be.
        command: What was typed.

    Returns:
        ``path``.
    """
    measured, mark = found["measured"], mark_of(0)
    columns = list(dict.fromkeys(each["column"] for each in measured["groups"]))
    groups = [
        {"id": f"group-{number}", "column": column, "parts": _of_column(measured, column)}
        for number, column in enumerate(columns)
    ]
    figures = [
        {"id": "sizes", "views": {"": size_figure(measured["sizes"], mark)}},
        {"id": "by-size", "views": {"": coverage_figure(measured["by_size"], measured["wanted"], mark, "set size ")}},
        {"id": "classes", "views": {"": coverage_figure(measured["classes"][:MOST_CLASSES], measured["wanted"], mark)}},
        *(
            {"id": each["id"], "views": {"": coverage_figure(each["parts"], measured["wanted"], mark)}}
            for each in groups
        ),
    ]
    return write_document(
        "conformal.html",
        path,
        figures=figures,
        title=f"Prediction sets of {found['file']}",
        verdict=f"{found['sentence']}.",
        facts=[_fact(line) for line in [*(f"Doubt: {doubt}" for doubt in found["doubts"]), *sets_facts(found)]],
        command=command,
        groups=groups,
        grids={grid.name: grid for grid in grids(found, MANY)},
        n_classes=len(measured["classes"]),
        most_classes=MOST_CLASSES,
        wanted=f"{100 * measured['wanted']:g} %",
        level=f"{100 * measured['coverage']['level']:.0f} %",
        cards=_cards(found),
    )


def _of_column(measured: Json, column: str) -> list[Json]:
    return [{**each, "column": ""} for each in measured["groups"] if each["column"] == column]


def _fact(line: str) -> tuple[str, list[str]]:
    head, _, rest = line.partition(": ")
    return head, [rest]


def _cards(found: Json) -> list[tuple[str, str, str]]:
    """The numbers to see first: name, value, and its interval or what it means."""
    measured = found["measured"]
    coverage, size = measured["coverage"], measured["mean_size"]
    ends = "" if size["low"] is None else f"{size['low']:.2f} to {size['high']:.2f}"
    return [
        (
            "Covered",
            f"{100 * coverage['estimate']:.1f} %",
            f"{100 * coverage['low']:.1f} to {100 * coverage['high']:.1f}",
        ),
        ("Asked for", f"{100 * measured['wanted']:g} %", "held" if measured["holds"] else "not held"),
        ("Classes in a set", f"{size['estimate']:.2f}", ends),
        ("Sets of one class", f"{100 * measured['singletons']:.1f} %", f"empty {100 * measured['empty']:.1f} %"),
        ("Rows", show_count(measured["n"]), "that the sets were not fitted on"),
    ]


def size_figure(sizes: Sequence[Sequence[float]], mark: Mark) -> Figure:
    """Draw which share of the rows has a set of each size.

    Args:
        sizes: Pairs of size and share; those beyond the thirtieth are drawn as one bar.
        mark: Colour.

    Returns:
        The figure.
    """
    shown = [(show_count(size), share) for size, share in sizes[:_MOST_BARS]]
    if rest := sizes[_MOST_BARS:]:
        shown.append((f"{rest[0][0]:.0f}–{rest[-1][0]:.0f}", sum(share for _, share in rest)))
    bars = {
        "type": "bar",
        "x": [size for size, _ in shown],
        "y": [share for _, share in shown],
        "marker": {"color": f"{mark.color}/0.62", "line": {"color": "--card", "width": 1}},
        "hovertemplate": "%{x} in the set: %{y:.1%} of the rows<extra></extra>",
    }
    return {
        "data": [bars],
        "layout": {
            **layout(height=300),
            "hovermode": "closest",
            "dragmode": False,
            "xaxis": {
                **AXIS,
                "type": "category",
                "title": {"text": "classes in the set", "standoff": 6},
                "fixedrange": True,
            },
            "yaxis": {
                **AXIS,
                "tickformat": PERCENT,
                "rangemode": "tozero",
                "title": {"text": "share of rows", "standoff": 6},
                "fixedrange": True,
            },
        },
    }


def coverage_figure(parts: Sequence[Json], wanted: float, mark: Mark, prefix: str = "") -> Figure:
    """Draw how often sets of some rows hold the true class, with intervals, beside what was asked for.

    Args:
        parts: Classes, groups or sizes; the first on top.
        wanted: What was asked for: the dashed line.
        mark: Colour and symbol; those below it beyond chance are diamonds in another colour.
        prefix: Before the names.

    Returns:
        The figure.
    """
    names = [f"{prefix}{_short(each['value'])}" for each in reversed(parts)]
    low = min((each["coverage"]["low"] for each in parts), default=0.0)
    enough = [each for each in parts if not each["under"]]
    under = [each for each in parts if each["under"]]
    line = {"color": "--ink", "width": 1.2, "dash": "dash"}
    return {
        "data": [_points(enough, prefix, mark.color, mark.symbol), _points(under, prefix, "--over", "diamond")],
        "layout": {
            **layout(height=max(170, 74 + 26 * len(parts))),
            "hovermode": "closest",
            "dragmode": False,
            "shapes": [
                {
                    "type": "line",
                    "xref": "x",
                    "yref": "paper",
                    "x0": wanted,
                    "x1": wanted,
                    "y0": 0,
                    "y1": 1,
                    "line": line,
                }
            ],
            "xaxis": {
                **AXIS,
                "tickformat": PERCENT,
                "nticks": 6,
                "range": [max(-0.02, min(low, wanted) - 0.03), 1.02],
                "title": {"text": "covered", "standoff": 6},
                "fixedrange": True,
            },
            "yaxis": {
                **AXIS,
                "type": "category",
                "categoryorder": "array",
                "categoryarray": names,
                "range": [-0.6, len(names) - 0.4],
                "fixedrange": True,
                "dtick": 1,
            },
        },
    }


def _points(parts: Sequence[Json], prefix: str, color: str, symbol: str) -> Figure:
    ends = [each["coverage"] for each in parts]
    return {
        "type": "scatter",
        "mode": "markers",
        "y": [f"{prefix}{_short(each['value'])}" for each in parts],
        "x": [each["estimate"] for each in ends],
        "error_x": whiskers(*([each[key] for each in ends] for key in ("estimate", "low", "high"))),
        "customdata": [[each["n"], each["mean_size"]] for each in parts],
        "marker": {"color": color, "symbol": symbol, "size": 11 if symbol == "diamond" else 9},
        "hovertemplate": "%{y}: covered %{x:.1%}<br>%{customdata[1]:.2f} classes in the set<br>"
        "n = %{customdata[0]:,}<extra></extra>",
    }


def _short(name: str) -> str:
    return html.escape(name if len(name) <= 24 else f"{name[:23]}…")
