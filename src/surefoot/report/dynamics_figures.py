"""Figures about curvature, margins and certificates along training."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from surefoot.report.curves import Curve
from surefoot.report.figures import AXIS, Figure, Quantity, layout, log_ticks
from surefoot.report.marks import Mark

Named = tuple[str, Mark, Mapping[str, Curve]]

TRAJECTORIES = (
    Quantity("margin_median", "Median margin", percent=False),
    Quantity("margin_q10", "Margin of the lowest tenth", percent=False),
    Quantity("margin_share_negative", "Share of margins ≤ 0", percent=True),
    Quantity("kce", "KCE", percent=True),
)


@dataclass(frozen=True)
class Phase:
    """Sharpness and test ECE of one run at the same steps."""

    steps: tuple[int, ...]
    sharpness: tuple[float, ...]
    ece: tuple[float, ...]


@dataclass(frozen=True)
class Waypoints:
    """κ_min at points t of one path, and the bound it is compared with."""

    step: int
    t: tuple[float, ...]
    kappa_min: tuple[float | None, ...]
    bound: float


def sharpness_figure(methods: Sequence[Named]) -> Figure | None:
    """Draw Gauss–Newton and batch sharpness over epochs, with the 2/η line of the learning rate.

    Args:
        methods: Label, mark and curves of each method.

    Returns:
        The figure; None if no method recorded sharpness.
    """
    kinds = (
        ("gn_sharpness/value", "Gauss–Newton", "solid", 2.4),
        ("batch_sharpness/value", "batches", "dot", 1.8),
        ("gn_sharpness/two_over_lr", "2/η", "dash", 1.2),
    )
    return _over_epochs(methods, kinds, needed=("gn_sharpness/value", "batch_sharpness/value"))


def certificate_figure(methods: Sequence[Named]) -> Figure | None:
    """Draw the margin bound of theorem 4.1 beside the ECE it bounds, on the test split.

    Args:
        methods: Label, mark and curves of each method.

    Returns:
        The figure; None if no method recorded certificates.
    """
    kinds = (
        ("test/certificate_ece", "measured", "solid", 2.4),
        ("test/certificate_bound", "certified", "dash", 1.6),
    )
    return _over_epochs(methods, kinds, needed=("test/certificate_bound",))


def _over_epochs(
    methods: Sequence[Named], kinds: Sequence[tuple[str, str, str, float]], needed: Sequence[str]
) -> Figure | None:
    lines, shown = [], []
    for index, (label, mark, curves) in enumerate(methods):
        for key, words, dash, width in kinds:
            curve = curves.get(key)
            if curve is None:
                continue
            if key != "gn_sharpness/two_over_lr":  # it leaves the axis as the learning rate goes to 0
                shown.append(curve)
            lines.append({
                "type": "scatter",
                "mode": "lines",
                "name": f"{html.escape(label)}, {words}",
                "x": list(curve.epochs),
                "y": [value if value > 0 else None for value in curve.mean],
                "line": {"color": mark.color, "width": width, "dash": dash},
                "hovertemplate": "%{fullData.name}<br>epoch %{x:.3~g}: %{y:.3~g}<extra></extra>",
                "meta": {"method": index},
            })
    if not any(key in curves for _, _, curves in methods for key in needed):
        return None
    return {
        "data": lines,
        "layout": {
            **layout(height=320),
            "hovermode": "closest",
            "xaxis": {**AXIS, "title": {"text": "epoch", "standoff": 6}},
            "yaxis": {**AXIS, "type": "log", **log_ticks(shown)},
        },
    }


def phase_figure(methods: Sequence[tuple[str, Mark, Sequence[Phase]]]) -> Figure | None:
    """Draw test ECE over sharpness, one line per run, points coloured by step.

    Args:
        methods: Label, mark and series of each method.

    Returns:
        The figure; None if no run recorded both.
    """
    last = max((phase.steps[-1] for *_, series in methods for phase in series if phase.steps), default=0)
    lines: list[Figure] = []
    for index, (label, mark, series) in enumerate(methods):
        for phase in series:
            marker = {
                "symbol": mark.symbol,
                "size": 8,
                "color": list(phase.steps),
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
                "x": list(phase.sharpness),
                "y": list(phase.ece),
                "line": {"color": f"{mark.color}/0.4", "width": 1},
                "marker": marker,
                "customdata": list(phase.steps),
                "hovertemplate": "%{fullData.name}, step %{customdata}<br>"
                "sharpness %{x:.3~g}<br>ECE %{y:.1%}<extra></extra>",
                "meta": {"method": index},
            })
    if not lines:
        return None
    return {
        "data": lines,
        "layout": {
            **layout(height=360),
            "hovermode": "closest",
            "xaxis": {**AXIS, "type": "log", "title": {"text": "Gauss–Newton sharpness", "standoff": 6}},
            "yaxis": {**AXIS, "tickformat": ".2~%", "title": {"text": "test ECE", "standoff": 6}},
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
            line = {"type": "scatter", "mode": "lines", "x": list(moment.t), "meta": {"method": index}}
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
