"""Figures of an audit: classes, slices, and the risk of answering the surest only."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.report.figures import AXIS, PERCENT, Figure, layout, whiskers
from surefoot.report.marks import Mark

Json = Mapping[str, Any]
MOST_CLASSES = 20
NOT_OFF = ("within chance", "too few to tell")


def class_figure(classes: Sequence[Json], mark: Mark) -> Figure:
    """Draw the calibration error of the worst classes, the worst on top.

    Args:
        classes: From the worst to the best.
        mark: Colour of the model.

    Returns:
        The figure.
    """
    shown = list(reversed(classes[:MOST_CLASSES]))
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": short_names([each["name"] for each in shown]),
        "x": [each["ece"] for each in shown],
        "customdata": [[each["count"], each["gap"]] for each in shown],
        "marker": {"color": f"{mark.color}/0.62", "line": {"color": "--card", "width": 1}},
        "hovertemplate": "%{y}: ECE %{x:.2%}<br>predicted less true share %{customdata[1]:+.2%}<br>"
        "n = %{customdata[0]:,}<extra></extra>",
    }
    return {
        "data": [bars],
        "layout": {
            **layout(height=max(160, 60 + 22 * len(shown))),
            "hovermode": "closest",
            "dragmode": False,
            "xaxis": {
                **AXIS,
                "tickformat": PERCENT,
                "rangemode": "tozero",
                "nticks": 6,
                "title": {"text": "ECE of the class's probability", "standoff": 6},
                "fixedrange": True,
            },
            "yaxis": {**AXIS, "type": "category", "fixedrange": True, "dtick": 1},
        },
    }


def slice_figure(slices: Sequence[Json], mark: Mark) -> Figure:
    """Draw confidence less accuracy of each slice, or mean risk less event rate, with its interval.

    Args:
        slices: Of one column.
        mark: Colour of the model.

    Returns:
        The figure.
    """
    shown = list(reversed(slices))
    is_risk = bool(shown[0].get("risk"))
    gaps = [each["gap"] for each in shown]
    points = {
        "type": "scatter",
        "mode": "markers",
        "y": short_names([each["value"] for each in shown], most=26),
        "x": [gap["estimate"] for gap in gaps],
        "error_x": whiskers(*([gap[key] for gap in gaps] for key in ("estimate", "low", "high"))),
        "customdata": [[each["verdict"]["n"], each["finding"]] for each in shown],
        "marker": {"color": mark.color, "size": 9, "symbol": [_symbol(each, mark) for each in shown]},
        "hovertemplate": "%{y}: %{x:+.1%}<br>%{customdata[1]}<br>n = %{customdata[0]:,}<extra></extra>",
    }
    return {
        "data": [points],
        "layout": {
            **layout(height=max(170, 70 + 26 * len(shown))),
            "hovermode": "closest",
            "dragmode": False,
            "xaxis": {
                **AXIS,
                "tickformat": f"+{PERCENT}",
                "rangemode": "tozero",  # which side of zero they lie on is what the caption speaks of
                "nticks": 6,
                "zeroline": True,
                "zerolinecolor": "--ink",
                "title": {"text": "mean risk − event rate" if is_risk else "confidence − accuracy", "standoff": 6},
                "fixedrange": True,
            },
            "yaxis": {
                **AXIS,
                "type": "category",
                "range": [-0.6, len(shown) - 0.4],
                "fixedrange": True,
                "dtick": 1,
            },
        },
    }


def risk_figure(curves: Sequence[tuple[str, Mark, Sequence[tuple[float, float]]]]) -> Figure:
    """Draw the error rate among the surest predictions over their share of all.

    Args:
        curves: Name, mark and points of each model.

    Returns:
        The figure.
    """
    lines = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": html.escape(name),
            "x": [share for share, _ in points],
            "y": [risk for _, risk in points],
            "line": {"color": mark.color, "width": 2.4},
            "marker": {"color": mark.color, "symbol": mark.symbol, "size": 8, "maxdisplayed": 6},
            "hovertemplate": "the surest %{x:.0%}: %{y:.1%} wrong<extra>%{fullData.name}</extra>",
        }
        for name, mark, points in curves
    ]
    return {
        "data": lines,
        "layout": {
            **layout(height=320),
            "hovermode": "closest",
            "dragmode": False,
            "xaxis": {
                **AXIS,
                "range": [0, 1],
                "tickformat": ".0%",
                "title": {"text": "share answered, the surest first", "standoff": 6},
                "fixedrange": True,
            },
            "yaxis": {
                **AXIS,
                "tickformat": PERCENT,
                "rangemode": "tozero",
                "title": {"text": "wrong", "standoff": 6},
                "fixedrange": True,
            },
        },
    }


def _symbol(each: Json, mark: Mark) -> str:
    """Fill what is off, and leave the others open."""
    return mark.symbol if each["finding"] not in NOT_OFF else f"{mark.symbol}-open"


def short_names(names: Sequence[str], most: int = 18) -> list[str]:
    """Write names from a file beside a figure: a long one leaves room for it, and tags in it are no markup.

    Args:
        names: As they are.
        most: How many letters to show.

    Returns:
        As many, all different where the names are.

    Example:
        >>> short_names(["<b>", "abcdef", "abcxyz"], most=4)
        ['&lt;b&gt;', 'abc… (2)', 'abc… (3)']
    """
    short = [name if len(name) <= most else f"{name[: most - 1]}…" for name in names]
    told = [f"{each} ({n})" if short.count(each) > 1 else each for n, each in enumerate(short, 1)]
    return [html.escape(each) for each in told]
