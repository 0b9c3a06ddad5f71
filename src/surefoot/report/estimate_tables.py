"""An estimate without labels for the terminal, from its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from surefoot.report.measures import Measure, show, show_interval
from surefoot.report.quantities import QUANTITIES
from surefoot.report.risk import RISK_MEASURES

Json = Mapping[str, Any]
_SHARES = 12  # classes shown, those that changed most
_MEASURES = {**QUANTITIES, **{each.key: each for each in RISK_MEASURES}}


def estimate_text(found: Json) -> Iterator[RenderableType]:
    """Lay an estimate out for a terminal.

    Args:
        found: As ``Estimate.to_json`` writes it.

    Yields:
        What rich prints.
    """
    yield Text(f"{found['sentence']}.", "bold")
    yield ""
    level = f"{100 * found['measures']['accuracy']['level']:.0f} % interval"
    table = _table("measure", "new rows", level, "reference")
    for key, each in found["measures"].items():
        measure = _MEASURES[key]
        measure = replace(measure, label=measure.label.format(of=f"P({found['positive']})", positive=found["positive"]))
        was = show(measure, found["was"][key]) if key in found["was"] else ""
        table.add_row(measure.label, show(measure, each["estimate"]), show_interval(measure, each), was)
    yield table
    yield ""
    yield _shares(found, level)
    yield ""
    for note in _notes(found):
        yield Text(note)


def _table(*heads: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number else "left", no_wrap=number > 0)
    return table


def _shares(found: Json, level: str) -> Table:
    share = Measure("share", "share")
    table = _table("share of class", "new rows", level, "reference")
    moved = sorted(found["shares"], key=lambda each: -abs(each["new"]["estimate"] - each["reference"]))
    for each in moved[:_SHARES]:
        ends = show_interval(share, each["new"])
        table.add_row(each["name"], show(share, each["new"]["estimate"]), ends, show(share, each["reference"]))
    return table


def _notes(found: Json) -> Iterator[str]:
    for key, each in found["measures"].items():
        if each["note"]:
            yield f"{_MEASURES[key].label}: {each['note']}."
    if len(found["shares"]) > _SHARES:
        yield f"Of {len(found['shares']):,} classes the {_SHARES} that changed most are shown."
    yield (
        f"The scores do not contradict it that only class frequencies have changed (p = {found['p_value']:.2f}); a "
        "change that leaves the scores alike would not be seen."
    )
    yield f"As good as {found['worth']:,.0f} labelled new rows for the accuracy."
    yield from found["notes"]
    yield (
        f"Read: {found['file']}, {found['n']:,} rows, and {found['reference']}, {found['n_reference']:,} rows: "
        f"{found['took']}."
    )
