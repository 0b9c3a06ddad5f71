"""Plotly figures as plain dictionaries.

A colour is written ``--name`` or ``--name/alpha`` after a custom property of ``page.css``; the page's script puts
the value for light or dark in its place. Texts that come from users are escaped, for Plotly reads tags in them.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.report.bins import Bins
from surefoot.report.curves import Curve
from surefoot.report.marks import Mark
from surefoot.report.measures import Measure

Figure = dict[str, Any]  # {"data": [...], "layout": {...}}, as Plotly takes it

_FONT = {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 12, "color": "--soft"}
AXIS = {
    "gridcolor": "--line",
    "linecolor": "--line",
    "zeroline": False,
    "showline": True,
    "ticks": "",
    "automargin": True,
}
MANY_DECADES = 5
PERCENT = ".2~%"  # of ticks: as many decimals as tell neighbours apart, and none where they need none


def reliability_figure(bins: Bins, mark: Mark, words: tuple[str, str] = ("confidence", "accuracy")) -> Figure:
    """Draw accuracy over confidence with the gap between them, above a histogram of confidence.

    Args:
        bins: Pooled bins of one method.
        mark: Its colour.
        words: What the two axes show.

    Returns:
        The figure.
    """
    n_bins = len(bins.count)
    filled = [b for b in range(n_bins) if bins.count[b]]
    middle = [(b + 0.5) / n_bins for b in filled]
    accuracy = [bins.accuracy[b] or 0.0 for b in filled]
    confidence = [bins.confidence[b] or 0.0 for b in filled]
    share = [bins.count[b] / bins.total for b in filled]
    bar = {"type": "bar", "x": middle, "width": 1 / n_bins, "hoverinfo": "skip"}
    hover = {
        "hovertemplate": f"{words[0]} %{{customdata[1]:.1%}}<br>{words[1]} %{{customdata[2]:.1%}}<br>"
        "n = %{customdata[0]:,}<extra></extra>",
        "customdata": [[bins.count[b], bins.confidence[b], bins.accuracy[b]] for b in filled],
    }
    solid = {"color": f"{mark.color}/0.62", "line": {"color": "--card", "width": 1}}
    data = [
        {**bar, "y": accuracy, "marker": solid, **hover},
        {**bar, **_gap(accuracy, confidence), "marker": _hatched("--over", "/")},
        {**bar, **_gap(confidence, accuracy), "marker": _hatched("--under", "\\")},
        {
            "type": "scatter",
            "mode": "lines",
            "x": [0, 1],
            "y": [0, 1],
            "line": {"color": "--ink", "width": 1.2, "dash": "dash"},
            "hoverinfo": "skip",
        },
        {**bar, "y": share, "yaxis": "y2", "marker": solid, **hover},
    ]
    if bins.low is not None and bins.high is not None:
        low, high = ([ends[b] or 0.0 for b in filled] for ends in (bins.low, bins.high))
        data.append(expected(middle, confidence, low, high))
    return {"data": data, "layout": _reliability_layout(bins, words)}


def whiskers(
    at: Sequence[float], low: Sequence[float], high: Sequence[float], *, color: str = "--ink", width: int = 4
) -> Figure:
    """Make the error bars of points, from the low to the high end of each interval.

    Args:
        at: Where the points are.
        low: Lower ends.
        high: Upper ends.
        color: Of the bars.
        width: Of the strokes at their ends.
    """
    return {
        "type": "data",
        "symmetric": False,
        "array": [end - point for point, end in zip(at, high, strict=True)],
        "arrayminus": [point - end for point, end in zip(at, low, strict=True)],
        "color": color,
        "thickness": 1.5,
        "width": width,
    }


def expected(x: Sequence[float], y: Sequence[float], low: Sequence[float], high: Sequence[float]) -> Figure:
    """Show what calibrated bins would show, from the low to the high end."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": list(x),
        "y": list(y),
        "marker": {"size": 3, "color": "--ink"},
        "error_y": whiskers(y, low, high),
        "hoverinfo": "skip",
    }


def _gap(low: Sequence[float], high: Sequence[float]) -> Figure:
    """Bars from low up to high where it is higher, and nothing elsewhere."""
    pairs = list(zip(low, high, strict=True))
    return {"base": [a for a, _ in pairs], "y": [max(b - a, 0.0) or None for a, b in pairs]}


def _hatched(color: str, shape: str) -> Figure:
    pattern = {"shape": shape, "size": 6, "solidity": 0.34, "fgcolor": color, "bgcolor": f"{color}/0.16"}
    return {"color": f"{color}/0.16", "pattern": pattern, "line": {"color": color, "width": 1}}


