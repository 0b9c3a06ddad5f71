"""Figures about shifted data: heat maps of corruptions by severity, and curves over severity."""

from __future__ import annotations

import html
import statistics
from typing import Any

from surefoot.report.figures import AXIS, PERCENT, Figure, layout
from surefoot.report.marks import mark_of
from surefoot.report.measures import Measure
from surefoot.report.shift import CLEAN, COLUMNS, ShiftRow, ShiftSummary
from surefoot.statistics import Spread

EVERY = ""  # the view of curves that averages all corruptions


def words(name: str) -> str:
    """Write a corruption's name for people."""
    return name.replace("_", " ").replace("jpeg", "JPEG")


def shift_figures(shift: ShiftSummary) -> list[dict[str, Any]]:
    """Draw everything, each figure with its place and its switch.

    Args:
        shift: The measures.

    Returns:
        One heat map per method, with a view per measure; one set of curves per measure, with a view per corruption.
    """
    heat = [
        {
            "id": f"shift-heat-{index}",
            "switch": "measure",
            "views": {column.key: _heat(shift, row, column) for column in COLUMNS},
        }
        for index, row in enumerate(shift.rows)
    ]
    curves = [
        {
            "id": f"shift-curve-{column.key}",
            "switch": "corruption",
            "views": {name: _curves(shift, column, name) for name in (EVERY, *shift.corruptions)},
        }
        for column in COLUMNS
    ]
    return heat + curves


def _heat(shift: ShiftSummary, row: ShiftRow, column: Measure) -> Figure:
    levels = [*([] if column.key == "auroc" else [0]), *shift.severities]
    table = [[_value(row, name, level, column.key) for level in levels] for name in shift.corruptions]
    seen = [
        value.mean for each in shift.rows for cell in each.cells.values() if (value := cell.get(column.key)) is not None
    ]
    shown, hover = (".0%", ".1%") if column.percent else (".2f", ".3f")
    return {
        "data": [
            {
                "type": "heatmap",
                "x": ["clean" if level == 0 else str(level) for level in levels],
                "y": [words(name) for name in shift.corruptions],
                "z": table,
                "zmin": min(seen),
                "zmax": max(seen),
                "colorscale": "Cividis",
                "reversescale": column.lower_is_better,
                "texttemplate": f"%{{z:{shown}}}",
                "textfont": {"size": 11},
                "xgap": 1,
                "ygap": 1,
                "hovertemplate": f"%{{y}}, severity %{{x}}<br>{column.label} %{{z:{hover}}}<extra></extra>",
                "colorbar": {"thickness": 10, "outlinewidth": 0, "tickformat": PERCENT if column.percent else ""},
            }
        ],
        "layout": {
            **layout(height=110 + 24 * max(len(shift.corruptions), 5)),
            "xaxis": {**AXIS, "type": "category", "title": {"text": "severity", "standoff": 6}, "showgrid": False},
            "yaxis": {**AXIS, "type": "category", "autorange": "reversed", "showgrid": False},
        },
    }


def _value(row: ShiftRow, name: str, level: int, key: str) -> float | None:
    spread = row.cells.get(CLEAN if level == 0 else (name, level), {}).get(key)
    return None if spread is None else spread.mean


def _curves(shift: ShiftSummary, column: Measure, name: str) -> Figure:
    names = shift.corruptions if name == EVERY else (name,)
    lines = []
    for index, row in enumerate(shift.rows):
        mark = mark_of(index)
        points: dict[int, list[Spread]] = {}
        for level in (0, *shift.severities):
            cells = [row.cells.get(CLEAN if level == 0 else (each, level), {}) for each in names]
            if found := [cell[column.key] for cell in cells if column.key in cell]:
                points[level] = found
        lines.append({
            "type": "scatter",
            "mode": "lines+markers",
            "name": html.escape(row.row.label),
            "x": list(points),
            "y": [statistics.fmean(each.mean for each in found) for found in points.values()],
            "error_y": _error(points) if name != EVERY else {"visible": False},
            "line": {"color": mark.color, "width": 2.4},
            "marker": {"color": mark.color, "symbol": mark.symbol, "size": 8},
            "hovertemplate": f"%{{fullData.name}}<br>severity %{{x}}: %{{y:{'.1%' if column.percent else '.3f'}}}"
            "<extra></extra>",
        })
    levels = [*([] if column.key == "auroc" else [0]), *shift.severities]
    ticks = {"tickvals": levels, "ticktext": ["clean" if level == 0 else str(level) for level in levels]}
    return {
        "data": lines,
        "layout": {
            **layout(height=320),
            "hovermode": "closest",
            "xaxis": {**AXIS, **ticks, "title": {"text": "severity", "standoff": 6}},
            "yaxis": {**AXIS, **({"tickformat": PERCENT} if column.percent else {}), "rangemode": "normal"},
        },
    }


def _error(points: dict[int, list[Spread]]) -> Figure:
    """Show the standard deviation over seeds, where there are several."""
    return {
        "type": "data",
        "array": [found[0].sd or 0.0 for found in points.values()],
        "visible": any(found[0].sd for found in points.values()),
        "thickness": 1.2,
        "width": 3,
    }
