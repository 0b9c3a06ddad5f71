"""Runs side by side: means over seeds, and paired differences to the first method."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.records import RunFolder
from surefoot.schema import OptionValue


@dataclass(frozen=True)
class Column:
    """A quantity in the table: where it is found in a run, and how it is shown."""

    key: str
    label: str
    percent: bool
    lower_is_better: bool


COLUMNS = (
    Column("accuracy", "accuracy", percent=True, lower_is_better=False),
    Column("ece", "ECE", percent=True, lower_is_better=True),
    Column("nll", "NLL", percent=False, lower_is_better=True),
    Column("tce", "ECE after T", percent=True, lower_is_better=True),
    Column("brier", "Brier", percent=False, lower_is_better=True),
)


_TOLD = (("ece", "ECE"), ("accuracy", "accuracy"))


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over n seeds; a single seed has none."""

    mean: float
    sd: float | None
    n: int


@dataclass(frozen=True)
class Difference:
    """Mean paired difference over n seeds with its 95 % interval; a single seed has none."""

    mean: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Row:
    """One method: its runs, what they reached and what they cost."""

    method: str
    label: str
    options: dict[str, OptionValue]
    seeds: tuple[int, ...]
    values: dict[str, Spread]
    passes: Spread
    seconds: Spread
    best: frozenset[str]
    difference: dict[str, Difference] | None  # to the first row; None for the first row itself
    runs: tuple[RunFolder, ...]

    def to_json(self) -> dict[str, Any]:
        """Write the row for machines: fractions, not percent."""
        return {
            "method": self.method,
            "label": self.label,
            "options": self.options,
            **{key: dataclasses.asdict(spread) for key, spread in self.values.items()},
            "passes": self.passes.mean,
            "seconds": self.seconds.mean,
            "seconds_sd": self.seconds.sd,
            "best": sorted(self.best),
        }


@dataclass(frozen=True)
class Summary:
    """All methods of a comparison, in the order they were asked for."""

    rows: tuple[Row, ...]

    def to_json(self) -> dict[str, Any]:
        """Write the comparison for machines."""
        first = self.rows[0].label if self.rows else None
        differences = [
            {"label": row.label, "versus": first, **{k: dataclasses.asdict(v) for k, v in row.difference.items()}}
            for row in self.rows
            if row.difference is not None
        ]
        return {"rows": [row.to_json() for row in self.rows], "differences": differences, "verdict": self.verdict()}

    def verdict(self) -> str:
        """Say in one or two sentences which method's confidence to trust."""
        known = [row for row in self.rows if "ece" in row.values]
        if not known:
            return "No run has an ECE."
        best = min(known, key=lambda row: row.values["ece"].mean)
        reached = [f"{name} {100 * best.values[key].mean:.1f} %" for key, name in _TOLD if key in best.values]
        claim = " is best calibrated" if len(self.rows) > 1 else ""
        text = f"{best.label}{claim}: {', '.join(reached)}."
        if best.difference is None or "ece" not in best.difference:  # the first method, or no seed in common
            return text
        gap = best.difference["ece"]
        text += f" That is {100 * abs(gap.mean):.1f} points {'below' if gap.mean < 0 else 'above'} {self.rows[0].label}"
        if gap.low is None or gap.high is None:
            return text + "; with one seed there is no telling whether that is luck."
        clear = "clear of zero" if gap.low > 0 or gap.high < 0 else "not clear of zero: more seeds would tell"
        interval = f"95 % interval {100 * gap.low:+.1f} to {100 * gap.high:+.1f}, n = {gap.n}".replace("-", "−")
        return f"{text} ({interval}; {clear})."


def summarise(runs: Sequence[RunFolder]) -> Summary:
    """Group runs that differ in nothing but the seed, and compare the groups.

    Args:
        runs: Finished runs; the group of the first one is what the others are compared with.

    Returns:
        One row per group.
    """
    groups: dict[str, dict[int, RunFolder]] = {}
    for run in runs:
        groups.setdefault(_group(run), {})[run.spec.seed] = run
    values = {key: {seed: _values(run) for seed, run in group.items()} for key, group in groups.items()}
    means = {
        key: {
            column.key: spread_of([values[column.key] for values in group.values()])
            for column in COLUMNS
            if _has(group, column.key)
        }
        for key, group in values.items()
    }
    labels = _labels({key: next(iter(group.values())) for key, group in groups.items()})
    first = next(iter(groups), "")
    rows = []
    for key, group in groups.items():
        some = next(iter(group.values()))
        costs = [run.done() or {} for run in group.values()]
        rows.append(
            Row(
                method=some.spec.method.name,
                label=labels[key],
                options=some.spec.method.options,
                seeds=tuple(sorted(group)),
                values=means[key],
                passes=spread_of([cost["passes"] for cost in costs]),
                seconds=spread_of([cost["seconds"] for cost in costs]),
                best=frozenset(column.key for column in COLUMNS if _is_best(column, key, means)),
                difference=None if key == first else _differences(values[first], values[key]),
                runs=tuple(group[seed] for seed in sorted(group)),
            )
        )
    return Summary(tuple(rows))


