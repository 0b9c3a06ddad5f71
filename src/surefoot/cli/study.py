"""The commands that rerun published claims and draw the papers' figures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot.api import find_place, read_seeds
from surefoot.cli.app import AsJson, app
from surefoot.cli.options import options_of
from surefoot.cli.show_study import show_study
from surefoot.cli.watch import WatchIt, watched
from surefoot.errors import InputError
from surefoot.harmless import harmless, json_text
from surefoot.options import one_of
from surefoot.settings import Placement, spread

if TYPE_CHECKING:
    from surefoot.studies.contract import Size
    from surefoot.studies.runner import Plan, Result

OUT = Path("surefoot-runs") / "studies"


@spread
def read_placement(*, placement: Placement) -> Placement:
    """Gather where runs are made from the flags that say so."""
    return placement


@app.command()
@options_of(read_placement)
def study(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Studies such as a1 b6, or all; list: the questions; show a4: a result; results: the page."
        ),
    ],
    options: dict[str, Any],
    size: Annotated[
        str, typer.Option(help="smoke: seconds; laptop: minutes on 2 cores; paper: as published.")
    ] = "laptop",
    seeds: Annotated[str | None, typer.Option(help="How many seeds, or which; else the study's own number.")] = None,
    resume: Annotated[bool, typer.Option(help="Keep finished runs and go on with interrupted ones.")] = True,
    reuse: Annotated[
        bool, typer.Option("--reuse", help="Take runs over that the files in --results hold, instead of making them.")
    ] = False,
    finished: Annotated[
        bool, typer.Option("--finished", help="Judge the runs that are finished, and make no others.")
    ] = False,
    out: Annotated[
        str | None,
        typer.Option(
            help=f"Folder for the runs, which studies share, or an address such as s3://bucket/runs; else {OUT}. "
            "With show: for figures."
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="Folder for results, one file each; else OUT/results. RESULTS.md goes beside it."),
    ] = None,
    watch: WatchIt = False,
    as_json: AsJson = False,
) -> int:
    """Rerun published claims and say whether each held, with the numbers beside the published ones.

    Example: [bold]surefoot study a1 a4 --size laptop --seeds 5[/bold], then [bold]surefoot study show a4[/bold]

    On many machines: [bold]surefoot study all --engine ray --address auto --out s3://bucket/runs[/bold]
    """
    if names == ["list"]:
        _list(as_json)
        return 0
    if names[0] == "show":
        if not names[1:]:
            raise InputError("Expected the name of a study, but got none. Write surefoot study show a4.")
        for name in names[1:]:
            show_study(name, results, Path(out) if out else None, as_json)
        return 0
    where = results or _local(out or OUT) / "results"
    if names == ["results"]:
        from surefoot.studies.results import write_page

        print(harmless(f"Results: {write_page(where)}"))
        return 0
    place, placement = find_place(out or OUT, read_placement(**options))
    chosen = None if seeds is None else read_seeds(seeds)
    if reuse and not resume:
        raise InputError("Expected --reuse or --no-resume, but got both: one keeps runs, the other does not. Drop one.")
    if finished and not resume:
        raise InputError(
            "Expected --finished or --no-resume, but got both: one makes no runs, the other makes all anew. Drop one."
        )
    more = "" if seeds is None else f" --seeds {seeds}"
    with watched(place, watch):
        made = _run(names, _size(size), chosen, not resume, reuse, finished, placement, place, where, more)
    _present(made, where, as_json)
    if placement.store and not as_json:
        print(harmless(f"Kept at: {placement.store}, and in {place} here"))
    return 1 if any(result.runs.failed for result in made) else 0


@app.command()
def figure(
    name: Annotated[str, typer.Argument(help="As `surefoot list figures` shows it; options as sweep:over=gamma.")],
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold some.")],
    out: Annotated[Path, typer.Option(help="The file: .pdf, .png or .svg.")] = Path("figure.pdf"),
) -> None:
    """Draw a figure of the papers from run folders.

    Example: [bold]surefoot figure reliability surefoot-runs --out reliability.pdf[/bold]
    """
    from surefoot.records import check_output, find_runs
    from surefoot.report.paper import draw

    found = find_runs(runs)
    check_output(out, (path for run in found for path in run.files()))
    if not draw(name, found, out):
        raise InputError(
            f"Expected runs that recorded what {name!r} shows, but they did not. Run `surefoot measure` or use --track."
        )
    print(harmless(f"Figure: {out}"))


def _local(out: str | Path) -> Path:
    """Return the folder on this machine for what is kept in a folder or at an address."""
    from surefoot.records.remote import cache_of, is_address

    return cache_of(str(out)) if is_address(out) else Path(out)


def _size(text: str) -> Size:
    from surefoot.studies.contract import SIZES

    return one_of(text, SIZES, "--size")


def _run(
    names: Sequence[str],
    size: Size,
    seeds: Sequence[int] | None,
    fresh: bool,
    reuse: bool,
    finished: bool,
    placement: Placement,
    out: Path,
    results: Path,
    options: str,
) -> list[Result]:
    from surefoot.cli.progress import showing
    from surefoot.studies.results import check_results, write_result
    from surefoot.studies.runner import find_studies, judge, plan_studies, run_studies

    studies = find_studies(names)
    check_results(results, list(studies))
    plans, jobs = plan_studies(studies, size, out.resolve(), seeds=seeds, fresh=fresh, store=placement.store)
    if reuse:
        _reuse(plans, results, out.resolve())

    def keep(result: Result) -> None:
        """Write a result as soon as it is there, with the command that makes this study alone."""
        write_result(result, results, f"surefoot study {result.plan.name} --size {size}{options}")

    if finished:
        made = [judge(plan) for plan in plans]
        for result in made:
            keep(result)
            n = len(result.missing())
            print(f"{result.plan.claim}: {n} run{'s are' if n != 1 else ' is'} still to be made", file=sys.stderr)
        return made
    with showing(jobs) as listen:
        return run_studies(plans, jobs, placement=placement, listen=listen, finish=keep)


def _reuse(plans: Sequence[Plan], results: Path, out: Path) -> None:
    """Write runs that results hold back as folders, and say how many."""
    from surefoot.studies.results import load_result, place_of
    from surefoot.studies.reuse import take_over

    readers: dict[str, list[str]] = {}
    for plan in plans:
        for path in dict.fromkeys(plan.places.values()):
            readers.setdefault(path.name, []).append(plan.name)
    files = {plan.name: place_of(plan.name, results) for plan in plans}
    taken = take_over(readers, {name: load_result(path) for name, path in files.items() if path.exists()}, out)
    print(f"{len(taken)} of {len(readers)} runs taken over from {results}", file=sys.stderr)


def _present(made: Sequence[Result], results: Path, as_json: bool) -> None:
    from surefoot.studies.results import load_result, place_of, place_of_page, write_page

    try:  # the answer first: it must not be lost with a page that cannot be written
        if as_json:
            names = [result.plan.name for result in made]
            found: dict[str, Any] = {name: load_result(place_of(name, results)).values for name in names}
            print(json_text({"studies": found, "page": str(place_of_page(results))}))
        else:
            for result in made:
                print(harmless(f"{result.plan.claim}: {result.verdict}"))
                for arm, errors in result.runs.failed.items():
                    for seed, error in errors.items():
                        print(harmless(f"  {arm}, seed {seed}, failed: {error}"))
    finally:
        page = write_page(results)
    if not as_json:
        print(harmless(f"Results: {page}"))


def _list(as_json: bool) -> None:
    from surefoot.studies.runner import find_studies

    found = find_studies(["all"])
    if as_json:
        text = {
            name: {
                "question": each.question,
                "rule": each.rule,
                "fixed": str(each.fixed or ""),
                "differs": each.differs,
            }
            for name, each in found.items()
        }
        print(json_text(text))
        return
    from rich.table import Table

    from surefoot.cli.console import terminal

    table = Table("name", "question", "seeds", box=None, padding=(0, 2, 0, 0))
    for name, each in found.items():
        table.add_row(name, each.question, ", ".join(f"{size} {n}" for size, n in each.seeds.items()))
    terminal().print(table)
