"""Smallest curvature at both ends of SAM's climb and between them, and λ with its lower bound (CSAM paper, fig. 2)."""

from __future__ import annotations

from surefoot.records import RunFolder
from surefoot.registry import FIGURES
from surefoot.report.dynamics import read_path
from surefoot.report.paper._canvas import COLORS, Drawn, canvas, curve, grouped, labels, log_scale


@FIGURES.register("kappa", is_along_training=True)
def kappa(runs: list[RunFolder]) -> Drawn:
    """κ_min over training and along the climb, λ and λ0 (CSAM paper, fig. 2); from path and step_facts."""
    shown = [group for group in grouped(runs) if "path/bound" in group.curves]
    if not shown:
        return None
    figure, axes = canvas(len(shown), 3, width=3.4)
    for row, group in enumerate(shown):
        ends, way, weight = axes[row]
        for color, key, name in (
            (COLORS[0], "path/kappa_min@0", "κ_min at θ"),
            (COLORS[1], "path/kappa_min@1", "κ_min at θ̃"),
            (COLORS[6], "path/bound", "−‖∇L‖/ρ"),
        ):
            curve(ends, group, key, color=color, label=name)
        labels(ends, "epoch", "curvature", group.label)
        ends.legend(fontsize=7, frameon=False)
        for color, point in zip(COLORS, read_path(group.tracks), strict=False):
            way.plot(point.t, point.kappa_min, "o-", color=color, markersize=3, label=f"step {point.step}")
            way.axhline(point.bound, color=color, linestyle=":", linewidth=1)
        labels(way, "t from θ to θ̃", "κ_min (dotted: bound)")
        way.legend(fontsize=7, frameon=False)
        for color, key, name in ((COLORS[0], "step/lam", "λ"), (COLORS[1], "step/lam0", "λ0")):
            curve(weight, group, key, color=color, label=name)
        log_scale(weight, "y")
        labels(weight, "epoch", "λ")
        weight.legend(fontsize=7, frameon=False)
    return figure
