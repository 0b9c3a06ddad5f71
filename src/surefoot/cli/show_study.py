"""``surefoot study show``: a study's result, read back from its file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from surefoot.errors import InputError
from surefoot.harmless import harmless, json_text

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
        print(json_text({**saved.values, "figures": figures}))
        return
    _print(saved)
    names = ", ".join(drawing.figure for drawing in saved.drawings)
    if names:
        print(harmless(f"Figures: {', '.join(figures) if figures else f'add --out FOLDER to draw {names}'}"))
    print(harmless(f"Read: {path}, with the records of {len(saved.runs)} runs"))


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
    from surefoot.studies.choices import choices_of
    from surefoot.studies.pages import failures_of, is_finished, measured_on, numbers_of, progress, rule_of, table_of

    values = saved.values
    print(harmless(f"{values['claim']}: {values['question']}"), end="\n\n")
    if not is_finished(values):
        print(harmless(f"Not finished: {progress(values)}; what follows is of the others alone."), end="\n\n")
    print(harmless(f"{rule_of(values)}"), end="\n\n")
    print(
        harmless(f"Published: {values['source'] or 'nothing'}. Measured: {measured_on(values)}, mean ± sd."), end="\n\n"
    )
    print("\n".join(_lines(*table_of(values["table"]))))
    choices = choices_of(values)
    if choices:
        print("\nChosen by NLL on the calibration split:")
    for choice in choices:
        print(harmless(f"  {choice}"))
    print("\nNumbers that the rule goes by:")
    for name, number in numbers_of(values):
        print(harmless(f"  {name}: {number}"))
    for failure in failures_of(values):
        print(harmless(f"  failed: {failure}"))
    print()
    print(harmless(f"Verdict: {saved.verdict}"))
    print(harmless(f"Command: {values['command']}"))


def _lines(heads: list[str], rows: list[list[str]]) -> list[str]:
    """Lay a table out in columns, heads in two lines; it takes the width that it needs, so that no number is cut."""
    quantities, kinds = zip(*(head.rpartition(", ")[::2] for head in heads), strict=True)
    table = [list(quantities), list(kinds), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join([
            cells[0].ljust(widths[0]),
            *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True)),
        ]).rstrip()
        for cells in table
    ]
