"""``surefoot conformal``: prediction sets from a file, and for new rows."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surefoot import api
from surefoot.cli.app import AsJson, app
from surefoot.cli.audit import NoWeights, _one_thread, _stem, _weights, _written_as
from surefoot.cli.options import options_of
from surefoot.cli.stdin import FORMAT, with_stdin
from surefoot.errors import InputError
from surefoot.harmless import harmless, json_text
from surefoot.places import place

if TYPE_CHECKING:
    from surefoot.auditing import AppliedSets

_TO_FIT = ("test", "method", "per_class", "calibrator", "group", "coverage", "level")


@app.command()
@options_of(api.conformal)
def conformal(
    file: Annotated[Path, typer.Argument(help="Predictions to fit on; or, with --apply, new ones to make sets of.")],
    options: dict[str, Any],
    apply_: Annotated[
        Path | None, typer.Option("--apply", help="Saved sets: add a set to every row of the file instead of fitting.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="sets.json to save; with --apply, what to write: .csv, .parquet, .jsonl, .npz…"),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write the page with coverage and sizes, such as sets.html.")
    ] = None,
    no_weights: NoWeights = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="With --apply, import a score of others that the sets name.")
    ] = False,
    format_: Annotated[str | None, typer.Option("--format", help=FORMAT)] = None,
    as_json: AsJson = False,
) -> None:
    """Make prediction sets that hold the true class as often as asked for, and say how large they are.

    A file with a calibration and a test set is fitted on the first and measured on the second.

    Example: [bold]surefoot conformal validation.npz --test test.npz --coverage 0.9[/bold], then
    [bold]surefoot conformal new.csv --apply sets.json --out with-sets.csv[/bold]
    """
    options["weights"] = _weights(options["weights"], no_weights)
    _one_thread()
    with with_stdin([file], format_) as (found,):
        if apply_ is not None:
            _apply(found, apply_, out, page, {**options, "trust": trust}, as_json)
        else:
            _fit(found, out, page, options, as_json)


def _fit(file: Path, out: Path | None, page: Path | None, options: dict[str, Any], as_json: bool) -> None:
    from surefoot.cli.progress import reading
    from surefoot.records import check_output
    from surefoot.sources import files_of

    target = place(out or "sets.json")
    if target.suffix != ".json":
        raise InputError(f"Expected --out to end in .json, but got {target.name!r}. Choose such a name.")
    inputs = [each for path in (file, options["test"]) if path for each in files_of(path, options["labels"])]
    inputs += [Path(options["calibrator"])] if options["calibrator"] else []
    check_output(target, inputs)
    if page is not None:
        check_output(page, [*inputs, target], option="--page")
        if page.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"Expected --page to end in .html, but got {page.name!r}. Choose such a name.")
    with reading(file.name) as on_rows:
        report = api.conformal(file, **options, on_rows=on_rows)
    report.save(target)
    if page is not None:
        report.write_page(page, command=shlex.join(["surefoot", *sys.argv[1:]]))
    if as_json:
        found = {**report.to_json(), "saved": str(target), "page": str(page) if page else None}
        print(json_text(found))
        return
    _print(report, target, page, _written_as(file))


def _print(report: api.SetsReport, target: Path, page: Path | None, ending: str) -> None:
    from rich.text import Text

    from surefoot.cli.console import terminal

    console = terminal()
    for part in report.parts():
        console.print(part, highlight=False, markup=False, soft_wrap=isinstance(part, str | Text))
    print(harmless(f"Saved: {target}"))
    if page is not None:
        print(harmless(f"Page: {page}"))
    print(harmless(f"Next: surefoot conformal NEW{ending} --apply {shlex.quote(str(target))} --out with-sets{ending}"))


def _apply(file: Path, sets: Path, out: Path | None, page: Path | None, options: dict[str, Any], as_json: bool) -> None:
    from surefoot.cli.progress import reading

    usual = {"coverage": 0.9, "level": 0.95}
    given = {name: options.pop(name) for name in _TO_FIT}
    said = [name for name, value in given.items() if value and value != usual.get(name)]
    if said or page is not None:
        flag = f"--{said[0].replace('_', '-')}" if said else "--page"
        raise InputError(f"Expected {flag} to fit sets or --apply to use saved ones, but got both. Leave one out.")
    target = out or Path(f"{_stem([file])}-sets{_written_as(file)}")
    with reading(file.name) as on_rows:
        applied = api.apply_sets(file, sets, target, **options, on_rows=on_rows)
    if as_json:
        print(json_text({**applied.to_json(), "written": str(target)}))
        return
    _print_applied(applied, target)


def _print_applied(applied: AppliedSets, target: Path) -> None:
    size = f"{applied.mean_size:.2f} classes on average, {100 * applied.singletons:.0f} % name one"
    empty = f", {100 * applied.empty:.0f} % none" if applied.empty >= 0.005 else ""
    found = applied.measures
    if found is None:
        print(harmless(f"sets of {size}{empty}; no labels to measure coverage by."))
    else:
        level, low, high = (100 * each for each in (found.coverage.level, found.coverage.low, found.coverage.high))
        interval = f"{level:.0f} % interval {low:.1f}–{high:.1f}"
        held = "" if found.holds else "; chance seldom gives so few, so these rows may not be like those fitted on"
        print(
            f"sets of {size}{empty}; the true class is in {100 * found.coverage.estimate:.1f} % of them, {interval}, "
            f"asked for {100 * found.wanted:g} %{held}."
        )
    for note in applied.notes:
        print(harmless(f"Note: {note}"))
    print(harmless(f"Read: {applied.file}, {applied.n:,} {'row' if applied.n == 1 else 'rows'}: {applied.took}."))
    print(harmless(f"Written: {target}"))
