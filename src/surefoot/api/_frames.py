"""What an audit found as rows of plain values, and as files."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.auditing import Audit
    from surefoot.metrics.interval import Interval

Row = dict[str, Any]
MEASURES = ("model", "measure", "estimate", "low", "high", "level", "note")
OURS = '{\n  "audits":'  # how a saved report begins


def measure_rows(names: Sequence[str], audits: Sequence[Audit]) -> list[Row]:
    """Return a row per model and measure; NaN where there is no interval."""
    return [
        {"model": name, "measure": key, **_interval(each), "note": each.note}
        for name, audit in zip(names, audits, strict=True)
        for key, each in audit.measures.items()
    ]


def group_rows(names: Sequence[str], audits: Sequence[Audit]) -> list[Row]:
    """Return a row per model and slice."""
    rows = []
    for name, audit in zip(names, audits, strict=True):
        for each in audit.slices:
            row = {"model": name, "group": each.column, "slice": each.value, "n": each.verdict.n}
            if each.risk is not None:
                row |= {"events": each.risk.events, "mean_risk": each.risk.mean}
                row |= {"event_rate": each.risk.rate.estimate, "ece": each.risk.ece.estimate}
            else:
                row |= {"accuracy": each.verdict.accuracy.estimate, "ece": each.verdict.ece.estimate}
            gap = {f"gap_{key}" if key != "estimate" else "gap": value for key, value in _interval(each.gap).items()}
            rows.append({**row, **gap, "p_value": each.p_value, "finding": each.finding})
    return rows


def _interval(each: Interval) -> Row:
    low, high = (end if math.isfinite(end) else math.nan for end in (each.low, each.high))
    return {"estimate": each.estimate, "low": low, "high": high, "level": each.level}


def frame(rows: Sequence[Row], columns: Sequence[str] = ()) -> Any:
    """Make a pandas DataFrame.

    Raises:
        InputError: If pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise InputError(
            "Expected pandas for a DataFrame, but it is not installed. Run pip install pandas, or take .to_json()."
        ) from error
    return pandas.DataFrame(list(rows), columns=list(columns) or None)


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """Write rows as CSV, in one move.

    Raises:
        InputError: If another file is there.
    """
    from surefoot.records import write_bytes

    head = ",".join(MEASURES)
    if path.exists() and path.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip() != head:
        raise _taken(path)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, MEASURES, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, text.getvalue().encode())


def write_json(found: Row, path: Path) -> None:
    """Write a report as JSON, in one move.

    Raises:
        InputError: If another file is there.
    """
    from surefoot.records import write_bytes

    if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(OURS):
        raise _taken(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, f"{json.dumps(found, indent=2, ensure_ascii=False)}\n".encode())


def _taken(path: Path) -> InputError:
    return InputError(
        f"Expected {path} to be free or a report that surefoot wrote, but it is another file. Choose another name."
    )
