"""Accuracy and ECE over the severity of corruptions (CSAM paper, table 2 as curves)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from surefoot.records import RunFolder
from surefoot.registry import FIGURES
from surefoot.report.paper._canvas import Drawn, Group, canvas, grouped, labels, legend
from surefoot.report.quantities import QUANTITIES
from surefoot.statistics import spread

METRICS = {key: QUANTITIES[key].heading for key in ("accuracy", "ece")}
Values = dict[str, dict[int, list[float]]]  # corruption → severity → one value per run


@FIGURES.register("severity")
def severity(runs: list[RunFolder]) -> Drawn:
    """Accuracy and ECE over the severity of each corruption; severity 0 is the clean picture."""
    groups = grouped(runs)
    n = max((record["n"] for run in runs for record in run.shift()), default=0)
    found = {metric: [_values(group, metric, n) for group in groups] for metric in METRICS}
    names = list(dict.fromkeys(name for values in found["ece"] for name in values))
    if not names:
        return None
    figure, axes = canvas(len(METRICS), len(names), sharex=True, sharey="row")
    for row, (metric, title) in zip(axes, METRICS.items(), strict=True):
        for axis, name in zip(row, names, strict=True):
            for group, values in zip(groups, found[metric], strict=True):
                _line(axis, group, values.get(name, {}))
            labels(
                axis,
                "severity" if metric == "ece" else "",
                title if name == names[0] else "",
                name.replace("_", " ") if metric == "accuracy" else "",
            )
    legend(figure, axes[0][0], columns=3)
    return figure


def _line(axis: Drawn, group: Group, values: dict[int, list[float]]) -> None:
    at = sorted(values)
    points = [spread(values[level]) for level in at]
    means, spreads = [100 * point.mean for point in points], [100 * (point.sd or 0.0) for point in points]
    style = {"color": group.color, "linestyle": group.style, "label": group.label}
    axis.errorbar(at, means, spreads, marker="o", markersize=3, capsize=2, linewidth=1.3, **style)


def _values(group: Group, metric: str, n: int) -> Values:
    """Collect what was measured on n pictures; the clean ones begin every corruption's line."""
    found: Values = defaultdict(lambda: defaultdict(list))
    clean: list[float] = []
    for run in group.runs:
        for record in _own(run.shift(), n):
            if record["corruption"] is None:
                clean.append(record[metric])
            else:
                found[record["corruption"]][record["severity"]].append(record[metric])
    return {name: {**({0: clean} if clean else {}), **levels} for name, levels in found.items()}


def _own(records: Sequence[dict[str, Drawn]], n: int) -> list[dict[str, Drawn]]:
    return [r for r in records if r["n"] == n and not r["published"] and r["ood"] is None]
