"""Quality on shifted data: what ``shift.jsonl`` of several runs says, side by side."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.report.summary import Column, Difference, Row, Spread, Summary, paired_difference, spread_of

COLUMNS = (
    Column("accuracy", "accuracy", percent=True, lower_is_better=False),
    Column("ece", "ECE", percent=True, lower_is_better=True),
    Column("nll", "NLL", percent=False, lower_is_better=True),
    Column("auroc", "AUROC", percent=True, lower_is_better=False),
)
CLEAN = ("", 0)

Place = tuple[str, int]  # corruption, severity
Cells = dict[Place, dict[str, float]]


@dataclass(frozen=True)
class ShiftRow:
    """One method on shifted data: means over its seeds."""

    row: Row
    seeds: tuple[int, ...]
    cells: dict[Place, dict[str, Spread]]
    mean: dict[str, Spread]  # over all corruptions and severities that every run has
    difference: dict[str, Difference] | None
    ood: dict[str, dict[str, dict[str, float]]]  # data set, score, measure


@dataclass(frozen=True)
class ShiftSummary:
    """All methods on the same shifted pictures."""

    rows: tuple[ShiftRow, ...]
    corruptions: tuple[str, ...]
    severities: tuple[int, ...]
    n: int
    published: str | None = None  # folder of the corrupted pictures; None where they were made here

    def to_json(self) -> dict[str, Any]:
        """Write it for machines: fractions, not percent."""
        return {
            "n": self.n,
            "published": self.published,
            "corruptions": list(self.corruptions),
            "severities": list(self.severities),
            "rows": [_row_json(row) for row in self.rows],
        }

    @property
    def origin(self) -> str:
        """Say which pictures they are."""
        return f"test pictures as published in {Path(self.published).name}" if self.published else "test pictures"

    def verdict(self) -> str:
        """Say in one or two sentences what the shift did to calibration."""
        known = [row for row in self.rows if "ece" in row.mean]
        if not known:
            return "Nothing but strange data sets was measured."
        best = min(known, key=lambda row: row.mean["ece"].mean)
        clean = best.cells[CLEAN]["ece"].mean
        text = f"{best.row.label} {'is best calibrated' if len(known) > 1 else 'loses calibration'} under shift: "
        if len(known) == 1 and clean >= best.mean["ece"].mean:
            text = f"{best.row.label} keeps its calibration under shift: "
        text += (
            f"ECE {100 * clean:.1f} % on clean and {100 * best.mean['ece'].mean:.1f} % on shifted pictures, "
            f"accuracy {100 * best.cells[CLEAN]['accuracy'].mean:.1f} % and {100 * best.mean['accuracy'].mean:.1f} %."
        )
        return text


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
        first = {run.spec.seed: found[run.path] for run in summary.rows[0].runs}
        rows.append(
            ShiftRow(
                row,
                tuple(sorted(per_seed)),
                {place: _spreads([cells[place] for cells in per_seed.values()]) for place in shared},
                _spreads([_mean(cells, shared) for cells in per_seed.values()]),
                _gaps(first, per_seed, shared) if rows else None,
                _ood([records[run.path] for run in row.runs], n),
            )
        )
    shifted = [place for place in shared if place != CLEAN]
    names, levels = dict.fromkeys(name for name, _ in shifted), sorted({level for _, level in shifted})
    return ShiftSummary(tuple(rows), tuple(names), tuple(levels), n, source)


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
    return {key: spread_of([each[key] for each in values]) for key in keys}


def _mean(cells: Cells, shared: Sequence[Place]) -> dict[str, float]:
    shifted = [cells[place] for place in shared if place != CLEAN]
    keys = [column.key for column in COLUMNS if shifted and all(column.key in values for values in shifted)]
    return {key: statistics.fmean(values[key] for values in shifted) for key in keys}


def _gaps(first: dict[int, Cells], other: dict[int, Cells], shared: Sequence[Place]) -> dict[str, Difference]:
    """Compare means over all shifted pictures, seed by seed."""
    pairs = [(_mean(first[seed], shared), _mean(other[seed], shared)) for seed in sorted(first.keys() & other.keys())]
    keys = pairs[0][0] if pairs else ()
    return {key: paired_difference([theirs[key] - ours[key] for ours, theirs in pairs]) for key in keys}


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
