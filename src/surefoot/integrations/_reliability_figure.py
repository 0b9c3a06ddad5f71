"""One reliability diagram with matplotlib: how sure above, how right below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from surefoot.metrics import Interval, reliability

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, RED, GREY = "#0072B2", "#D55E00", "#D0D0D0"


def draw_reliability(probs: Tensor, labels: Tensor, ece: Interval, *, accuracy: float, n_bins: int = 15) -> Figure:
    """Draw confidence against accuracy, bin by bin, with what chance alone allows.

    Args:
        probs: Class probabilities, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.
        ece: Their ECE with its interval.
        accuracy: Their accuracy.
        n_bins: Number of bins.

    Returns:
        A figure that no window knows of.
    """
    from matplotlib.figure import Figure

    bins = reliability(probs, labels, n_bins=n_bins, level=ece.level)
    n, width = len(labels), 1 / n_bins
    filled = [b for b in range(n_bins) if bins.count[b]]
    middle = [(b + 0.5) * width for b in filled]
    confidence = float(probs.amax(1).mean())
    figure = Figure(figsize=(4.4, 5.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2.6])
    above.bar(middle, [bins.count[b] / n for b in filled], width, color=BLUE, edgecolor="white")
    above.axvline(confidence, color="black", linestyle="--", linewidth=1)
    above.axvline(accuracy, color=RED, linewidth=1)
    above.set_ylabel("share of rows")
    above.set_title(f"mean confidence {confidence:.1%} (dashed), accuracy {accuracy:.1%} (orange)", fontsize=8)
    lows, highs, accuracies = ([side[b] or 0.0 for b in filled] for side in (bins.low, bins.high, bins.accuracy))
    heights = [high - low for low, high in zip(lows, highs, strict=True)]
    chance = f"{ece.level:.0%} of bins, if calibrated"
    below.bar(middle, heights, width, lows, color=GREY, edgecolor="white", label=chance)
    below.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1)
    sure = [bins.confidence[b] or 0.0 for b in filled]
    for name, color, is_outside in (("a bin", BLUE, False), ("a bin outside of that", RED, True)):
        shown = [place for place, b in enumerate(filled) if (b in bins.outside) == is_outside]
        if shown:
            points = [sure[place] for place in shown], [accuracies[place] for place in shown]
            below.plot(*points, "o", color=color, markersize=6, clip_on=False, label=name)
    below.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
    below.legend(fontsize=7, loc="upper left")
    interval = f" ({ece.low:.1%} to {ece.high:.1%})" if ece.known else ""
    figure.suptitle(f"ECE {ece.estimate:.1%}{interval}, {n:,} rows", fontsize=10)
    return figure
