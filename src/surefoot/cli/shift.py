"""``surefoot shift``: runs on corrupted pictures and on pictures of another kind."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surefoot.cli.app import AsJson, Threads, Trust, app
from surefoot.errors import InputError
from surefoot.harmless import harmless, json_text

if TYPE_CHECKING:
    from surefoot.report.shift import ShiftSummary


@app.command("shift")
def shift_runs(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold some.")],
    corruptions: Annotated[
        str, typer.Option(help="main (15), extra (4), all, none, noise, blur, weather, digital, or names.")
    ] = "main",
    severities: Annotated[str, typer.Option(help="Severities: 1-5, or 1,3,5.")] = "1-5",
    ood: Annotated[
        list[str] | None,
        typer.Option(help="Out-of-distribution data: uniform, shuffled or a data set; may be repeated."),
    ] = None,
    n: Annotated[int, typer.Option(help="How many test pictures.")] = 1000,
    files: Annotated[
        Path | None, typer.Option(help="Folder of CIFAR-10-C or CIFAR-100-C; else pictures are corrupted here.")
    ] = None,
    threads: Threads = 1,
    trust: Trust = False,
    out: Annotated[Path | None, typer.Option(help="The page; else shift.html beside the runs.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure finished runs on shifted data: accuracy, ECE, NLL and detection of out-of-distribution data.

    What has been measured is kept in the run folders and not measured again.

    Example: [bold]surefoot shift surefoot-runs --corruptions blur,fog --ood uniform[/bold]
    """
    from surefoot.cli.progress import counting
    from surefoot.data.corruptions import read_corruptions
    from surefoot.records import check_output, find_runs
    from surefoot.report.shift import summarise_shift
    from surefoot.report.shift_page import write_shift_page
    from surefoot.report.summary import summarise
    from surefoot.shift import conditions, shift

    names = () if corruptions == "none" else read_corruptions(corruptions)
    wanted = conditions(names, _read_severities(severities), ood or ())
    found = find_runs(runs)
    target = out or (runs[0].parent if (runs[0] / "spec.json").exists() else runs[0]) / "shift.html"
    published = [path for path in files.rglob("*") if path.is_file()] if files is not None else []
    check_output(target, [*published, *(path for run in found for path in run.files())])
    for run in found:
        with counting(run.path.name) as on_progress:
            shift(run.path, wanted, n=n, published=files, threads=threads, trust=trust, on_progress=on_progress)
    summary = summarise(found)
    measured = summarise_shift(summary, n=n, published=files)
    if measured is None:
        raise InputError("Expected measures on shifted data, but there are none. Run the command again.")
    command = shlex.join(["surefoot", *sys.argv[1:]])
    page = write_shift_page(summary, measured, target, command=command)
    _print(measured, page, as_json)


def _read_severities(text: str) -> list[int]:
    """Read 1-5, or 1,3,5."""
    try:
        first, dash, last = text.partition("-")
        levels = list(range(int(first), int(last) + 1)) if dash else [int(piece) for piece in text.split(",")]
    except ValueError as error:
        raise InputError(f"Expected severities as 1-5 or 1,3,5, but got {text!r}. Write --severities 1-5.") from error
    if not levels:
        raise InputError(f"Expected at least one severity, but got {text!r}. Write --severities 1-5.")
    return list(dict.fromkeys(levels))


def _print(measured: ShiftSummary, page: Path, as_json: bool) -> None:
    if as_json:
        print(json_text({**measured.to_json(), "report": str(page)}))
        return
    from surefoot.cli.console import terminal
    from surefoot.report.shift_tables import corruption_table, ood_table, shift_table

    console = terminal()
    tables = [shift_table(measured), corruption_table(measured)] if measured.corruptions else []
    if any(row.ood for row in measured.rows):
        tables.append(ood_table(measured))
    for table in tables:
        console.print(table, "")
    console.print(measured.verdict(), highlight=False, markup=False)
    print(harmless(f"Report: {page}"))
