"""Training dynamics and phase plots (*Too Sharp, Too Sure*, fig. 1–2 and A1–A17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surefoot.records import RunFolder
from surefoot.registry import FIGURES
from surefoot.report.paper._canvas import Drawn, canvas, curve, grouped, labels, legend, log_scale
from surefoot.report.quantities import QUANTITIES
from surefoot.report.sharpness_figure import axis_range, limit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from surefoot.report.paper._canvas import Group
    from surefoot.report.tracks import Track

SHOWN = tuple(QUANTITIES[key] for key in ("loss", "accuracy", "ece", "margin_median"))


@FIGURES.register("dynamics", is_along_training=True)
def dynamics(runs: list[RunFolder]) -> Drawn:
    """Loss, accuracy, ECE, margin, sharpness and its limit (2 + 2β)/η, train left and test right (fig. 1–2, A2–A17)."""
    groups = grouped(runs)
    shown = [each for each in SHOWN if any(f"train/{each.key}" in group.curves for group in groups)]
    if not shown:
        return None
    sharp = any("gn_sharpness/value" in group.curves for group in groups)
    figure, axes = canvas(len(shown) + sharp, 2, width=3.8, height=1.9, sharex=True)
    for row, each in enumerate(shown):
        for column, split in enumerate(("train", "test")):
            axis = axes[row][column]
            for group in groups:
                curve(axis, group, f"{split}/{each.key}", scale=each.scaled(1))
            if each.log:
                log_scale(axis, "y")
            labels(axis, "epoch" if row == len(axes) - 1 else "", each.heading, split if row == 0 else "")
    if sharp:
        _sharpness(axes[-1][0], groups)
        _batch_sharpness(axes[-1][1], groups)
    legend(figure, axes[0][0], columns=3)
    return figure


def _sharpness(axis: Axes, groups: list[Group]) -> None:
    limits = [limit for group in groups if (limit := limit_of(group.curves))]
    for group in groups:
        curve(axis, group, "gn_sharpness/value")
    log_scale(axis, "y")
    measured = [group.curves["gn_sharpness/value"] for group in groups if "gn_sharpness/value" in group.curves]
    for group in groups:
        if found := limit_of(group.curves):
            axis.plot(found[0].epochs, found[0].mean, color=group.color, linestyle=":", linewidth=1, label="_limit")
    axis.set_ylim(*(10**end for end in axis_range(measured, [limit for limit, _ in limits])))
    names = " or ".join(dict.fromkeys(words for _, words in limits))
    labels(axis, "epoch", f"GN sharpness (dotted: {names})" if names else "GN sharpness")


def _batch_sharpness(axis: Axes, groups: list[Group]) -> None:
    recorded = [curve(axis, group, "batch_sharpness/value") for group in groups]
    if not any(recorded):
        axis.set_visible(False)
        return
    log_scale(axis, "y")
    labels(axis, "epoch", "batch sharpness")


@FIGURES.register("phase", is_along_training=True)
def phase(runs: list[RunFolder], *, split: str = "train") -> Drawn:
    """ECE over sharpness on training examples, at the same steps, a line per run from circle to cross (fig. A1, A8)."""
    groups = grouped(runs)
    families = list(dict.fromkeys(group.runs[0].spec.method.name for group in groups))
    shown = [group for group in groups if "gn_sharpness/value" in group.curves and f"{split}/ece" in group.curves]
    if not shown:
        return None
    figure, axes = canvas(1, len(families), width=2.9, height=2.8, sharey=True)
    for axis, family in zip(axes[0], families, strict=True):
        for group in (group for group in shown if group.runs[0].spec.method.name == family):
            for track in group.tracks:
                xs, ys = _points(track, f"{split}/ece")
                axis.plot(xs, ys, color=group.color, linewidth=0.9, alpha=0.8)
                axis.plot(xs[:1], ys[:1], "o", color=group.color, markersize=4)
                axis.plot(xs[-1:], ys[-1:], "x", color=group.color, markersize=5)
            axis.plot([], [], color=group.color, label=group.label.removeprefix(family).strip() or family)
        log_scale(axis, "x")
        labels(
            axis, "GN sharpness, train", f"{QUANTITIES['ece'].heading}, {split}" if axis is axes[0][0] else "", family
        )
        axis.legend(fontsize=7, frameon=False)
    return figure


def _points(track: Track, key: str) -> tuple[list[float], list[float]]:
    sharpness, error = track.of("gn_sharpness/value"), track.of(key)
    steps = sorted(sharpness.keys() & error.keys())
    return [sharpness[step] for step in steps], [100 * error[step] for step in steps]
