"""Prediction sets for the terminal and for notebooks, from their JSON."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from surefoot.report.numbers import show_count

Json = Mapping[str, Any]
FEW = 5  # classes shown where there is little room
MANY = 100
_SIZES = 12


class Grid(NamedTuple):
    """A table: its name, the heads of its columns, its rows, and what must be said below it."""

    name: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


def grids(found: Json, most: int = FEW) -> list[Grid]:
    """Lay everything out as tables.

    Args:
        found: As ``FittedSets.to_json`` writes it.
        most: How many classes to show.

    Returns:
        Those that have rows.
    """
    measured = found["measured"]
    level = f"{100 * measured['coverage']['level']:.0f} %"
    listed = [
        _compared(found),
        _sized(measured),
        Grid(
            "Coverage by size of the set", ("set size", *_HEADS[:3]), [_row(each)[:4] for each in measured["by_size"]]
        ),
        _classes(measured, most),
        Grid(
            "Coverage by group", ("group", *_HEADS), [_row(each) for each in measured["groups"]], _flag(measured, level)
        ),
    ]
    return [grid for grid in listed if grid is not None and grid.rows]


_HEADS = ("rows", "covered %", "interval", "classes in set", "")


def _compared(found: Json) -> Grid | None:
    if found["comparison"] is None:
        return None
    comparison = found["comparison"]
    rows = [
        (
            f"{each['method']} ★" if each["method"] == comparison["best"] else each["method"],
            f"{each['mean_size']['estimate']:.2f}",
            _percent(each["coverage"]["estimate"]),
            _percent(each["singletons"]),
            _percent(each["empty"]),
            _percent(each["worst_class"]),
            _percent(each["worst_size"]),
        )
        for each in comparison["candidates"]
    ]
    left = f" Too few rows for {', '.join(comparison['left_out'])}." if comparison["left_out"] else ""
    note = f"On rows that each was not fitted on, {comparison['n_folds']} parts. ★ the one to use.{left}"
    heads = ("score", "size", "covered %", "one class %", "none %", "worst class %", "worst size %")
    return Grid("Scores", heads, rows, note)


def _sized(measured: Json) -> Grid:
    shown = measured["sizes"][:_SIZES]
    rows = [(show_count(size), _percent(share)) for size, share in shown]
    if rest := measured["sizes"][_SIZES:]:
        rows.append((f"{rest[0][0]}–{rest[-1][0]}", _percent(sum(share for _, share in rest))))
    return Grid("Sizes", ("set size", "rows %"), rows)


def _classes(measured: Json, most: int) -> Grid:
    classes = measured["classes"]
    shown = classes[:most]
    rest = len(classes) - len(shown)
    note = f"The worst {len(shown)} of {show_count(len(classes))}. " if rest else ""
    level = f"{100 * measured['coverage']['level']:.0f} %"
    return Grid("Coverage by class", ("class", *_HEADS), [_row(each) for each in shown], note + _flag(measured, level))


def _flag(measured: Json, level: str) -> str:
    wanted = f"{100 * measured['wanted']:g} %"
    return f"● below {wanted} by more than chance explains, at {level}, for how many were looked at (Holm)."


def _row(each: Json) -> tuple[str, ...]:
    coverage = each["coverage"]
    return (
        f"{each['column']} = {each['value']}" if each["column"] else str(each["value"]),
        show_count(each["n"]),
        _percent(coverage["estimate"]),
        f"{_percent(coverage['low'])}–{_percent(coverage['high'])}",
        f"{each['mean_size']:.2f}",
        "●" if each["under"] else "",
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def sets_text(found: Json) -> Iterator[RenderableType]:
    """Lay prediction sets out for a terminal, the sentence first.

    Args:
        found: As ``FittedSets.to_json`` writes it.

    Yields:
        What rich prints.
    """
    for doubt in found["doubts"]:
        yield Text(f"Doubt: {doubt}", "bold")
    yield Text(f"{found['sentence']}.", "bold")
    for grid in grids(found):
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
        for number, head in enumerate(grid.heads):
            table.add_column(head, justify="right" if number else "left", no_wrap=number > 0)
        for row in grid.rows:
            table.add_row(*row)
        yield ""
        yield table
        if grid.note:
            yield Text(grid.note)
    yield ""
    yield from (Text(line) for line in sets_facts(found))


def sets_facts(found: Json) -> list[str]:
    """List what was read, measured and chosen, one line each.

    Args:
        found: As ``FittedSets.to_json`` writes it.

    Returns:
        Lines.
    """
    measured = found["measured"]
    lines = [f"Read: {found['file']}, {show_count(found['n'])} rows: {found['took']}."]
    lines.append(f"Measured on: {measured['on']}.")
    if found["comparison"] is not None:
        lines.append(f"Chosen: {found['comparison']['best']}, {found['comparison']['reason']}.")
    behind = f" behind the calibrator {found['calibrator']}" if found["calibrator"] else ""
    per_class = ", a threshold for each class" if found["per_class"] else ""
    lines.append(f"Sets: {found['method']}{behind}{per_class}, fitted on {show_count(sum(found['rows']))} rows.")
    if measured["usual"] is not None:
        low, high = measured["usual"]
        rows = show_count(measured["fitted_rows"])
        lines.append(
            f"Chance: with {rows} rows to fit on, coverage itself is between {_percent(low)} and {_percent(high)} % in "
            "95 of 100 cases."
        )
    return [*lines, *(f"Note: {note}" for note in found["notes"])]


def sets_html(found: Json) -> str:
    """Write prediction sets for a notebook: the sentence and the tables, without scripts.

    Args:
        found: As ``FittedSets.to_json`` writes it.

    Returns:
        HTML.
    """
    pieces = [f"<p><b>{html.escape(found['sentence'])}.</b></p>"]
    for grid in grids(found):
        heads = "".join(f"<th>{html.escape(head)}</th>" for head in grid.heads)
        rows = "".join(f"<tr>{_cells(row)}</tr>" for row in grid.rows)
        note = f"<p>{html.escape(grid.note)}</p>" if grid.note else ""
        pieces.append(f"<table><caption>{html.escape(grid.name)}</caption><tr>{heads}</tr>{rows}</table>{note}")
    return "<div>" + "".join(pieces) + "</div>"


def _cells(row: Sequence[str]) -> str:
    return "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
