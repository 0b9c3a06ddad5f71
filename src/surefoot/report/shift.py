"""Quality on shifted data: what ``shift.jsonl`` of several runs says, side by side."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.report.choice import Choice, choose, judge
from surefoot.report.measures import Measure
from surefoot.report.quantities import QUANTITIES
from surefoot.report.summary import MethodRow, Summary, difference_of
from surefoot.statistics import Estimate, Spread, spread

COLUMNS = (
    *(QUANTITIES[key] for key in ("accuracy", "ece", "nll")),
    Measure("auroc", "AUROC", lower_is_better=False),  # of shifted pictures told from clean ones: of no metric
)
CLEAN = ("", 0)

Place = tuple[str, int]  # corruption, severity
Cells = dict[Place, dict[str, float]]


@dataclass(frozen=True)
class ShiftRow:
    """One method on shifted data: means over its seeds."""

    row: MethodRow
    seeds: tuple[int, ...]
    cells: dict[Place, dict[str, Spread]]
    mean: dict[str, Spread]  # over all corruptions and severities that every run has
    by_seed: dict[int, dict[str, float]]  # the same, run by run
    difference: dict[str, Estimate] | None
    ood: dict[str, dict[str, dict[str, float]]]  # data set, score, measure


@dataclass(frozen=True)
class ShiftSummary:
    """All methods on the same shifted pictures."""

    rows: tuple[ShiftRow, ...]
    corruptions: tuple[str, ...]
    severities: tuple[int, ...]
    n: int
    choice: Choice | None  # made on the calibration split, whose pictures are clean
    published: str | None = None  # folder of the corrupted pictures; None where they were made here

    def to_json(self) -> dict[str, Any]:
        """Write it for machines: fractions, not percent."""
        return {
            "n": self.n,
            "published": self.published,
            "corruptions": list(self.corruptions),
            "severities": list(self.severities),
            "rows": [_row_json(row) for row in self.rows],
            "verdict": self.verdict(),
        }

    @property
    def origin(self) -> str:
        """Return which pictures they are."""
        return f"test pictures as published in {Path(self.published).name}" if self.published else "test pictures"

    def verdict(self) -> str:
        """Say in one or two sentences what the shift did to calibration."""
        known = [row for row in self.rows if "ece" in row.mean]
        if not known:
            return "Nothing but out-of-distribution data sets was measured."
        if len(known) == 1:
            keeps = known[0].cells[CLEAN]["ece"].mean >= known[0].mean["ece"].mean
            return (
                f"{known[0].row.label} {'keeps its' if keeps else 'loses'} calibration under shift: {_told(known[0])}."
            )
        rows = {row.row.label: row for row in known}
        if self.choice is None or self.choice.row.label not in rows:
            return "No method can be chosen on the calibration split: the table has them side by side."
        chosen = rows[self.choice.row.label]
        others = [rows[other.label] for other in self.choice.others if other.label in rows]
        against = [(other.row.label, difference_of(other.by_seed, chosen.by_seed, "ece")) for other in others]
        text = f"Chosen on the calibration split, which is clean: {chosen.row.label}. {_told(chosen)}."
        return f"{text} {judge(against, begin='Under shift that is')}"


def _told(row: ShiftRow) -> str:
    """Write ECE and accuracy on clean and on shifted pictures."""
    (ece, *eces), (accuracy, *accuracies) = (
        (QUANTITIES[key].label, 100 * row.cells[CLEAN][key].mean, 100 * row.mean[key].mean)
        for key in ("ece", "accuracy")
    )
    return (
        f"{ece} {eces[0]:.1f} % on clean and {eces[1]:.1f} % on shifted pictures, "
        f"{accuracy} {accuracies[0]:.1f} % and {accuracies[1]:.1f} %"
    )


def summarise_shift(
    summary: Summary, *, n: int | None = None, published: Path | str | None = None
) -> ShiftSummary | None:
    """Put the shifted measures of runs side by side; those on published pictures and on our own are never mixed.

    Args:
        summary: The runs, grouped by method.
        n: Measures on how many pictures; else those on the most.
        published: Measures on the published pictures in this folder; else those on pictures corrupted here.

    Returns:
        The measures that every run has; None where some run has none.
    """
    runs = [run for row in summary.rows for run in row.runs]
    source = None if published is None else str(Path(published).expanduser().resolve())
    records = {run.path: [each for each in run.shift() if (each["published"] or None) == source] for run in runs}
    n = n or max((record["n"] for each in records.values() for record in each), default=None)
    found = {path: _cells(each, n) for path, each in records.items()}
    if n is None or not found or not all(CLEAN in cells for cells in found.values()):
        return None
    shared = [place for place in next(iter(found.values())) if all(place in cells for cells in found.values())]
    rows: list[ShiftRow] = []
    for row in summary.rows:
        per_seed = {run.spec.seed: found[run.path] for run in row.runs}
        means = {seed: _mean(cells, shared) for seed, cells in per_seed.items()}
        rows.append(
            ShiftRow(
                row,
                tuple(sorted(per_seed)),
                {place: _spreads([cells[place] for cells in per_seed.values()]) for place in shared},
                _spreads(list(means.values())),
                means,
                _gaps(rows[0].by_seed, means) if rows else None,
                _ood([records[run.path] for run in row.runs], n),
            )
        )
    shifted = [place for place in shared if place != CLEAN]
    names, levels = dict.fromkeys(name for name, _ in shifted), sorted({level for _, level in shifted})
    return ShiftSummary(tuple(rows), tuple(names), tuple(levels), n, choose(summary), source)


def _cells(records: Sequence[dict[str, Any]], n: int | None) -> Cells:
    cells: Cells = {}
    for record in records:
        if record["n"] == n and record["ood"] is None:
            values = {key: record[key] for key in ("accuracy", "ece", "nll") if record[key] is not None}
            if record["detection"]:
                values["auroc"] = record["detection"]["max_probability"]["auroc"]
            cells[record["corruption"] or "", record["severity"]] = values
    return cells


def _spreads(values: Sequence[dict[str, float]]) -> dict[str, Spread]:
    keys = [key for key in values[0] if all(key in each for each in values)]
    return {key: spread([each[key] for each in values]) for key in keys}


def _mean(cells: Cells, shared: Sequence[Place]) -> dict[str, float]:
    shifted = [cells[place] for place in shared if place != CLEAN]
    keys = [column.key for column in COLUMNS if shifted and all(column.key in values for values in shifted)]
    return {key: statistics.fmean(values[key] for values in shifted) for key in keys}


def _gaps(first: dict[int, dict[str, float]], other: dict[int, dict[str, float]]) -> dict[str, Estimate]:
    """Compare means over all shifted pictures, seed by seed."""
    found = {column.key: difference_of(first, other, column.key) for column in COLUMNS}
    return {key: gap for key, gap in found.items() if gap is not None}


def _ood(records: Sequence[Sequence[dict[str, Any]]], n: int) -> dict[str, dict[str, dict[str, float]]]:
    per_run = [
        {record["ood"]: record["detection"] for record in run if record["ood"] and record["n"] == n} for run in records
    ]
    names = [name for name in per_run[0] if all(name in each for each in per_run)]
    return {
        name: {
            score: {key: statistics.fmean(each[name][score][key] for each in per_run) for key in values}
            for score, values in per_run[0][name].items()
        }
        for name in names
    }


def _row_json(row: ShiftRow) -> dict[str, Any]:
    cells: dict[str, dict[str, Any]] = {}
    for (name, severity), values in row.cells.items():
        cells.setdefault(name or "clean", {})[str(severity)] = {k: dataclasses.asdict(v) for k, v in values.items()}
    gaps = row.difference
    return {
        "label": row.row.label,
        "seeds": list(row.seeds),
        "clean": cells.pop("clean")["0"],
        "mean": {key: dataclasses.asdict(value) for key, value in row.mean.items()},
        "difference": None if gaps is None else {key: dataclasses.asdict(value) for key, value in gaps.items()},
        "corruptions": cells,
        "ood": row.ood,
    }
