"""Runs as they are printed: a comparison as a table, a verdict and a page, a single run as two lines."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from surefoot.api import ComparisonReport
from surefoot.records import RunFolder
from surefoot.report.summary import Summary, summarise


def show_summary(summary: Summary, page: Path, as_json: bool) -> None:
    """Print a comparison, and write its page."""
    from surefoot.report.choice import to_json, verdict
    from surefoot.report.page import write_page

    command = shlex.join(["surefoot", *sys.argv[1:]])
    written = write_page(summary, page, command=command)
    if as_json:
        print(json.dumps({**to_json(summary), "report": str(written)}, indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    from surefoot.report.tables import summary_table

    console = Console()
    console.print(summary_table(summary, width=console.width))
    console.print(verdict(summary), highlight=False, markup=False)
    print(f"Report: {written}")


def show_comparison(found: ComparisonReport, as_json: bool) -> None:
    """Print a comparison whose page is written."""
    if as_json:
        print(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    console = Console()
    for part in found.parts(console.width):
        console.print(part, highlight=False, markup=False)
    print(f"Report: {found.page}")


def show_run(folder: RunFolder, as_json: bool) -> None:
    """Print what matters of one run: the test split, then the calibration split, which is the one to choose by."""
    from surefoot.report.choice import constant_note

    row = summarise([folder]).rows[0]
    if as_json:
        print(json.dumps({**row.to_json(), "run": str(folder.path)}, indent=2, ensure_ascii=False))
        return
    accuracy, ece, tce = (100 * row.values[key].mean for key in ("accuracy", "ece", "tce"))
    cost = f"{row.passes.mean:,.0f} gradient passes, {row.seconds.mean:.1f} s"
    print(f"test: accuracy {accuracy:.2f} %, ECE {ece:.2f} % ({tce:.2f} % after temperature scaling); {cost}")
    accuracy, ece = (100 * row.calibration[key].mean for key in ("accuracy", "ece"))
    print(f"calibration split, to choose by: accuracy {accuracy:.2f} %, ECE {ece:.2f} %")
    if note := constant_note(row):
        print(note)
    print(f"Run: {folder.path}")
