"""Sharpness along training beside the limit that the learning rate sets.

The axis is that of what was measured. The limit grows without bound as a schedule takes the learning rate to 0; where
it leaves the axis, a word says so.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from surefoot.report.curves import Curve
from surefoot.report.figures import AXIS, Figure, layout, log_ticks
from surefoot.report.marks import Mark
from surefoot.report.numbers import show_count

Named = tuple[str, Mark, Mapping[str, Curve]]

_LARGEST = "the largest Gauss–Newton eigenvalue on"
KINDS = (  # key, name of the line, its dash and width, and what it is
    ("gn_sharpness/value", "Gauss–Newton", "solid", 2.4, f"{_LARGEST} a probe of the training split (solid)"),
    (
        *("sharpness_on_test/value", "Gauss–Newton on test examples", "dashdot", 1.6),
        f"{_LARGEST} test examples (dash and dot)",
    ),
    ("batch_sharpness/value", "batches", "dot", 1.8, "mean sharpness of batches along their own gradients (dotted)"),
)
NEAR = 4.0  # a limit at most so many times as high as all that was measured belongs to the picture
LINE = 14  # pixels between words about limits


def sharpness_figure(methods: Sequence[Named]) -> Figure | None:
    """Draw Gauss–Newton and batch sharpness over epochs, with the limit of the learning rate.

    Args:
        methods: Label, mark and curves of each method.

    Returns:
        The figure; None if no method recorded sharpness.
    """
    shown = [curves[key] for _, _, curves in methods for key, *_ in KINDS if key in curves]
    if not any(value > 0 for curve in shown for value in curve.high):
        return None
    limits = [limit_of(curves) for _, _, curves in methods]
    bottom, top = axis_range(shown, [limit[0] for limit in limits if limit])
    lines: list[Figure] = []
    for index, ((label, mark, curves), limit) in enumerate(zip(methods, limits, strict=True)):
        drawn = [(curves[key], words, dash, width) for key, words, dash, width, _ in KINDS if key in curves]
        drawn += [(*limit, "dash", 1.2)] if limit else []
        lines += [
            {
                "type": "scatter",
                "mode": "lines" if limit and curve is limit[0] else "lines+markers",
                "name": f"{html.escape(label)}, {words}",
                "x": list(curve.epochs),
                "y": [value if value > 0 else None for value in curve.mean],
                "line": {"color": mark.color, "width": width, "dash": dash},
                "marker": {"color": mark.color, "symbol": mark.symbol, "size": 7, "maxdisplayed": 6},
                "hovertemplate": "%{fullData.name}<br>epoch %{x:.3~g}: %{y:,.3~r}<extra></extra>",
                "meta": {"method": index},
            }
            for curve, words, dash, width in drawn
        ]
    words = _leavings([limit for limit in limits if limit], 10**top)
    look, last = layout(height=320), max(curve.epochs[-1] for curve in shown)  # words would stretch an axis of its own
    return {
        "data": lines,
        "layout": {
            **look,
            "margin": {**look["margin"], "t": look["margin"]["t"] + LINE * len(words)},
            "hovermode": "closest",
            "xaxis": {**AXIS, "range": [-0.02 * last, 1.02 * last], "title": {"text": "epoch", "standoff": 6}},
            "yaxis": {**AXIS, "type": "log", "range": [bottom, top], **log_ticks([10**bottom, 10**top])},
            "annotations": words,
        },
    }


def limit_of(curves: Mapping[str, Curve]) -> tuple[Curve, str] | None:
    """Return the curvature beyond which a step overshoots, and how it follows from learning rate and momentum.

    Args:
        curves: Of one method.

    Returns:
        (2 + 2β)/η, or 2/η where there is no momentum or older records do not say; None where none was recorded.
    """
    plain, limit = curves.get("gn_sharpness/two_over_lr"), curves.get("gn_sharpness/threshold")
    if limit is None or (plain is not None and plain.mean == limit.mean):
        return None if plain is None else (plain, "2/η")
    return limit, "(2 + 2β)/η"


def axis_range(measured: Sequence[Curve], limits: Sequence[Curve]) -> tuple[float, float]:
    """Return both ends of the axis as powers of ten: what was measured, and a limit that comes near to it.

    Args:
        measured: Curves that must be seen whole.
        limits: Lines that may leave the axis.

    Returns:
        Lower and upper end.
    """
    seen = [value for curve in measured for value in (*curve.low, *curve.high) if value > 0] or [1.0]
    near = [value for curve in limits if (value := min(curve.mean)) <= NEAR * max(seen)]
    low, high = math.log10(min(seen)), math.log10(max([*seen, *near]))
    margin = max(0.05 * (high - low), 0.02)
    return low - margin, high + margin


def _leavings(limits: Sequence[tuple[Curve, str]], top: float) -> list[Figure]:
    """Say above the axis where each limit leaves it, and how far it goes; limits that several methods share, once."""
    found: list[Figure] = []
    for curve, words in dict.fromkeys(limits):
        above = [index for index, value in enumerate(curve.mean) if value > top]
        if not above:
            continue
        at = curve.epochs[above[0]]
        share = at / (curve.epochs[-1] or 1)
        found.append({
            "x": at,
            "xref": "x",
            "y": 1,
            "yref": "paper",
            "xanchor": "right" if share > 0.65 else "left" if share < 0.35 else "center",
            "yanchor": "bottom",
            "yshift": LINE * len(found),
            "showarrow": False,
            "text": f"{words} leaves ↑ up to {show_count(float(f'{max(curve.mean):.2g}'))}",
            "font": {"size": 11, "color": "--soft"},
        })
    return found