def _reliability_layout(bins: Bins, words: tuple[str, str]) -> Figure:
    percent = {**AXIS, "range": [0, 1], "tickformat": ".0%", "fixedrange": True}
    quarters = [0, 0.25, 0.5, 0.75, 1]
    marked = {"type": "line", "xref": "x", "yref": "y2 domain", "y0": 0, "y1": 1}
    means = ((bins.mean_accuracy, "solid"), (bins.mean_confidence, "dot"))
    fullest = max(bins.count) / bins.total
    end = next(end for end in (0.25, 0.5, 1) if fullest <= end)
    return {
        **layout(height=380),
        "barmode": "overlay",
        "hovermode": "closest",
        "dragmode": False,
        "xaxis": {**percent, "tickvals": quarters, "anchor": "y2", "title": {"text": words[0], "standoff": 6}},
        "yaxis": {**percent, "tickvals": quarters, "domain": [0.3, 1], "title": {"text": words[1], "standoff": 6}},
        "yaxis2": {
            **percent,
            "domain": [0, 0.22],
            "range": [0, end],
            "tickvals": [0, end],
            "title": {"text": "share", "standoff": 6},
        },
        "shapes": [
            {**marked, "x0": x, "x1": x, "line": {"color": "--ink", "width": 1.8, "dash": dash}} for x, dash in means
        ],
    }


def curve_figure(measure: Measure, methods: Sequence[tuple[str, Mark, Mapping[str, Curve]]]) -> Figure | None:
    """Draw one quantity over epochs: train dashed, test solid, the range over seeds as a band.

    Args:
        measure: What to draw.
        methods: Label, mark and curves of each method.

    Returns:
        The figure; None if no method recorded the measure.
    """
    bands, lines, shown = [], [], []
    for index, (label, mark, curves) in enumerate(methods):
        for split in ("train", "test"):
            curve = curves.get(f"{split}/{measure.key}")
            if curve is None:
                continue
            shown.append(curve)
            meta = {"method": index, "split": split}
            if curve.n_runs > 1:
                bands.append({**_band(curve, mark), "meta": meta})
            lines.append({**_line(curve, mark, measure, f"{html.escape(label)}, {split}"), "meta": meta})
    if not shown:
        return None
    y_format: Figure = {"tickformat": PERCENT} if measure.percent else {}
    if measure.log:
        y_format = {"type": "log", **log_ticks([value for curve in shown for value in (*curve.low, *curve.high)])}
    elif (limits := _limits(shown, measure)) is not None:
        y_format["range"] = limits
    return {
        "data": [*bands, *lines],
        "layout": {
            **layout(height=320),
            "hovermode": "closest",
            "xaxis": {**AXIS, "title": {"text": "epoch", "standoff": 6}},
            "yaxis": {**AXIS, **y_format},
        },
    }


def _band(curve: Curve, mark: Mark) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [*curve.epochs, *reversed(curve.epochs)],
        "y": [*curve.low, *reversed(curve.high)],
        "fill": "toself",
        "fillcolor": f"{mark.color}/0.18",
        "line": {"width": 0, "color": mark.color},
        "hoverinfo": "skip",
    }


def _line(curve: Curve, mark: Mark, measure: Measure, name: str) -> Figure:
    is_train = name.endswith("train")
    y_format = ".1%" if measure.percent else ".3~g"
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(curve.epochs),
        "y": list(curve.mean),
        "line": {"color": mark.color, "width": 1.5 if is_train else 2.4, "dash": "dash" if is_train else "solid"},
        "marker": {"color": mark.color, "symbol": mark.symbol, "size": 6 if is_train else 8, "maxdisplayed": 6},
        "hovertemplate": f"%{{fullData.name}}<br>epoch %{{x:.3~g}}: %{{y:{y_format}}}<extra></extra>",
    }


def _limits(curves: Sequence[Curve], measure: Measure) -> list[float] | None:
    """Leave the untrained network out of the axis: it would squeeze everything else into a corner."""
    trained = [
        value
        for curve in curves
        for epoch, *band in zip(curve.epochs, curve.low, curve.high, strict=True)
        for value in band
        if epoch > 0  # under a budget the first look may come late
    ]
    if not trained:
        return None
    low = 0.0 if measure.key == "ece" else min(trained)
    margin = 0.05 * (max(trained) - low) or 0.01
    floor = 0.0 if measure.percent else -math.inf
    return [max(low - margin, floor), max(trained) + margin]


def log_ticks(values: Sequence[float], *, percent: bool = False) -> Figure:
    """Label 1, 2 and 5 of every decade in full, of many decades 1 alone: Plotly would leave the decade out.

    Args:
        values: All that is drawn.
        percent: Write fractions in percent.

    Returns:
        Where the labels stand, and what they say.
    """
    seen = [value for value in values if value > 0] or [1.0]
    decades = range(math.floor(math.log10(min(seen))), math.ceil(math.log10(max(seen))) + 1)
    digits = (1, 2, 5) if len(decades) <= MANY_DECADES else (1,)
    ticks = [digit * 10.0**decade for decade in decades for digit in digits]
    texts = [f"{100 * tick:.4g}%" if percent else f"{tick:,.4g}" for tick in ticks]
    return {"tickvals": ticks, "ticktext": texts}


def layout(height: int) -> Figure:
    """Return what all figures look like."""
    return {
        "height": height,
        "margin": {"l": 8, "r": 20, "t": 26, "b": 8, "pad": 2},
        "font": _FONT,
        "paper_bgcolor": "--card/0",
        "plot_bgcolor": "--card/0",
        "showlegend": False,
        "hoverlabel": {"bgcolor": "--card", "bordercolor": "--line", "font": {"color": "--ink"}, "align": "left"},
    }
