"""What calibration costs: accuracy, ECE and NLL against gradient passes, many ways to train on the same tasks."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from surefoot.evaluate import measures_of
from surefoot.records import RunFolder
from surefoot.registry import FIGURES
from surefoot.report.paper._canvas import COLORS, Drawn, canvas, labels
from surefoot.report.quantities import QUANTITIES
from surefoot.schema import MethodSpec, SplitName

KEYS = ("ece", "nll", "accuracy")
AFTER = {"ece": "ece@temperature", "nll": "nll@temperature", "accuracy": "accuracy"}
_SEED = re.compile(r"[,;]?seed=\d+")
_BASE = re.compile(r"[,:]base=\w+")
_SETTING = re.compile(r"csam:rho=[\d.]+,gamma=[\d.]+")
Place = tuple[str, int]  # a task, and a seed


@dataclass
class Point:
    """One way to train: its cost in passes of the plain one, and its measures on the mean over tasks."""

    label: str
    cost: float
    values: dict[str, float] = field(default_factory=dict)


@FIGURES.register("front", measures=("ece", "nll", "accuracy", "ece@temperature", "nll@temperature"), reads_specs=True)
def front(runs: list[RunFolder]) -> Drawn:
    """ECE, NLL and accuracy against gradient passes, on the mean over the tasks and seeds that all methods share."""
    by_method = _by_method(runs)
    every = set.intersection(*map(set, by_method.values())) if by_method else set()
    if not every or "base" not in by_method or len(by_method) < 2:
        return None
    points, best = _points(by_method, every)
    figure, axes = canvas(1, len(KEYS), width=4.2, height=4.6)
    for axis, key in zip(axes[0], KEYS, strict=True):
        quantity = QUANTITIES[key]
        for point, (marker, color) in zip(points, _styles(points), strict=True):
            axis.plot(point.cost, quantity.scaled(point.values[key]), marker, color=color, label=point.label)
        if best is not None:
            label = f"{best.label}, {best.cost:.0f} passes"
            axis.axhline(quantity.scaled(best.values[key]), color="#000000", linestyle="--", linewidth=1, label=label)
        labels(axis, "gradient passes, in those of the base", f"{quantity.heading}, test")
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.suptitle(f"tasks: {len({task for task, _ in every})}, seeds: {len({seed for _, seed in every})}", fontsize=9)
    return figure


def _styles(points: Sequence[Point]) -> list[tuple[str, str]]:
    """Give each family of methods a marker, and each method in it a colour."""
    families = [
        "s" if "csam" in point.label else "^" if "sam" in point.label or "rst" in point.label else "o"
        for point in points
    ]
    return [(marker, COLORS[families[:number].count(marker) % len(COLORS)]) for number, marker in enumerate(families)]


def _by_method(runs: Sequence[RunFolder]) -> dict[str, dict[Place, RunFolder]]:
    found: dict[str, dict[Place, RunFolder]] = defaultdict(dict)
    shortest: dict[str, int] = {}
    for run in runs:
        task = _task(run)
        shortest[task] = min(run.spec.epochs, shortest.get(task, run.spec.epochs))
    for run in runs:
        task = _task(run)
        longer = run.spec.epochs // shortest[task]
        name = _name(run.spec.method) + (f", {longer} × the epochs" if longer > 1 else "")
        found[name][task, run.spec.seed] = run
    return found


def _task(run: RunFolder) -> str:
    spec = run.spec
    return f"{_SEED.sub('', str(spec.data))} {spec.model} {spec.batch_size} {spec.augmentation}"


def _name(method: MethodSpec) -> str:
    """Name a method whatever its base is."""
    if method.base is not None:
        return _BASE.sub("", method.label)
    return method.label.replace(method.optimizer.name, "base")


def _points(by_method: Mapping[str, Mapping[Place, RunFolder]], every: set[Place]) -> tuple[list[Point], Point | None]:
    """Average each method over all places; settings of a sweep become one, chosen at each place by calibration."""
    plain = {place: _passes(by_method["base"][place]) for place in every}
    costs = {
        name: statistics.fmean(_passes(found[place]) / plain[place] for place in every)
        for name, found in by_method.items()
    }
    swept = [name for name in by_method if _SETTING.fullmatch(name)]
    points = [
        Point(name, costs[name], {key: _mean([found[place] for place in every], key) for key in KEYS})
        for name, found in by_method.items()
        if name not in swept
    ]
    behind = {key: _mean([by_method["base"][place] for place in every], AFTER[key]) for key in KEYS}
    points.append(Point("base, temperature behind it", 1.0, behind))
    points.sort(key=lambda point: point.cost)
    if len(swept) < 2:
        return points, None
    chosen = [_best([by_method[name][place] for name in swept]) for place in every]
    values = {key: _mean(chosen, key) for key in KEYS}
    return points, Point(f"best of {len(swept)} settings", sum(costs[name] for name in swept), values)


def _passes(run: RunFolder) -> float:
    return float((run.done() or {})["passes"])


def _best(runs: Sequence[RunFolder]) -> RunFolder:
    return min(runs, key=lambda run: _value(run, "ece", "calibration"))


def _mean(runs: Sequence[RunFolder], key: str) -> float:
    return statistics.fmean(_value(run, key, "test") for run in runs)


def _value(run: RunFolder, key: str, split: SplitName) -> float:
    found = measures_of(run, [key], split=split).get(key)
    value = found["value"] if found else None
    return float("nan") if value is None else float(value)
