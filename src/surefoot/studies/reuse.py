"""Runs that files of results hold, written back as folders, so that nobody makes them again.

A study's file keeps of a run what this study reads, and neither weights nor predictions. So a run is taken over only
where the files of all studies that are to read it hold it; then it has what each of them kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.atomic import write_text
from surefoot.evaluate import key_of
from surefoot.records import RunFolder
from surefoot.schema import Tracking

if TYPE_CHECKING:
    from surefoot.studies.results import SavedResult

Run = Mapping[str, Any]


def take_over(
    readers: Mapping[str, Sequence[str]], results: Mapping[str, SavedResult], folder: Path
) -> list[RunFolder]:
    """Write runs back as folders.

    Args:
        readers: By the name of a run, the studies that are to read it.
        results: What their files hold, by study; one that has no file yet is not among them.
        folder: Takes one folder per run; those that are there already stay as they are.

    Returns:
        Those that were written.
    """
    made = []
    for name, studies in readers.items():
        holders = [results[study] for study in studies if study in results and name in results[study].runs]
        if len(holders) < len(studies) or (folder / name).exists():
            continue
        cost = holders[0].values["cost"]
        each = cost["seconds"] / max(1, cost["runs"])  # that of one run is not kept
        run = unpack(merged([saved.runs[name] for saved in holders]), folder / name, seconds=each)
        write_text(run.path / "environment.json", json.dumps(holders[0].values["environment"]))
        made.append(run)
    return made


def merged(kept: Sequence[Run]) -> Run:
    """Join what several files keep of one run: every measure and every tracked quantity that one of them has."""
    tracked: dict[tuple[int, str], dict[str, Any]] = {}
    measures: dict[tuple[str, str], Run] = {}
    shift: dict[str, Run] = {}
    for run in kept:
        for record in run["tracked"]:
            tracked.setdefault((record["step"], record["tracker"]), {}).update(record)
        measures |= {(record["split"], key_of(record)): record for record in run["measures"]}
        shift |= {json.dumps(record, sort_keys=True): record for record in run["shift"]}
    joined = {
        "tracked": sorted(tracked.values(), key=lambda record: int(record["step"])),
        "measures": [measures[place] for place in sorted(measures)],
        "shift": list(shift.values()),
    }
    return {**kept[0], **joined, "tracking": _joined([run.get("tracking") for run in kept])}


def _joined(asked: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    found = [Tracking(tuple(each["trackers"]), each.get("budget")) for each in asked if each]
    every = found[0] if found else Tracking()
    for each in found[1:]:
        every = every if every.covers(each) else every.joined(each)
    return {"trackers": list(every.trackers), "budget": every.budget}


def unpack(run: Run, path: Path, *, seconds: float = 0.0) -> RunFolder:
    """Write what is kept of a run as a run folder.

    Args:
        run: Its records.
        path: The folder, which must not exist.
        seconds: How long it took, which is not kept.

    Returns:
        The folder.
    """
    path.mkdir(parents=True)
    header = {key: run[key] for key in ("spec", "data", "tracking") if key in run} | {"id": run["run"]}
    done = {"seconds": seconds, **run["done"]}
    last = [{"step": done["steps"]}] if "steps" in done else []
    lines = {"steps": [*run["tracked"], *last], "measures": run["measures"], "shift": run["shift"]}
    for name, records in lines.items():
        write_text(path / f"{name}.jsonl", "".join(json.dumps(record) + "\n" for record in records))
    for name, content in {"spec": header, "done": done}.items():
        write_text(path / f"{name}.json", json.dumps(content))
    return RunFolder(path)
