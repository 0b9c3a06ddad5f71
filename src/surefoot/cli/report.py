"""The commands on runs that are there: ``measure`` and ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.app import RUNS, AsJson, Metrics, Threads, Trust, app
from surefoot.harmless import harmless, json_text


@app.command()
def measure(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold some.")],
    track: Annotated[str, typer.Option(help="What to measure: cheap, standard, full, or trackers by name.")] = "full",
    threads: Threads = 1,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Measure finished runs after the fact, at their checkpoints: curvature, margins, certificates.

    What was measured is added to the run folders, where `surefoot report` finds it.

    Example: [bold]surefoot measure surefoot-runs --track full[/bold]
    """
    from surefoot.records import find_runs
    from surefoot.trackers import read_track
    from surefoot.trained import measure as measure_run

    trackers = read_track(track)
    found = {str(run.path): measure_run(run.path, trackers, threads=threads, trust=trust) for run in find_runs(runs)}
    if as_json:
        print(json_text(found))
        return
    for path, records in found.items():
        print(harmless(path))
        for record in records:
            print(harmless(f"  {record['tracker']}, step {record['step']}"))
            values = {key: value for key, value in record.items() if "/" in key or key == "failed"}
            for key, value in values.items():
                print(
                    harmless(
                        f"    {key:<44} {value if value is None or isinstance(value, str) else format(value, '.5g')}"
                    )
                )


@app.command()
def report(
    runs: Annotated[list[Path] | None, typer.Argument(help="Run folders, or folders that hold some.")] = None,
    out: Annotated[Path | None, typer.Option(help="The page; else report.html beside the runs.")] = None,
    metrics: Metrics = None,
    as_json: AsJson = False,
) -> None:
    """Build the table and the page again from run folders; the first run's method is the baseline.

    Example: [bold]surefoot report surefoot-runs --metrics accuracy,ece,smooth_ece --out report.html[/bold]
    """
    from surefoot.cli.show import show_summary
    from surefoot.metric_keys import read_metrics
    from surefoot.records import check_output, find_runs
    from surefoot.report.summary import summarise

    shown = read_metrics(metrics) if metrics else None
    where = runs or [RUNS]
    found = find_runs(where)
    first = where[0]
    beside = first.parent if (first / "spec.json").exists() else first
    page = out or beside / "report.html"
    check_output(page, (path for run in found for path in run.files()))
    show_summary(summarise(found, shown), page, as_json)
