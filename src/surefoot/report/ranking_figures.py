"""Models beside each other: points with their intervals, and what the section of the ranking shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.report.audit_figures import short_names
from surefoot.report.figures import AXIS, PERCENT, Figure, layout, whiskers
from surefoot.report.marks import mark_of
from surefoot.report.measures import Measure
from surefoot.report.ranking import ACCURACY, ECE, NLL, beside, matrix, percent_of, rank_cells, value_of
from surefoot.report.risk import of_two

Json = Mapping[str, Any]


def ranking_context(audits: Sequence[Json], ranking: Json) -> dict[str, Any]:
    """Gather what the section of the ranking shows.

    Args:
        audits: As ``Audit.to_json`` writes them.
        ranking: As ``Ranking.to_json`` writes it.

    Returns:
        Rows of the table, and a matrix of differences for each measure.
    """
    marks = [mark_of(place) for place in range(len(audits))]
    heads = [NLL, *beside(audits)]
    compared = (NLL, ACCURACY) if of_two(audits) else (NLL, ECE, ACCURACY)  # of two classes confidence says little
    return {
        "heads": heads,
        "rows": [{**row, "mark": marks[row["place"]]} for row in rank_cells(audits, ranking)],
        "dots": [(each.key, each.title, each.better or "nearer to zero is better") for each in heads],
        "matrices": [(each.key, each.title, matrix(ranking, each)) for each in compared],
        "names": [ranking["names"][place] for place in ranking["order"]],
        "marks": [marks[place] for place in ranking["order"]],
        "level": percent_of(ranking["level"]),
        "pairs": len(ranking["pairs"]),
        "sampled": ranking["sampled"],
    }


def ranking_figures(audits: Sequence[Json], ranking: Json) -> list[dict[str, Any]]:
    """Draw a figure per measure: a point with its interval for every model, the best by NLL on top.

    Args:
        audits: As ``Audit.to_json`` writes them.
        ranking: As ``Ranking.to_json`` writes it.

    Returns:
        The figures with their places.
    """
    found = []
    for measure in (NLL, *beside(audits)):
        values = ranking["nll"] if measure is NLL else [value_of(audit, measure) for audit in audits]
        found.append({"id": f"dots-{measure.key}", "views": {"": dot_figure(measure, values, ranking)}})
    return found


def dot_figure(measure: Measure, values: Sequence[Json], ranking: Json) -> Figure:
    """Draw the values of one measure.

    Args:
        measure: What to draw.
        values: Intervals, one per model; what is infinite is left out.
        ranking: Says in which order.

    Returns:
        The figure.
    """
    names = short_names([ranking["names"][place] for place in ranking["order"]], most=22)
    shown = list(zip(names, ranking["order"], strict=True))
    data = [
        _dot(measure, name, values[place], place)
        for name, place in reversed(shown)
        if values[place]["estimate"] is not None
    ]
    ticks = {"tickformat": PERCENT} if measure.percent else {}
    has_zero = measure.lower_is_better is None
    return {
        "data": data,
        "layout": {
            **layout(height=90 + 26 * len(names)),
            "hovermode": "closest",
            "dragmode": False,
            "xaxis": {
                **AXIS,
                **ticks,
                "nticks": 6,
                "zeroline": has_zero,
                "zerolinecolor": "--ink",
                "title": {"text": measure.label, "standoff": 6},
                "fixedrange": True,
            },
            "yaxis": {
                **AXIS,
                "type": "category",
                "categoryorder": "array",
                "categoryarray": list(reversed(names)),
                "range": [-0.6, len(names) - 0.4],
                "fixedrange": True,
                "dtick": 1,
            },
        },
    }


def _dot(measure: Measure, name: str, value: Json, place: int) -> Figure:
    at, low, high = (value[key] for key in ("estimate", "low", "high"))
    mark, form = mark_of(place), ".2%" if measure.percent else ".4f"
    known = low is not None and high is not None
    reach = whiskers([at], [low if known else at], [high if known else at], color=mark.color, width=5)
    ends = f"<br>{low:{form}} to {high:{form}}" if known else "<br>no interval"
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [at],
        "y": [name],
        "error_x": {**reach, "thickness": 2},
        "marker": {"color": mark.color, "size": 10, "symbol": mark.symbol},
        "hovertemplate": f"%{{y}}: %{{x:{form}}}{ends}<extra></extra>",
    }
