"""Figures about curvature, margins and certificates along training."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surefoot.report.curves import Curve
from surefoot.report.figures import AXIS, PERCENT, Figure, layout, log_ticks
from surefoot.report.marks import Mark
from surefoot.report.pairing import PairedSeries
from surefoot.report.quantities import QUANTITIES

Named = tuple[str, Mark, Mapping[str, Curve]]

_ECE = QUANTITIES["ece"].label


@dataclass(frozen=True)
class Waypoints:
    """κ_min at points t of one path, and the bound it is compared with."""

    step: int
    t: tuple[float, ...]
    kappa_min: tuple[float | None, ...]
    bound: float


def certificate_figure(methods: Sequence[Named]) -> Figure | None:
    """Draw the margin bound of theorem 4.1 beside the ECE it bounds, on the test split, over epochs.

    Args:
        methods: Label, mark and curves of each method.

    Returns:
        The figure; None if no method recorded certificates.
    """
    kinds = (
        ("test/certificate_ece", "measured", "solid", 2.4),
        ("test/certificate_bound", "certified", "dash", 1.6),
    )
    if not any("test/certificate_bound" in curves for _, _, curves in methods):
        return None
    lines: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": f"{html.escape(label)}, {words}",
            "x": list(curve.epochs),
            "y": [value if value > 0 else None for value in curve.mean],
            "line": {"color": mark.color, "width": width, "dash": dash},
            "marker": {"color": mark.color, "symbol": mark.symbol, "size": 6, "maxdisplayed": 6},
            "hovertemplate": "%{fullData.name}<br>epoch %{x:.3~g}: %{y:.2~%}<extra></extra>",
            "meta": {"method": index},
        }
        for index, (label, mark, curves) in enumerate(methods)
        for key, words, dash, width in kinds
        if (curve := curves.get(key)) is not None
    ]
    return {
        "data": lines,
        "layout": {
            **layout(height=320),
            "hovermode": "closest",
            "xaxis": {**AXIS, "title": {"text": "epoch", "standoff": 6}},
            "yaxis": {**AXIS, "type": "log", **log_ticks(_values(lines), percent=True)},
        },
    }


def _values(lines: Sequence[Figure]) -> list[float]:
    return [value for line in lines for value in line["y"] if value is not None]


def phase_figure(
    methods: Sequence[tuple[str, Mark, Sequence[PairedSeries]]], *, x_title: str, y_title: str
) -> Figure | None:
    """Draw ECE over sharpness, one line per run, points coloured by step.

    Args:
        methods: Label, mark and series of each method.
        x_title: Says whose sharpness.
        y_title: Says whose ECE.

    Returns:
        The figure; None if no run recorded both.
    """
    last = max((moments.steps[-1] for *_, series in methods for moments in series if moments.steps), default=0)
    lines: list[Figure] = []
    for index, (label, mark, series) in enumerate(methods):
        for moments in series:
            marker = {
                "symbol": mark.symbol,
                "size": 6,
                "color": list(moments.steps),
                "colorscale": "Viridis",
                "cmin": 0,
                "cmax": last,
                "showscale": not lines,
                "colorbar": {"title": {"text": "step"}, "thickness": 10, "outlinewidth": 0},
                "line": {"color": mark.color, "width": 1},
            }
            lines.append({
                "type": "scatter",
                "mode": "lines+markers",
                "name": html.escape(label),
                "x": list(moments.x),
                "y": list(moments.y),
                "line": {"color": f"{mark.color}/0.4", "width": 1},
                "marker": marker,
                "customdata": list(moments.steps),
                "hovertemplate": "%{fullData.name}, step %{customdata:,}<br>"
                f"sharpness %{{x:.3~g}}<br>{_ECE} %{{y:.1%}}<extra></extra>",
                "meta": {"method": index},
            })
    if not lines:
        return None
    seen = [value for line in lines for value in line["x"]]
    return {
        "data": lines,
        "layout": {
            **layout(height=360),
            "hovermode": "closest",
            "xaxis": {**AXIS, "type": "log", **log_ticks(seen), "title": {"text": x_title, "standoff": 6}},
            "yaxis": {**AXIS, "tickformat": PERCENT, "title": {"text": y_title, "standoff": 6}},
        },
    }


def path_figure(methods: Sequence[tuple[str, Mark, Sequence[Waypoints]]]) -> Figure | None:
    """Draw κ_min from the weights (t = 0) to the perturbed ones (t = 1), with the bound −‖∇L‖/ρ dashed.

    Args:
        methods: Label, mark and moments of each method; later moments are drawn wider.

    Returns:
        The figure; None if no method recorded a path.
    """
    lines: list[Figure] = []
    for index, (label, mark, moments) in enumerate(methods):
        for order, moment in enumerate(moments):
            line = {
                "type": "scatter",
                "mode": "lines+markers",
                "x": list(moment.t),
                "marker": {"color": mark.color, "symbol": mark.symbol, "size": 7},
                "meta": {"method": index},
            }
            name = f"{html.escape(label)}, step {moment.step}"
            hover = "%{fullData.name}<br>t = %{x}: %{y:.3~g}<extra></extra>"
            width = 1 + order
            lines += [
                {
                    **line,
                    "name": name,
                    "y": list(moment.kappa_min),
                    "line": {"color": mark.color, "width": width},
                    "hovertemplate": hover,
                },
                {
                    **line,
                    "name": f"{name}, bound",
                    "y": [moment.bound] * len(moment.t),
                    "line": {"color": f"{mark.color}/0.6", "width": width, "dash": "dash"},
                    "hovertemplate": hover,
                },
            ]
    if not lines:
        return None
    return {
        "data": lines,
        "layout": {
            **layout(height=320),
            "hovermode": "closest",
            "xaxis": {**AXIS, "title": {"text": "t", "standoff": 6}},
            "yaxis": {**AXIS, "title": {"text": "κ_min", "standoff": 6}},
        },
    }
