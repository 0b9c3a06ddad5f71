"""Results on disk, and the page made of them.

::

    RESULTS.md                 one line per claim, made of everything below
    results/
      <study>/result.json      table, numbers, verdict, rule, command, cost, environment
      <study>/README.md        the same for people, with its figures
      <study>/<figure>.png
      runs/<run>.jsonl.gz      what each run recorded, once for all studies; no weights, no data

Nothing in them names a machine or a person.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import surefoot
from surefoot.errors import InputError
from surefoot.records import RunFolder, write_bytes
from surefoot.statistics import Estimate
from surefoot.studies._markdown import page_of, result_page
from surefoot.studies.contract import Row, Table
from surefoot.studies.runner import Result

RUNS = "runs"


def write_result(result: Result, results: Path, command: str) -> Path:
    """Write a study's results, its figures and the records of its runs.

    Args:
        result: What was found.
        results: Takes one folder per study.
        command: What makes it again.

    Returns:
        The study's folder.
    """
    folder = results / result.plan.name
    folder.mkdir(parents=True, exist_ok=True)
    kept = {run.path.name: run for run in result.runs.all()}
    for name, run in kept.items():
        write_run(run, results / RUNS / f"{name}.jsonl.gz")
    values = to_json(result, command, _draw(result, folder))
    text = json.dumps(values, indent=1, ensure_ascii=False) + "\n"
    write_bytes(folder / "result.json", text.encode())
    write_bytes(folder / "README.md", result_page(values).encode())
    return folder


def to_json(result: Result, command: str, figures: list[str]) -> dict[str, Any]:
    """Write a result as plain JSON values."""
    study, runs = result.plan.study, result.runs
    every = runs.all()
    costs = [run.done() or {} for run in every]
    return {
        "study": result.plan.name,
        "claim": study.claim,
        "question": study.question,
        "source": study.source,
        "rule": study.rule,
        "size": result.plan.size,
        "seeds": sorted({seed for _, seed in result.plan.places}),
        "verdict": dataclasses.asdict(result.verdict),
        "numbers": _numbers(result.analysis.numbers),
        "table": _table(result.analysis.table),
        "command": command,
        "cost": {
            "runs": len(costs),
            "passes": sum(cost.get("passes", 0) for cost in costs),
            "seconds": round(sum(cost.get("seconds", 0) + cost.get("tracking_seconds", 0) for cost in costs), 1),
        },
        "setting": _setting(every) if every else {},
        "environment": every[0].environment if every else {"surefoot": surefoot.__version__},
        "arms": {arm: [run.path.name for run in found.values()] for arm, found in runs.found.items()},
        "failed": {arm: {str(seed): str(e) for seed, e in errors.items()} for arm, errors in runs.failed.items()},
        "figures": figures,
    }


def _numbers(numbers: Mapping[str, Estimate]) -> dict[str, Any]:
    """Write numbers; JSON has null where one is not known."""
    every = {name: dataclasses.asdict(number) for name, number in numbers.items()}
    return {name: {**each, "value": each["value"] if numbers[name].is_known else None} for name, each in every.items()}


def _table(table: Table) -> dict[str, Any]:
    return {
        "columns": [dataclasses.asdict(column) for column in table.columns],
        "rows": [_row(row) for row in table.rows],
    }


def _row(row: Row) -> dict[str, Any]:
    known = {key: dataclasses.asdict(spread) if spread.n else None for key, spread in row.measured.items()}
    return {"label": row.label, "published": dict(row.published), "measured": known}


def _setting(runs: Sequence[RunFolder]) -> dict[str, Any]:
    """Say on what a study ran: data, network and schedule of its first run, and every length that there was."""
    spec = runs[0].spec
    return {
        "data": _anonymous(str(spec.data)),
        "model": str(spec.model),
        "examples": runs[0].data["examples"],
        "lengths": [list(length) for length in dict.fromkeys((r.spec.epochs, r.spec.batch_size) for r in runs)],
        "schedule": spec.schedule,
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


def _draw(result: Result, folder: Path) -> list[str]:
    """Draw the study's figures; without matplotlib there are none."""
    from surefoot.report.paper import draw, is_possible

    if not is_possible():
        return []
    written = []
    for number, drawing in enumerate(result.plan.study.drawings, start=1):
        arms = [arm for arm in result.runs.found if arm.startswith(drawing.arms)]
        runs = [run for arm in arms for run in result.runs[arm].values()]
        path = folder / f"{number}-{drawing.figure.partition(':')[0]}.png"
        if runs and draw(drawing.figure, runs, path):
            written.append(path.name)
    return written


def write_run(run: RunFolder, path: Path) -> None:
    """Keep what a run recorded: a header, what trackers saw, and all measures; the same bytes every time.

    Args:
        run: A finished run.
        path: Ends in ``.jsonl.gz``.
    """
    header = {
        "run": run.run_id,
        "spec": _anonymous(run.spec.to_json()),
        "data": {key: value for key, value in run.data.items() if key != "classes"},
        "done": {key: value for key, value in (run.done() or {}).items() if "seconds" not in key},
    }
    lines = [header, *map(_brief, run.tracked()), *map(_brief, run.measures()), *map(_brief, run.shift())]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, gzip.compress(text.encode(), 9, mtime=0))


def _brief(record: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what the header says already, and digits beyond the eighth."""
    dropped = ("run", "seed", "label", "range", "lower_is_better", "unit", "digits", "meaning")
    return {key: _rounded(value) for key, value in record.items() if key not in dropped}


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return float(f"{value:.8g}") if isinstance(value, float) else value


def read_results(results: Path) -> list[dict[str, Any]]:
    """Read all results in the order of their claims.

    Args:
        results: Holds one folder per study.

    Returns:
        One dictionary each.

    Raises:
        InputError: If there are none.
    """
    found = [json.loads(path.read_text()) for path in sorted(results.glob("*/result.json"))]
    if not found:
        raise InputError(f"Expected results, but {results} holds none. Run `surefoot study all` first.")
    return sorted(found, key=lambda values: (values["claim"][0], int(values["claim"][1:])))


def write_page(results: Path) -> Path:
    """Make ``RESULTS.md`` beside the folder of results, out of nothing else.

    Args:
        results: Holds one folder per study.

    Returns:
        The page.
    """
    page = results.resolve().parent / "RESULTS.md"
    write_bytes(page, page_of(read_results(results), results.name).encode())
    return page


def rewrite_pages(results: Path) -> Path:
    """Make every study's page and the page of all again from the JSON."""
    for values in read_results(results):
        write_bytes(results / values["study"] / "README.md", result_page(values).encode())
    return write_page(results)
