"""Confidence histogram above, reliability diagram below (CSAM paper, fig. 1)."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.records import RunFolder
from surefoot.registry import FIGURES
from surefoot.report.bins import Bins, read_bins
from surefoot.report.paper._canvas import COLORS, Drawn, canvas, grouped, labels

FIRST = COLORS[0]


@FIGURES.register("reliability")
def reliability(runs: list[RunFolder], *, calibrator: str | None = None) -> Drawn:
    """Confidence histogram and reliability diagram of each method on the test split (CSAM paper, fig. 1)."""
    found = [(group, read_bins(group.runs).get(calibrator)) for group in grouped(runs)]
    shown = [(group.label, bins, group.color) for group, bins in found if bins is not None]
    return diagram(shown) if shown else None


def diagram(columns: Sequence[tuple[str, Bins, str]]) -> Drawn:
    """Draw bins side by side, each as a confidence histogram above a reliability diagram.

    Args:
        columns: What each is called, its bins, and its colour; see :data:`FIRST` for one.

    Returns:
        The figure.
    """
    figure, axes = canvas(2, len(columns), width=2.7, height=2.4, sharex=True, sharey="row")
    for column, (label, bins, color) in enumerate(columns):
        n = len(bins.count)
        middle = [(b + 0.5) / n for b in range(n)]
        above, below = axes[0][column], axes[1][column]
        above.bar(middle, [count / bins.total for count in bins.count], 1 / n, color=color, edgecolor="white")
        above.axvline(bins.mean_confidence, color="black", linestyle="--", linewidth=1, label="mean confidence")
        above.axvline(bins.mean_accuracy, color="#D55E00", linewidth=1, label="accuracy")
        filled = [b for b in range(n) if bins.count[b]]
        accuracy = [bins.accuracy[b] or 0.0 for b in filled]
        confidence = [bins.confidence[b] or 0.0 for b in filled]
        places = [middle[b] for b in filled]
        below.bar(places, accuracy, 1 / n, color=color, edgecolor="white", label="accuracy")
        gaps = [high - low for high, low in zip(confidence, accuracy, strict=True)]
        below.bar(
            places, gaps, 1 / n, accuracy, color="none", edgecolor="#B22222", hatch="///", label="gap", linewidth=0.5
        )
        below.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1)
        weighted = sum(bins.count[b] * abs(gap) for b, gap in zip(filled, gaps, strict=True)) / bins.total
        word = "pooled ECE" if bins.n_runs > 1 else "ECE"
        below.text(0.04, 0.93, f"{word} {100 * weighted:.1f} %", transform=below.transAxes, fontsize=8, va="top")
        labels(above, "", "share of predictions" if not column else "", label)
        labels(below, "confidence", "accuracy" if not column else "")
    axes[0][-1].legend(fontsize=7, loc="upper left", framealpha=0.9)
    axes[1][-1].legend(fontsize=7, loc="lower right", framealpha=0.9)
    return figure
