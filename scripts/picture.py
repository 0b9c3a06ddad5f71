"""Draw the picture of the README from the runs of the demo: SGD and CSAM, how sure and how right.

``make demo`` leaves them in ``surefoot-runs``; ``python scripts/picture.py`` draws ``docs/reliability.svg``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean

import matplotlib as mpl

from surefoot.records import RunFolder, find_runs
from surefoot.report.bins import Bins, read_bins

mpl.use("agg")
from matplotlib import pyplot as plt

PICTURE = Path(__file__).parents[1] / "docs" / "reliability.svg"
RIGHT, GAP = "#0072B2", "#D55E00"  # told apart by the colour-blind, and by the hatching in grey
SHOWN = {"sgd": "SGD", "csam": "CSAM"}


def mean_ece(runs: list[RunFolder]) -> float:
    """Take the mean over seeds, as the table of the demo does.

    Args:
        runs: Those of one method.

    Returns:
        ECE on the test split, as it was recorded.
    """
    wanted = ("ece", "test", None)
    records = [record for run in runs for record in run.measures()]
    return mean(float(r["value"]) for r in records if (r["metric"], r["split"], r.get("calibrator")) == wanted)


def draw(columns: dict[str, tuple[Bins, float]], out: Path) -> None:
    """Draw one reliability diagram per method beside each other.

    Args:
        columns: What a method is called → its bins on the test split, pooled over seeds, and its ECE.
        out: The file.
    """
    plt.rcParams.update({"svg.hashsalt": "surefoot", "font.size": 9, "font.family": "DejaVu Sans"})
    figure, axes = plt.subplots(1, len(columns), figsize=(3.6 * len(columns), 3.7), sharey=True, layout="constrained")
    for axis, (name, (bins, error)) in zip(axes, columns.items(), strict=True):
        n = len(bins.count)
        filled = [b for b in range(n) if bins.count[b]]
        places = [(b + 0.5) / n for b in filled]
        accuracy = [bins.accuracy[b] or 0.0 for b in filled]
        gaps = [(bins.confidence[b] or 0.0) - right for b, right in zip(filled, accuracy, strict=True)]
        axis.bar(places, accuracy, 0.92 / n, color=RIGHT, label="how often it is right")
        axis.bar(places, gaps, 0.92 / n, accuracy, color="none", edgecolor=GAP, hatch="////", label="gap")
        axis.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1, label="calibrated")
        axis.set(xlim=(0, 1), ylim=(0, 1), xlabel="how sure it is", aspect="equal")
        axis.set_title(
            f"{name}: {100 * bins.mean_confidence:.0f} % sure, {100 * bins.mean_accuracy:.0f} % right\n"
            f"ECE {100 * error:.1f} %",
            fontsize=10,
        )
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("how often it is right")
    axes[0].legend(frameon=False, fontsize=8, loc="upper left")
    figure.savefig(out, metadata={"Date": None, "Creator": None}, facecolor="white")


def main() -> None:
    """Read the runs, draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="?", type=Path, default=Path("surefoot-runs"), help="what the demo left")
    parser.add_argument("--out", type=Path, default=PICTURE, help="an .svg or a .png")
    given = parser.parse_args()
    runs = find_runs([given.runs])
    groups = {name: [run for run in runs if run.spec.method.label == method] for method, name in SHOWN.items()}
    draw({name: (read_bins(group)[None], mean_ece(group)) for name, group in groups.items()}, given.out)
    print(f"Written: {given.out}")


if __name__ == "__main__":
    main()