def _group(run: RunFolder) -> str:
    spec = run.spec.to_json()
    del spec["seed"], spec["method"]["label"]
    return json.dumps([spec, run.data["fingerprint"]], sort_keys=True)


def _labels(groups: dict[str, RunFolder]) -> dict[str, str]:
    """Name each group as briefly as tells it apart: by its method, else by all that differs."""
    extras: dict[str, Callable[[RunFolder], str]] = {
        "model": lambda run: str(run.spec.model),
        "data": lambda run: str(run.spec.data),
        "epochs": lambda run: f"{run.spec.epochs} epochs",
        "batch": lambda run: f"batch {run.spec.batch_size}",
        "schedule": lambda run: run.spec.schedule,
        "augment": lambda run: f"augment {run.spec.augmentation}",
    }
    varying = [show for show in extras.values() if len({show(run) for run in groups.values()}) > 1]
    labels = {key: ", ".join([run.spec.method.label, *(show(run) for show in varying)]) for key, run in groups.items()}
    for key, run in groups.items():  # the same words can still mean different runs, for example with another --lr
        if list(labels.values()).count(labels[key]) > 1:
            others = [r.spec.method.options for r in groups.values()]
            differ = {k: v for k, v in run.spec.method.options.items() if any(o.get(k) != v for o in others)}
            labels[key] += f" ({', '.join(f'{k}={v}' for k, v in differ.items()) or run.run_id})"
    return labels


def _values(run: RunFolder) -> dict[str, float]:
    """Pick a run's numbers on the test split out of its measures."""
    found = {}
    for record in run.measures():
        if record["split"] == "test" and record.get("value") is not None:
            if record["calibrator"] is None:
                found[record["metric"]] = record["value"]
            elif record["calibrator"] == "temperature" and record["metric"] == "ece":
                found["tce"] = record["value"]
    return found


def _has(group: dict[int, dict[str, float]], key: str) -> bool:
    return all(key in values for values in group.values())


def spread_of(numbers: Sequence[float]) -> Spread:
    """Give mean and standard deviation; one number has no deviation."""
    return Spread(statistics.fmean(numbers), statistics.stdev(numbers) if len(numbers) > 1 else None, len(numbers))


def _is_best(column: Column, key: str, means: dict[str, dict[str, Spread]]) -> bool:
    if column.key not in means[key] or len(means) < 2:
        return False
    others = [group[column.key].mean for group in means.values() if column.key in group]
    return means[key][column.key].mean == (min if column.lower_is_better else max)(others)


def _differences(first: dict[int, dict[str, float]], other: dict[int, dict[str, float]]) -> dict[str, Difference]:
    shared = sorted(first.keys() & other.keys())
    found = {}
    for column in COLUMNS:
        pairs = [
            other[seed][column.key] - first[seed][column.key]
            for seed in shared
            if column.key in first[seed] and column.key in other[seed]
        ]
        if pairs:
            found[column.key] = paired_difference(pairs)
    return found


def paired_difference(pairs: Sequence[float]) -> Difference:
    """Give the mean of paired differences with Student's 95 % interval.

    Args:
        pairs: One difference per seed.

    Returns:
        Mean, interval and number.

    Example:
        >>> gap = paired_difference([1.0, 2.0, 3.0])  # sd 1, standard error 1/√3, t quantile 4.3027
        >>> gap.mean, round(gap.low, 3), round(gap.high, 3)
        (2.0, -0.484, 4.484)
    """
    from scipy.stats import t as student  # takes a while to import

    n, mean = len(pairs), statistics.fmean(pairs)
    if n < 2:
        return Difference(mean, None, None, n)
    half = float(student.ppf(0.975, n - 1)) * statistics.stdev(pairs) / math.sqrt(n)
    return Difference(mean, mean - half, mean + half, n)
