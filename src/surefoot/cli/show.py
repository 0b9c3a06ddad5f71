"""Runs as they are printed: a comparison as a table, a verdict and a page, a single run as two lines."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from surefoot.api import ComparisonReport
from surefoot.harmless import harmless, json_text
from surefoot.records import RunFolder
from surefoot.report.summary import Summary, summarise
from surefoot.statistics import Spread


def show_summary(summary: Summary, page: Path, as_json: bool) -> None:
    """Print a comparison, and write its page."""
    from surefoot.report.choice import to_json, verdict
    from surefoot.report.page import write_page

    command = shlex.join(["surefoot", *sys.argv[1:]])
    try:  # the answer first: it must not be lost with a page that cannot be written, nor the page with a closed pipe
        if as_json:
            print(json_text({**to_json(summary), "report": str(page)}))
        else:
            from surefoot.cli.console import terminal
            from surefoot.report.tables import summary_table

            console = terminal()
            console.print(summary_table(summary, width=console.width))
            console.print(verdict(summary), highlight=False, markup=False)
    finally:
        written = write_page(summary, page, command=command)
    if not as_json:
        print(harmless(f"Report: {written}"))


def show_comparison(found: ComparisonReport, as_json: bool, command: str) -> None:
    """Print a comparison, and write its page."""
    from surefoot.cli.console import terminal

    try:  # the answer first, as in show_summary
        if as_json:
            print(json_text(found.to_json()))
        else:
            console = terminal()
            for part in found.parts(console.width):
                console.print(part, highlight=False, markup=False)
    finally:
        found.write_page(command=command)
    if as_json:
        return
    print(harmless(f"Report: {found.page}"))
    if found.store:
        print(harmless(f"Kept at: {found.store}, and in {found.page.parent} here"))


def show_run(folder: RunFolder, metrics: Sequence[str] | None, as_json: bool) -> None:
    """Print what matters of one run: the test split, then the calibration split, which is the one to choose by."""
    from surefoot.report.choice import constant_note
    from surefoot.report.measures import show

    summary = summarise([folder], metrics)
    row, columns = summary.rows[0], summary.columns(brief=True)
    if as_json:
        print(json_text({**row.to_json(summary.shown), "run": str(folder.path)}))
        return

    def told(values: Mapping[str, Spread]) -> str:
        shown = ((each.label, show(each, values[each.key].mean, fine=True)) for each in columns if each.key in values)
        return ", ".join(f"{label} {value}" for label, value in shown)

    test, held_out = told(row.values), told(row.calibration)
    print(harmless(f"test: {test}; {row.passes.mean:,.0f} gradient passes, {row.seconds.mean:.1f} s"))
    if held_out:
        print(harmless(f"calibration split, to choose by: {held_out}"))
    if note := constant_note(row):
        print(harmless(note))
    print(harmless(f"Run: {folder.path}"))
