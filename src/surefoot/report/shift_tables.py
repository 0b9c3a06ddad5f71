"""Quality on shifted data for the terminal."""

from __future__ import annotations

import statistics

from rich import box
from rich.table import Table
from rich.text import Text

from surefoot.report.numbers import show_count, show_difference, show_spread
from surefoot.report.quantities import QUANTITIES
from surefoot.report.shift import CLEAN, COLUMNS, ShiftSummary
from surefoot.report.shift_figures import words


def _table(caption: str) -> Table:
    text = Text(caption, "dim", justify="left")
    return Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, caption=text, caption_justify="left")


def shift_table(shift: ShiftSummary) -> Table:
    """Lay out one row per method: clean, then shifted, then the paired difference to the first method."""
    table = _table(f"{show_count(shift.n)} {shift.origin}: clean → mean over all corruptions and severities.")
    table.add_column("method", overflow="fold")
    for column in COLUMNS:
        table.add_column(column.heading, justify="right")
    for row in shift.rows:
        cells = []
        for column in COLUMNS:
            clean = row.cells[CLEAN].get(column.key)
            start = f"{show_spread(clean, column)} → " if clean else ""
            cell = Text(f"{start}{show_spread(row.mean[column.key], column)}")
            if row.difference and column.key in row.difference:
                cell.append(f"\n{show_difference(row.difference[column.key], column)}", "dim")
            cells.append(cell)
        table.add_row(Text(row.row.label, "bold"), *cells)
    return table


def corruption_table(shift: ShiftSummary) -> Table:
    """Lay out ECE and accuracy per corruption, means over severities, one pair of columns per method."""
    pair = [QUANTITIES[key] for key in ("accuracy", "ece")]
    table = _table(f"{' / '.join(each.label for each in pair)}, %, mean over severities.")
    table.add_column("corruption")
    for row in shift.rows:
        table.add_column(Text(row.row.label), justify="right", overflow="fold")
    for name in shift.corruptions:
        cells = []
        for row in shift.rows:
            found = [row.cells[name, level] for level in shift.severities if (name, level) in row.cells]
            means = [100 * statistics.fmean(cell[key].mean for cell in found) for key in (each.key for each in pair)]
            cells.append(f"{means[0]:.1f} / {means[1]:.1f}")
        table.add_row(words(name), *cells)
    return table


def ood_table(shift: ShiftSummary) -> Table:
    """Lay out how well out-of-distribution data sets are told from the test pictures."""
    table = _table("Out-of-distribution pictures told from clean ones by the largest probability, %.")
    for heading in ("data", "method", "AUROC", "AUPR", "FPR95"):
        table.add_column(heading, justify="left" if heading in ("data", "method") else "right")
    for row in shift.rows:
        for name, scores in row.ood.items():
            values = scores["max_probability"]
            shown = (f"{100 * values[key]:.1f}" for key in ("auroc", "aupr_in", "fpr95"))
            table.add_row(Text(name), Text(row.row.label), *shown)
    return table
