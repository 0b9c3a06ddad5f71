"""The figure of docs/scale.md."""

from __future__ import annotations

from typing import Any

from _scale_model import METHODS
from _scale_networks import MACHINES, NETWORKS
from _scale_times import Link, Load, hidden_until

SHOWN = [
    ("sam, stable", "late", "SAM, averaged late"),
    ("sam, synchronised", "synchronised", "SAM, synchronised"),
    ("sam", "rank", "SAM, rank-wise"),
    ("sgd", "sgd", "SGD"),
]


def draw(rows: list[dict[str, Any]], load: Load, path: str) -> None:
    """Draw the simulation beside the model, and from which batch on messages are hidden.

    Args:
        rows: What the simulation found; none draws the model alone.
        load: The simulated layers, with a backward pass of one second.
        path: Where to.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.9), dpi=160, constrained_layout=True)
    colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]
    shares = [step / 50 for step in range(101)]
    whole = sum(load.sizes)
    for (method, kind, label), colour, marker, line in zip(SHOWN, colours, "Ds^o", ["-", "-", "-", "--"], strict=True):
        lines = [load.waits(METHODS[kind], Link(0.0, whole / share), 2) if share else 0.0 for share in shares]
        left.plot(shares, lines, line, color=colour, linewidth=1.5, label=None if rows else label)
        if rows:
            kept = [row for row in rows if row["name"] == "messages"]  # the others have latency as well
            points = [row["share"] for row in kept], [row[method][0] for row in kept]
            hollow = {"markerfacecolor": "none"} if method == "sgd" else {}
            left.plot(*points, marker, color=colour, markersize=7 if hollow else 5, label=label, **hollow)
    left.axvline(1, color="0.7", linewidth=0.8, zorder=0)
    left.set(xlabel="messages of one gradient, in backward passes", ylabel="waiting per step, in backward passes")
    left.set(xlim=(0, shares[-1]), ylim=(0, None), xticks=[0, 0.5, 1, 1.5, 2])
    left.set_title("Model (lines) and simulation (points)", fontsize=9.5, loc="left")
    left.legend(loc="upper left", framealpha=1, edgecolor="none")
    gpus = [2**power for power in range(1, 11)]
    network = NETWORKS["ResNet-50"]
    loads = {size: network.load(size) for size in range(1, 8193)}
    for (title, machines), colour, marker in zip(
        MACHINES.items(), ["#009E73", "#0072B2", "#D55E00"], "^so", strict=True
    ):
        for tree, line in ((True, "-"), (False, ":")):
            least = [hidden_until(loads, machines.link(n, tree), n) or float("nan") for n in gpus]
            name = title if tree else None
            right.plot(gpus, least, line + marker, color=colour, markersize=4, linewidth=1.5, label=name)
    right.text(1024, 2.5, "hidden above a line, waited for below", ha="right", color="0.35", fontsize=8)
    right.plot([], [], "-", color="0.4", label="latency of a tree")
    right.plot([], [], ":", color="0.4", label="latency of a ring")
    right.set_xscale("log", base=2)
    right.set_yscale("log", base=2)
    right.set_xticks([2, 8, 64, 1024], ["2", "8", "64", "1,024"])
    right.set_yticks([4, 16, 64, 256, 1024, 4096], ["4", "16", "64", "256", "1,024", "4,096"])
    right.axvline(8, color="0.7", linewidth=0.8, zorder=0)
    right.set(xlabel="GPUs, eight per machine", ylabel="examples per GPU", ylim=(2, 8192))
    right.set_title("ResNet-50: smallest batch that hides its messages", fontsize=9.5, loc="left")
    right.legend(loc="upper left", fontsize=8, framealpha=1, edgecolor="none")
    figure.savefig(path)
