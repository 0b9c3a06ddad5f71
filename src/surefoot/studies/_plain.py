"""Results and runs as plain JSON values, without what names a machine and without digits that nobody needs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence, Set
from pathlib import PurePath
from typing import Any

import surefoot
from surefoot.evaluate import OF_EVERY_RUN, key_of
from surefoot.records import RunFolder
from surefoot.registry import STUDIES
from surefoot.statistics import Estimate
from surefoot.studies._shifted import Shift
from surefoot.studies.contract import Row, Table
from surefoot.studies.runner import Result
from surefoot.studies.runs import Runs


def to_json(result: Result, command: str) -> dict[str, Any]:
    """Write what a study found."""
    study, runs = result.plan.study, result.runs
    every, shown = runs.all(), result.analysis.shown
    costs = [run.done() or {} for run in every]
    return {
        "study": result.plan.name,
        "claim": result.plan.claim,
        "statement": STUDIES[result.plan.name].summary.rstrip("."),
        "question": study.question,
        "source": study.source,
        "rule": study.rule,
        "fixed": str(study.fixed or ""),
        "differs": "" if result.plan.size == "paper" else study.differs,
        "headline": dataclasses.asdict(study.headline) if study.headline else None,
        "size": result.plan.size,
        "seeds": sorted({seed for _, seed in result.plan.places}),
        "verdict": dataclasses.asdict(result.verdict),
        "numbers": {name: _number(number) for name, number in result.analysis.numbers.items()},
        "table": _table(result.analysis.table),
        "command": command,
        "missing": len(result.missing()),
        "cost": {
            "runs": len(costs),
            "passes": sum(cost.get("passes", 0) for cost in costs),
            "seconds": round(sum(cost.get("seconds", 0) + cost.get("tracking_seconds", 0) for cost in costs), 1),
        },
        "setting": _setting(every) if every else {},
        "environment": every[0].environment if every else {"surefoot": surefoot.__version__},
        "arms": _names(runs),
        "shown": None if shown is None else _names(shown),
        "failed": {arm: {str(seed): str(e) for seed, e in errors.items()} for arm, errors in runs.failed.items()},
        "drawings": [dataclasses.asdict(drawing) for drawing in study.drawings],
    }


def _names(runs: Runs) -> dict[str, list[str]]:
    return {arm: [run.path.name for run in found.values()] for arm, found in runs.found.items()}


def _number(number: Estimate) -> dict[str, Any]:
    return {**dataclasses.asdict(number), "value": number.value if number.is_known else None}


def _table(table: Table) -> dict[str, Any]:
    return {
        "columns": [dataclasses.asdict(column) for column in table.columns],
        "rows": [_row(row) for row in table.rows],
    }


def _row(row: Row) -> dict[str, Any]:
    known = {key: dataclasses.asdict(spread) if spread.n else None for key, spread in row.measured.items()}
    return {"label": row.label, "published": dict(row.published), "measured": known}


def _setting(runs: Sequence[RunFolder]) -> dict[str, Any]:
    """Say on what a study ran: data, network and schedule of its first run, every length, and where else there is."""
    places: dict[tuple[str, str], list[RunFolder]] = {}
    for run in runs:
        data = re.sub(r"\bseed=\d+", "", str(run.spec.data))  # divided anew by each seed, they are the same data
        places.setdefault((data, str(run.spec.model)), []).append(run)
    first, *others = [_place(found) for found in places.values()]
    return {**first, "schedule": runs[0].spec.schedule} | ({"others": others} if others else {})


def _place(runs: Sequence[RunFolder]) -> dict[str, Any]:
    spec = runs[0].spec
    return {
        "data": _anonymous(str(spec.data)),
        "model": str(spec.model),
        "examples": runs[0].data["examples"],
        "lengths": [list(length) for length in dict.fromkeys((r.spec.epochs, r.spec.batch_size) for r in runs)],
    }


def _anonymous(value: Any) -> Any:
    """Keep file names and leave out where they lay."""
    if isinstance(value, Mapping):
        return {key: _anonymous(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_anonymous(each) for each in value]
    if isinstance(value, str) and "/" in value and PurePath(value.partition("=")[2] or value).is_absolute():
        return value.partition("=")[0] + "=" + PurePath(value).name if "=" in value else PurePath(value).name
    return value


def run_to_json(
    run: RunFolder,
    asked: Collection[tuple[str, str]] = (),
    followed: Set[str] | None = None,
    shift: Shift | None = None,
) -> dict[str, Any]:
    """Write what a finished run recorded: what trackers saw, its measures and those on shifted pictures.

    Args:
        run: The run. Another study may have left measures of its own there.
        asked: Which to write beside those that every run has, each a split and a key.
        followed: Tracked quantities to write; None writes all.
        shift: The shifted pictures whose measures to write.

    Returns:
        Plain values, the same whatever else was computed of the run.
    """
    wanted = {*asked, *((split, key) for split, keys in OF_EVERY_RUN.items() for key in keys)}
    found = {(record["split"], key_of(record)): _brief(record) for record in run.measures()}
    done = {key: value for key, value in (run.done() or {}).items() if "seconds" not in key}
    steps = run.steps()
    return {
        "run": run.run_id,
        "spec": _anonymous(run.spec.to_json()),
        "data": {key: value for key, value in run.data.items() if key != "classes"},
        "tracking": dataclasses.asdict(run.tracking),
        "done": {**done, "steps": steps[-1]["step"]} if steps else done,
        "tracked": _tracked(run, followed),
        "measures": [found[place] for place in sorted(found) if place in wanted],
        "shift": [_brief(record) for record in run.shift() if shift is not None and shift.has(record)],
    }


def _tracked(run: RunFolder, followed: Set[str] | None) -> list[dict[str, Any]]:
    records = [_brief(record) for record in run.tracked()]
    if followed is None:
        return records
    wanted = [record for record in records if not followed.isdisjoint(record)]
    return [{k: v for k, v in record.items() if "/" not in k or k in followed} for record in wanted]


def _brief(record: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what is said above already, and digits beyond the eighth."""
    dropped = ("run", "seed", "label", "range", "lower_is_better", "unit", "digits", "meaning")
    return {key: _rounded(value) for key, value in record.items() if key not in dropped}


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return float(f"{value:.8g}") if isinstance(value, float) else value
