"""Calibration error as bars, with and without repair, and over training (CSAM paper, fig. 3)."""

from __future__ import annotations

import math

from surefoot.evaluate import value_of
from surefoot.records import RunFolder
from surefoot.registry import FIGURES
from surefoot.report.paper._canvas import COLORS, Drawn, canvas, curve, grouped, labels, legend
from surefoot.report.quantities import QUANTITIES
from surefoot.statistics import spread

REPAIRS: tuple[str | None, ...] = (None, "temperature", "isotonic")
_ECE = QUANTITIES["ece"].heading


@FIGURES.register("ece_bars", measures=("ece", "ece@temperature", "ece@isotonic"))
def ece_bars(runs: list[RunFolder]) -> Drawn:
    """ECE of each method, raw and behind temperature scaling and isotonic regression (CSAM paper, fig. 3a-b)."""
    groups = grouped(runs)
    figure, axes = canvas(1, 1, width=max(3.5, 0.5 + 1.1 * len(groups)), height=3)
    axis = axes[0][0]
    for place, repair in enumerate(REPAIRS):
        values = [[100 * value for run in group.runs for value in _ece(run, repair)] for group in groups]
        if not all(values):
            continue
        bars = [spread(found) for found in values]
        error = [bar.sd or 0.0 for bar in bars]
        at = [index + 0.27 * (place - 1) for index in range(len(groups))]
        axis.bar(at, [bar.mean for bar in bars], 0.25, yerr=error, color=COLORS[place], capsize=2)
        axis.bar([0], [0], color=COLORS[place], label=repair or "nothing done")
    names = [group.label for group in groups]
    fits = len(names) < 5 and max(map(len, names)) < 16
    slanted = {} if fits else {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    axis.set_xticks(range(len(names)), names, fontsize=8, **slanted)
    axis.set_xlim(-0.6, len(names) - 0.4)
    labels(axis, "", f"{_ECE}, test")
    axis.legend(fontsize=8, frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)
    return figure


def _ece(run: RunFolder, repair: str | None) -> list[float]:
    value = value_of(run, f"ece@{repair}" if repair else "ece")
    return [] if value is None else [value]


@FIGURES.register("ece_curves", is_along_training=True)
def ece_curves(runs: list[RunFolder]) -> Drawn:
    """ECE over epochs, raw and at the best temperature where the run recorded it (CSAM paper, fig. 3c-d)."""
    groups = grouped(runs)
    keys = [key for key in ("test/ece", "test/tce") if any(key in group.curves for group in groups)]
    if not keys:
        return None
    figure, axes = canvas(1, len(keys), width=3.6, height=2.8, sharey=True)
    names = {"test/ece": f"{_ECE}, test", "test/tce": f"{_ECE} after temperature, test"}
    for axis, key in zip(axes[0], keys, strict=True):
        for group in groups:
            curve(axis, group, key, scale=100)
        labels(axis, "epoch", names[key])
    top = max((max(g.curves[key].high) for g in groups for key in keys if key in g.curves), default=math.nan)
    axes[0][0].set_ylim(0, 105 * top)
    legend(figure, axes[0][0])
    return figure
