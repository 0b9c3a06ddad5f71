"""The figure for the probability of one class: how often it happens over how likely it was said to be."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.report.bins import Bins
from surefoot.report.figures import AXIS, Figure, expected, layout
from surefoot.report.marks import Mark


def risk_end(bins: Bins) -> float:
    """Return where axes end that show all of a diagram: risks of rare events would vanish in a corner of the whole."""
    shown = [value for part in (bins.confidence, bins.accuracy, bins.high or ()) for value in part if value is not None]
    return min(1.0, 1.08 * max([*shown, 0.01]))


def risk_reliability_figure(bins: Bins, mark: Mark, *, end: float | None = None) -> Figure:
    """Draw the event rate over the mean risk of each bin, with consistency bars on the diagonal.

    Args:
        bins: With about as many examples in each.
        mark: Colour of the model.
        end: Of both axes, where several diagrams share them; else where the largest risk or rate is.

    Returns:
        The figure.
    """
    filled = [b for b, n in enumerate(bins.count) if n]
    risk = [bins.confidence[b] or 0.0 for b in filled]
    rate = [bins.accuracy[b] or 0.0 for b in filled]
    bars = _bars(bins, filled, risk)
    end = risk_end(bins) if end is None else end
    diagonal = {
        "type": "scatter",
        "mode": "lines",
        "x": [0, end],
        "y": [0, end],
        "line": {"color": "--ink", "width": 1.2, "dash": "dash"},
        "hoverinfo": "skip",
    }
    points = {
        "type": "scatter",
        "mode": "markers+lines",
        "x": risk,
        "y": rate,
        "line": {"color": mark.color, "width": 1.4},
        "marker": {"color": mark.color, "size": 9, "symbol": mark.symbol},
        "customdata": [[bins.count[b]] for b in filled],
        "hovertemplate": "mean risk %{x:.2%}<br>happened %{y:.2%}<br>n = %{customdata[0]:,}<extra></extra>",
    }
    axis = {**AXIS, "range": [0, end], "tickformat": ".1~%", "nticks": 6, "fixedrange": True}
    return {
        "data": [diagonal, bars, points],
        "layout": {
            **layout(height=380),
            "hovermode": "closest",
            "dragmode": False,
            "xaxis": {**axis, "title": {"text": "mean risk", "standoff": 6}},
            "yaxis": {**axis, "title": {"text": "happened", "standoff": 6}},
        },
    }


def _bars(bins: Bins, filled: Sequence[int], risk: Sequence[float]) -> Figure:
    """Where the event rate of each bin lies by chance alone if its risk is right."""
    low = [min(at, (bins.low or bins.confidence)[b] or 0.0) for at, b in zip(risk, filled, strict=True)]
    high = [max(at, (bins.high or bins.confidence)[b] or 0.0) for at, b in zip(risk, filled, strict=True)]
    return expected(risk, risk, low, high)
