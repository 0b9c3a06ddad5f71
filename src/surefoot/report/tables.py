"""The comparison for the terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from surefoot.report.measures import Measure
from surefoot.report.numbers import join, show_count, show_difference, show_spread
from surefoot.report.summary import MethodRow, Summary

_ROOMY = 104  # columns from which a difference and its interval fit side by side


def summary_table(summary: Summary, *, width: int = 80) -> Table:
    """Lay the comparison out for a terminal.

    Args:
        summary: The comparison.
        width: Columns of the terminal; in a narrow one an interval stands below its difference.

    Returns:
        A table with one row per method: the mean, then its paired difference to the first method.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, caption=_caption(summary), caption_justify="left")
    columns = summary.columns(brief=True)
    table.add_column("method", overflow="fold", min_width=6)  # the only one that may break
    for column in columns:
        table.add_column(column.heading, justify="right", no_wrap=True)
    table.add_column("passes", justify="right", no_wrap=True)
    table.add_column("sec", justify="right", no_wrap=True)
    for row in summary.rows:
        roomy = width >= _ROOMY
        seconds = f" {row.seconds.mean:.1f}" + (
            f" ± {row.seconds.sd:.1f}" if roomy and row.seconds.sd is not None else ""
        )
        cells = [_cell(row, column, roomy=roomy) for column in columns]
        table.add_row(_name(row), *cells, show_count(row.passes.mean), seconds)
    return table


def _name(row: MethodRow) -> Text:
    return Text(row.label, "bold").append(f"\nn = {len(row.seeds)}", "not bold dim")


def _cell(row: MethodRow, column: Measure, *, roomy: bool) -> Text:
    if column.key not in row.values:
        return Text("–  ", "dim")
    is_best = column.key in row.best
    cell = Text(f"{show_spread(row.values[column.key], column)} {'★' if is_best else ' '}", "bold" if is_best else "")
    if row.difference and column.key in row.difference:
        text = show_difference(row.difference[column.key], column)
        cell.append(f"\n{text if roomy else text.replace(' ', chr(10))}", "not bold dim")
    return cell


def _caption(summary: Summary) -> Text:
    text = "Mean ± sd over n seeds, on the test split."
    if len(summary.rows) > 1:
        behind = [column.label for column in summary.columns(brief=True) if "@" in column.key]
        fitted = f" (not for {join(behind)}: that was fitted there)" if behind else ""
        text += (
            f" ★ best mean on the calibration split{fitted}. "
            f"Below it: paired difference on test to {summary.rows[0].label} and its 95 % interval, percentages in "
            "points."
        )
    return Text(text, "dim", justify="left")
