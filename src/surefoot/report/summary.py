"""Runs side by side: means over seeds, paired differences to the first method, and what the calibration split says."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.evaluate import CONSTANT, IN_TABLE, SHOWN, Record, measures_of
from surefoot.harmless import harmless
from surefoot.records import RunFolder
from surefoot.report.measures import Measure
from surefoot.schema import OptionValue
from surefoot.statistics import Estimate, Spread, mean, spread

TOLD = ("ece", "accuracy")  # what the verdict speaks of, whatever is shown


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
class MethodRow:
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

    def to_json(self, keys: Sequence[str]) -> dict[str, Any]:
        """Write the row for machines, fractions, not percent: the test split, then the calibration split in a place.

        Args:
            keys: Of the measures that are shown.

        Returns:
            Plain values.
        """
        constant = self.constant.get("test")
        return {
            "method": self.method,
            "label": self.label,
            "options": self.options,
            **{key: dataclasses.asdict(self.values[key]) for key in keys if key in self.values},
            "calibration": {key: dataclasses.asdict(self.calibration[key]) for key in keys if key in self.calibration},
            "constant": None if constant is None else {**dataclasses.asdict(constant), "is_beaten": constant.is_beaten},
            "passes": self.passes.mean,
            "seconds": self.seconds.mean,
            "seconds_sd": self.seconds.sd,
            "best": sorted(self.best & set(keys)),
        }


@dataclass(frozen=True)
class Summary:
    """All methods of a comparison, in the order they were asked for.

    Attributes:
        rows: The methods.
        measures: What is known of every measure that the rows hold, by key.
        shown: Keys of those to show.
        in_table: Keys of those to show where there is little room.
    """

    rows: tuple[MethodRow, ...]
    measures: dict[str, Measure] = dataclasses.field(default_factory=dict)
    shown: tuple[str, ...] = SHOWN
    in_table: tuple[str, ...] = IN_TABLE

    def columns(self, *, brief: bool = False) -> list[Measure]:
        """Return the measures to show; one that no run has is left out, but from a terminal's table."""
        keys = self.in_table if brief else [key for key in self.shown if any(key in row.values for row in self.rows)]
        return [self.measures.get(key, Measure(key, key)) for key in keys]


def summarise(runs: Sequence[RunFolder], metrics: Sequence[str] | None = None) -> Summary:
    """Group runs that differ in nothing but the seed, and compare the groups.

    Args:
        runs: Finished runs; the group of the first one is what the others are compared with.
        metrics: Keys of the measures to show, as :func:`~surefoot.metric_keys.read_metrics` gives them; else the usual
            ones. What a run does not hold yet is computed from its predictions.

    Returns:
        One row per group.
    """
    shown = tuple(metrics or SHOWN)
    keys = tuple(dict.fromkeys([*shown, *TOLD]))
    groups: dict[str, dict[int, RunFolder]] = {}
    for run in runs:
        groups.setdefault(_group(run), {})[run.spec.seed] = run
    found = {run.path: _records(run, keys) for run in runs}
    known = _measures(keys, list(found.values()))
    measured = {key: {seed: _values(found[run.path]) for seed, run in group.items()} for key, group in groups.items()}
    test = {key: {seed: values["test"] for seed, values in group.items()} for key, group in measured.items()}
    chosen_by = {key: _means([values["calibration"] for values in group.values()]) for key, group in measured.items()}
    constants = {key: _constants(list(group.values())) for key, group in groups.items()}
    in_play = {key: means for key, means in chosen_by.items() if _is_in_play(constants[key])}
    labels = _labels({key: next(iter(group.values())) for key, group in groups.items()})
    first = next(iter(groups), "")
    rows: list[MethodRow] = []
    for key, group in groups.items():
        some = next(iter(group.values()))
        costs = [run.done() or {} for run in group.values()]
        rows.append(
            MethodRow(
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
                best=frozenset(each.key for each in known.values() if len(groups) > 1 and _is_best(each, key, in_play)),
                difference=None if key == first else _differences(test[first], test[key]),
                runs=tuple(group[seed] for seed in sorted(group)),
            )
        )
    return Summary(tuple(rows), known, shown, shown if metrics else IN_TABLE)


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
    labels = {
        key: harmless(", ".join([run.spec.method.label, *(show(run) for show in varying)]))
        for key, run in groups.items()
    }
    for key, run in groups.items():  # the same words can still mean different runs, for example with another --lr
        if list(labels.values()).count(labels[key]) > 1:
            others = [r.spec.method.options for r in groups.values()]
            differ = {k: v for k, v in run.spec.method.options.items() if any(o.get(k) != v for o in others)}
            labels[key] += f" ({', '.join(f'{k}={v}' for k, v in differ.items()) or run.run_id})"
    return labels


def _records(run: RunFolder, keys: Sequence[str]) -> dict[str, dict[str, Record]]:
    """Read a run's measures by split and key; on the calibration split, calibrators were fitted and are not scored."""
    plain = [key for key in keys if "@" not in key]
    return {"calibration": measures_of(run, plain, split="calibration"), "test": measures_of(run, keys)}


def _measures(keys: Sequence[str], runs: Sequence[dict[str, dict[str, Record]]]) -> dict[str, Measure]:
    """Collect what the records say of each measure."""
    records = {key: record for run in runs for split in run.values() for key, record in split.items()}
    return {key: Measure.of(key, records[key]) for key in keys if key in records}


def _values(records: dict[str, dict[str, Record]]) -> dict[str, dict[str, float]]:
    """Pick the numbers out of a run's records, by split."""
    return {
        split: {key: record["value"] for key, record in found.items() if record["value"] is not None}
        for split, found in records.items()
    }


def _means(runs: Sequence[dict[str, float]]) -> dict[str, Spread]:
    """Average over seeds what every run has."""
    keys = [key for key in runs[0] if all(key in values for values in runs)]
    return {key: spread([values[key] for values in runs]) for key in keys}


def _constants(runs: Sequence[RunFolder]) -> dict[str, Constant]:
    """Average over seeds how the runs do beside one constant answer, by split; only what every run has."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        for record in run.measures():
            if record["metric"] == CONSTANT:
                found.setdefault(record["split"], []).append(record)
    return {
        split: Constant(*(statistics.fmean(record[key] for record in each) for key in ("value", "lead", "lead_error")))
        for split, each in found.items()
        if len(each) == len(runs)
    }


def _is_in_play(constants: dict[str, Constant]) -> bool:
    """Leave out of the choice what answers no better than a constant, whose ECE is low for nothing."""
    return "calibration" not in constants or constants["calibration"].is_beaten


def _is_best(column: Measure, key: str, means: dict[str, dict[str, Spread]]) -> bool:
    """Return whether a method has the best mean of those in play."""
    if column.key not in means.get(key, {}) or column.lower_is_better is None:
        return False
    others = [group[column.key].mean for group in means.values() if column.key in group]
    return means[key][column.key].mean == (min if column.lower_is_better else max)(others)


def _differences(first: dict[int, dict[str, float]], other: dict[int, dict[str, float]]) -> dict[str, Estimate]:
    keys = dict.fromkeys(key for values in first.values() for key in values)
    found = {key: difference_of(first, other, key) for key in keys}
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
