"""``surefoot study show``: a study's result, read back from its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.studies import SavedResult

PLACES = (Path("surefoot-runs") / "studies" / "results", Path("results"))


def show_study(name: str, results: Path | None, out: Path | None, as_json: bool) -> None:
    """Print question, rule, table and verdict of a study, and draw its figures where a folder is given for them.

    Args:
        name: The study, or its file.
        results: Folder with the files of studies; else the first of ``PLACES`` that has this one.
        out: Folder for figures.
        as_json: Print the plain values instead.
    """
    from surefoot.studies import load_result

    path = _find(name, results)
    saved = load_result(path)
    figures = [str(figure) for figure in saved.draw(out)] if out is not None else []
    if as_json:
        print(json.dumps({**saved.values, "figures": figures}, indent=2, ensure_ascii=False))
        return
    _print(saved)
    names = ", ".join(drawing.figure for drawing in saved.drawings)
    if names:
        print(f"Figures: {', '.join(figures) if figures else f'add --out FOLDER to draw {names}'}")
    print(f"Read: {path}, with the records of {len(saved.runs)} runs")


def _find(name: str, results: Path | None) -> Path:
    from surefoot.studies.results import SUFFIX, place_of
    from surefoot.studies.runner import read_name

    if name.endswith(SUFFIX):
        return Path(name)
    places = PLACES if results is None else (results,)
    for path in (place_of(read_name(name), folder) for folder in places):
        if path.exists():
            return path
    looked = " and ".join(map(str, places))
    raise InputError(
        f"Expected a result of {name!r}, but there is none in {looked}. Run `surefoot study {name}` first."
    )


def _print(saved: SavedResult) -> None:
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    from surefoot.studies.pages import failures_of, measured_on, numbers_of, table_of

    values, console = saved.values, Console(highlight=False, markup=False)
    width = console.width
    console.print(f"{values['claim']}: {values['question']}\n")
    console.print(f"Rule, written before the runs: {values['rule']}\n")
    console.print(f"Published: {values['source']}. Measured: {measured_on(values)}, mean ± sd.")
    heads, rows = table_of(values["table"])
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in heads:  # numbers are never broken over lines: a wide table runs over the edge instead
        table.add_column("\n".join(head.rsplit(", ", 1)), justify="right" if head else "left", no_wrap=bool(head))
    for row in rows:
        table.add_row(*row)
    console.width = max(console.width, Measurement.get(console, console.options, table).minimum)
    console.print(table)
    console.width = width
    console.print("\nNumbers that the rule goes by:")
    for name, number in numbers_of(values):
        console.print(f"  {name}: {number}")
    for failure in failures_of(values):
        console.print(f"  failed: {failure}")
    console.print(f"\nVerdict: {saved.verdict}")
    print(f"Command: {values['command']}")
