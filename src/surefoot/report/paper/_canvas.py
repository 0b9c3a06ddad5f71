"""What all figures share: a blank figure, colours, and groups of runs with their curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surefoot.records import RunFolder
from surefoot.report.curves import Curve, read_curves
from surefoot.report.summary import summarise
from surefoot.report.tracks import Track, tracks_of
from surefoot.schema import show_option

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Drawn = Any  # a matplotlib Figure, or None: matplotlib is imported when something is drawn, not before
# Okabe and Ito's colours, which most people can tell apart; then line styles.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
STYLES = ("-", "--", "-.", ":")
SYMBOLS = {"lr": "η", "rho": "ρ", "gamma": "γ"}


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed, and how they are drawn."""

    label: str
    runs: tuple[RunFolder, ...]
    tracks: tuple[Track, ...]
    color: str
    style: str
    curves: dict[str, Curve]


def grouped(runs: Sequence[RunFolder]) -> list[Group]:
    """Group runs by everything but the seed, in the order given."""
    rows = summarise(runs).rows
    names = _short_names([row.runs[0] for row in rows], [row.label for row in rows])
    tracks = [tuple(tracks_of(row.runs)) for row in rows]
    return [
        Group(
            names[index],
            row.runs,
            tracks[index],
            COLORS[index % len(COLORS)],
            STYLES[index // len(COLORS) % len(STYLES)],
            read_curves(tracks[index]),
        )
        for index, row in enumerate(rows)
    ]


def _short_names(some: Sequence[RunFolder], full: Sequence[str]) -> list[str]:
    """Name each group by its method and the options that tell it from others of that method."""
    methods = [run.spec.method for run in some]
    names = []
    for method in methods:
        alike = [other.options for other in methods if other.name == method.name]
        differ = {k: v for k, v in method.options.items() if any(options.get(k) != v for options in alike)}
        names.append(" ".join([method.name, *(f"{SYMBOLS.get(k, k)}={show_option(v)}" for k, v in differ.items())]))
    return [name if names.count(name) == 1 else full[index] for index, name in enumerate(names)]


def log_scale(axis: Any, which: str) -> None:
    """Make an axis logarithmic, with plain numbers, where its values differ enough for that to help."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    values = [v for line in axis.get_lines() for v in (line.get_xdata() if which == "x" else line.get_ydata()) if v > 0]
    if not values or max(values) < 2 * min(values):
        return
    (axis.set_xscale if which == "x" else axis.set_yscale)("log")
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    side = axis.xaxis if which == "x" else axis.yaxis
    side.set_major_formatter(plain)
    side.set_minor_formatter(plain if max(values) < 10 * min(values) else NullFormatter())
    side.set_tick_params(which="minor", labelsize=7)


def canvas(
    n_rows: int, n_columns: int, *, width: float = 3.1, height: float = 2.5, **kwargs: Any
) -> tuple[Figure, Any]:
    """Make a figure and its axes, as a grid that is two-dimensional whatever its size.

    Args:
        n_rows: Rows of axes.
        n_columns: Columns.
        width: Of one, in inches.
        height: Likewise.
        **kwargs: For ``Figure.subplots``.

    Returns:
        Figure and axes.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False, **kwargs)
    for axis in axes.flat:
        axis.grid(visible=True, color="#DDDDDD", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.tick_params(labelsize=8)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    return figure, axes


def curve(axis: Axes, group: Group, key: str, *, scale: float = 1.0, **kwargs: Any) -> bool:
    """Draw a tracked quantity over epochs: its mean over seeds and their range; say whether it was recorded."""
    found = group.curves.get(key)
    if found is None:
        return False
    style = {"color": group.color, "linestyle": group.style, "linewidth": 1.3, "label": group.label, **kwargs}
    axis.plot(found.epochs, [scale * value for value in found.mean], **style)
    if found.n_runs > 1:
        low, high = ([scale * value for value in ends] for ends in (found.low, found.high))
        axis.fill_between(found.epochs, low, high, color=style["color"], alpha=0.15, linewidth=0)
    return True


def labels(axis: Axes, x: str, y: str, title: str = "") -> None:
    """Name both axes."""
    axis.set_xlabel(x, fontsize=9)
    axis.set_ylabel(y, fontsize=9)
    if title:
        axis.set_title(title, fontsize=9)


def legend(figure: Figure, axis: Axes, *, columns: int = 4) -> None:
    """Put one key below all axes."""
    handles, names = axis.get_legend_handles_labels()
    if handles:
        figure.legend(
            handles, names, loc="outside lower center", ncols=min(columns, len(names)), fontsize=8, frameon=False
        )
