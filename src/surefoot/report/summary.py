"""Runs side by side: means over seeds, paired differences to the first method, and what the calibration split says."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.records import RunFolder
from surefoot.schema import OptionValue
from surefoot.statistics import Estimate, Spread, mean, spread


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


@dataclass(frozen=True)
class Constant:
    """Accuracy on one split beside that of always saying the class that is most common in training.

    Attributes:
        share: Accuracy of the constant answer.
        lead: By how much the method is better, mean over seeds.
        error: Standard error of that over the split's examples, which all seeds share.
    """

    share: float
    lead: float
    error: float

    @property
    def is_beaten(self) -> bool:
        """Whether the lead is clear of zero; a network that gives the constant answer has neither lead nor error."""
        return self.lead > 1.96 * self.error


@dataclass(frozen=True)
class Row:
    """One method: its runs, what they reached and what they cost.

    Attributes:
        values: On the test split.
        calibration: On the calibration split, which nothing was trained on: what to choose by.
        by_seed: On the test split, run by run.
        constant: By split, whether its answers are worth more than one constant answer; may lack splits.
        best: The columns in which it has the best mean on the calibration split.
        difference: On the test split, to the first row; None for the first row itself.
    """

    method: str
    label: str
    options: dict[str, OptionValue]
    seeds: tuple[int, ...]
    values: dict[str, Spread]
    calibration: dict[str, Spread]
    by_seed: dict[int, dict[str, float]]
    constant: dict[str, Constant]
    passes: Spread
    seconds: Spread
    best: frozenset[str]
    difference: dict[str, Estimate] | None
    runs: tuple[RunFolder, ...]

    def to_json(self) -> dict[str, Any]:
        """Write the row for machines, fractions, not percent: the test split, then the calibration split in a place."""
        constant = self.constant.get("test")
        return {
            "method": self.method,
            "label": self.label,
            "options": self.options,
            **{key: dataclasses.asdict(spread) for key, spread in self.values.items()},
            "calibration": {key: dataclasses.asdict(spread) for key, spread in self.calibration.items()},
            "constant": None if constant is None else {**dataclasses.asdict(constant), "is_beaten": constant.is_beaten},
            "passes": self.passes.mean,
            "seconds": self.seconds.mean,
            "seconds_sd": self.seconds.sd,
            "best": sorted(self.best),
        }


@dataclass(frozen=True)
class Summary:
    """All methods of a comparison, in the order they were asked for."""

    rows: tuple[Row, ...]


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
    measured = {key: {seed: _values(run) for seed, run in group.items()} for key, group in groups.items()}
    test = {key: {seed: values["test"] for seed, values in group.items()} for key, group in measured.items()}
    chosen_by = {key: _means([values["calibration"] for values in group.values()]) for key, group in measured.items()}
    constants = {key: _constants(list(group.values())) for key, group in groups.items()}
    in_play = {key: means for key, means in chosen_by.items() if _is_in_play(constants[key])}
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
                values=_means(list(test[key].values())),
                calibration=chosen_by[key],
                by_seed=test[key],
                constant=constants[key],
                passes=spread([cost["passes"] for cost in costs]),
                seconds=spread([cost["seconds"] for cost in costs]),
                best=frozenset(column.key for column in COLUMNS if len(groups) > 1 and _is_best(column, key, in_play)),
                difference=None if key == first else _differences(test[first], test[key]),
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


def _values(run: RunFolder) -> dict[str, dict[str, float]]:
    """Pick a run's numbers on the calibration and the test split out of its measures.

    ECE after T is there for the test split only: on the calibration split the temperature was fitted.
    """
    found: dict[str, dict[str, float]] = {"calibration": {}, "test": {}}
    for record in run.measures():
        if record["split"] in found and record.get("value") is not None:
            if record["calibrator"] is None:
                found[record["split"]][record["metric"]] = record["value"]
            elif record["calibrator"] == "temperature" and record["metric"] == "ece":
                found[record["split"]]["tce"] = record["value"]
    return found


def _means(runs: Sequence[dict[str, float]]) -> dict[str, Spread]:
    """Average over seeds what every run has."""
    return {
        column.key: spread([values[column.key] for values in runs])
        for column in COLUMNS
        if all(column.key in values for values in runs)
    }


def _constants(runs: Sequence[RunFolder]) -> dict[str, Constant]:
    """Average over seeds how the runs do beside one constant answer, by split; only what every run has."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        for record in run.measures():
            if record["metric"] == "constant_accuracy":
                found.setdefault(record["split"], []).append(record)
    return {
        split: Constant(*(statistics.fmean(record[key] for record in each) for key in ("value", "lead", "lead_error")))
        for split, each in found.items()
        if len(each) == len(runs)
    }


def _is_in_play(constants: dict[str, Constant]) -> bool:
    """Leave out of the choice what answers no better than a constant, whose ECE is low for nothing."""
    return "calibration" not in constants or constants["calibration"].is_beaten


def _is_best(column: Column, key: str, means: dict[str, dict[str, Spread]]) -> bool:
    """Return whether a method has the best mean of those in play."""
    if column.key not in means.get(key, {}):
        return False
    others = [group[column.key].mean for group in means.values() if column.key in group]
    return means[key][column.key].mean == (min if column.lower_is_better else max)(others)


def _differences(first: dict[int, dict[str, float]], other: dict[int, dict[str, float]]) -> dict[str, Estimate]:
    found = {column.key: difference_of(first, other, column.key) for column in COLUMNS}
    return {key: gap for key, gap in found.items() if gap is not None}


def difference_of(first: dict[int, dict[str, float]], other: dict[int, dict[str, float]], key: str) -> Estimate | None:
    """Return other − first of one quantity over the seeds that both have.

    Args:
        first: Values by seed.
        other: Likewise.
        key: The quantity.

    Returns:
        The paired difference; None where no seed has both.
    """
    shared = [seed for seed in sorted(first.keys() & other.keys()) if key in first[seed] and key in other[seed]]
    return mean([other[seed][key] - first[seed][key] for seed in shared]) if shared else None
