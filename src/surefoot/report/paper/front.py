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
Place = tuple[str, int]  # a task, and a seed


@dataclass
class Point:
    """One way to train: its cost in passes of the plain one, and its measures on the mean over tasks."""

    label: str
    cost: float
    values: dict[str, float] = field(default_factory=dict)


@FIGURES.register("front", measures=("ece", "nll", "accuracy", "ece@temperature", "nll@temperature"))
def front(runs: list[RunFolder]) -> Drawn:
    """ECE, NLL and accuracy against gradient passes, on the mean over the tasks that all methods share."""
    by_method = _by_method(runs)
    most = max((len(_tasks(found)) for found in by_method.values() if len(found) > 1), default=0)
    if not by_method or most == 0:
        return None
    every = _shared(by_method)
    points = _points({method: found for method, found in by_method.items() if every <= found.keys()}, every)
    if len(points) < 2:
        return None
    figure, axes = canvas(1, len(KEYS), width=4.2, height=4.6)
    colors = {point.label: COLORS[number % len(COLORS)] for number, point in enumerate(points)}
    for axis, key in zip(axes[0], KEYS, strict=True):
        quantity = QUANTITIES[key]
        for number, point in enumerate(points):
            marker = "os^Dv<>P*X"[number // len(COLORS) % 10]
            axis.plot(
                point.cost, quantity.scaled(point.values[key]), marker, color=colors[point.label], label=point.label
            )
        axis.set_xscale("log")
        ticks = [1, 1.25, 1.5, 2, 18]
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
        axis.set_xticks([], minor=True)
        labels(axis, "gradient passes, in those of the base", f"{quantity.heading}, test")
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=7, frameon=False)
    n_tasks, n_seeds = len({task for task, _ in every}), len({seed for _, seed in every})
    figure.suptitle(f"mean over {n_tasks} tasks and {n_seeds} seeds", fontsize=9)
    return figure


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


def _tasks(found: Mapping[Place, RunFolder]) -> set[str]:
    return {task for task, _ in found}


def _shared(by_method: Mapping[str, Mapping[Place, RunFolder]]) -> set[Place]:
    """Return the tasks and seeds that every method has."""
    places = [set(found) for found in by_method.values()]
    return set.intersection(*places)


def _points(by_method: Mapping[str, Mapping[Place, RunFolder]], every: set[Place]) -> list[Point]:
    base = by_method["base"]
    plain = {place: _passes(base[place]) for place in every}
    swept = [name for name in by_method if re.fullmatch(r"csam:rho=[\d.]+,gamma=[\d.]+", name)]
    points = []
    for name, found in by_method.items():
        cost = statistics.fmean(_passes(found[place]) / plain[place] for place in every)
        if name not in swept:
            points.append(Point(name, cost, {key: _mean([found[place] for place in every], key) for key in KEYS}))
    behind = {key: _mean([base[place] for place in every], AFTER[key]) for key in KEYS}
    points.append(Point("base, temperature behind it", 1.0, behind))
    if swept:
        best = [_best([by_method[name][place] for name in swept]) for place in every]
        cost = sum(statistics.fmean(_passes(by_method[n][place]) / plain[place] for place in every) for n in swept)
        points.append(Point(f"best of {len(swept)} settings of csam", cost, {key: _mean(best, key) for key in KEYS}))
    return sorted(points, key=lambda point: point.cost)


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
