"""Metrics over ρ or γ, and over both (CSAM paper, fig. S5–S6 and table S4)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from surefoot.evaluate import measures_of
from surefoot.records import RunFolder
from surefoot.registry import FIGURES
from surefoot.report.paper._canvas import COLORS, SYMBOLS, Drawn, canvas, labels
from surefoot.report.quantities import QUANTITIES
from surefoot.statistics import spread

_PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
METRICS = tuple(QUANTITIES[key] for key in ("accuracy", "ece", "true_class_entropy"))


@FIGURES.register("sweep", measures=tuple(metric.key for metric in METRICS))
def sweep(runs: list[RunFolder], *, over: str = "rho", by: str | None = None) -> Drawn:
    """Accuracy, ECE and entropy over an option such as rho or gamma, one line per value of another (fig. S5–S6)."""
    lines = _lines(runs, over, by, [metric.key for metric in METRICS])
    shown = [metric for metric in METRICS if any(metric.key in at for line in lines.values() for at in line.values())]
    if not lines or not shown:
        return None
    figure, axes = canvas(1, len(shown), width=3.2, height=2.7)
    for axis, metric in zip(axes[0], shown, strict=True):
        for color, (value, line) in zip(COLORS, sorted(lines.items(), key=lambda item: str(item[0])), strict=False):
            xs = sorted(x for x in line if metric.key in line[x])
            points = [spread(line[x][metric.key]) for x in xs]
            axis.errorbar(
                xs,
                [metric.scaled(point.mean) for point in points],
                [metric.scaled(point.sd or 0.0) for point in points],
                fmt="o-",
                color=color,
                markersize=3,
                capsize=2,
                label=f"{SYMBOLS.get(by, by)} = {value}" if by else value,
            )
        labels(axis, SYMBOLS.get(over, over), f"{metric.heading}, test")
    if len(lines) > 1:
        axes[0][0].legend(fontsize=7, frameon=False)
    return figure


def _lines(
    runs: list[RunFolder], over: str, by: str | None, keys: list[str]
) -> dict[Any, dict[float, dict[str, list[float]]]]:
    found: dict[Any, dict[float, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for run in runs:
        options = run.spec.method.options
        x = options.get(over)
        if not isinstance(x, int | float) or (by is not None and by not in options):
            continue
        at = found[options[by] if by else run.spec.method.name][float(x)]
        for key, record in measures_of(run, keys).items():
            if record["value"] is not None:
                at[key].append(record["value"])
    return found


@FIGURES.register("heat_map")
def heat_map(runs: list[RunFolder], *, x: str = "gamma", y: str = "rho", metric: str = "ece") -> Drawn:
    """A metric over two options at once, as numbers on colours (table S4 as a picture)."""
    lines = _lines(runs, x, y, [metric])
    xs, ys = sorted({at for line in lines.values() for at in line}), sorted(lines)
    if not xs or not ys:
        return None
    values = [[spread(lines[row][at][metric]).mean for at in xs] for row in ys]
    figure, axes = canvas(1, 1, width=1.5 + 0.8 * len(xs), height=1.3 + 0.5 * len(ys))
    axis = axes[0][0]
    axis.grid(visible=False)
    shown = axis.imshow([[100 * value for value in row] for row in values], cmap="viridis_r", aspect="auto")
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            axis.text(column, row, f"{100 * value:.2f}", ha="center", va="center", fontsize=8, bbox=_PAPER)
    axis.set_xticks(range(len(xs)), [f"{at:g}" for at in xs])
    axis.set_yticks(range(len(ys)), [f"{at:g}" for at in ys])
    labels(axis, SYMBOLS.get(x, x), SYMBOLS.get(y, y))
    figure.colorbar(shown, ax=axis, label=f"{metric.upper()} %, test")
    return figure
