"""A gate for the terminal and for a pull request, from its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from surefoot.report.measures import Measure, show, show_interval
from surefoot.report.numbers import signed

Json = Mapping[str, Any]
_HEADS = ("check", "value", "interval", "result")
_STYLES = {"passed": "green", "broken": "bold red", "undecided": ""}


def gate_text(gate: Json) -> Iterator[RenderableType]:
    """Lay a gate out for a terminal, the verdict first.

    Args:
        gate: As ``Gate.to_json`` writes it.

    Yields:
        What rich prints.
    """
    for doubt in gate["doubts"]:
        yield Text(f"Doubt: {doubt}", "bold")
    yield Text(f"{gate['sentence']}.", "bold")
    if gate["checks"]:
        yield ""
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
        for head in _HEADS:
            table.add_column(head, justify="right" if head in ("value", "interval") else "left")
        for check in gate["checks"]:
            cells = _cells(check, gate)
            table.add_row(*cells[:3], Text(cells[3], _STYLES[check["status"]]))
        yield table
    yield ""
    for line in _lines(gate):
        yield Text(line)
    yield Text(f"Read: {gate['file']}, {gate['n']:,} rows: {gate['took']}.")


def gate_markdown(gate: Json) -> str:
    """Write a gate as Markdown, for the comment or summary of a pull request.

    Args:
        gate: As ``Gate.to_json`` writes it.

    Returns:
        A heading, the table and what must be known to read it.
    """
    heading = "broken" if gate["broken"] else "not broken"
    lines = [f"### Calibration gate of {_escape(gate['file'])}: {heading}", "", f"{_escape(gate['sentence'])}.", ""]
    if gate["checks"]:
        lines += [f"| {' | '.join(_HEADS)} |", "|---|--:|--:|---|"]
        for check in gate["checks"]:
            *cells, result = map(_escape, _cells(check, gate))
            result = f"**{result}**" if check["status"] == "broken" else result
            lines.append(f"| {' | '.join((*cells, result))} |")
        lines.append("")
    lines += [f"Doubt: {_escape(doubt)}\n" for doubt in gate["doubts"]]
    return "\n".join([*lines, _escape(" ".join(_lines(gate)))]).rstrip() + "\n"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _cells(check: Json, gate: Json) -> tuple[str, str, str, str]:
    measure = Measure.of(check["metric"], check["shown"])
    value, change = check["value"], check["change"]
    result = _undecided(check, gate) if check["status"] == "undecided" else check["status"]
    if change is None:
        sign = "≤" if check["side"] == "max" else "≥"
        name = f"{measure.label} {sign} {show(measure, check['limit'])}"
        return name, _value(measure, value), show_interval(measure, value), result
    shown = f"{_value(measure, value)}, was {_value(measure, check['was'])}"
    ends = ""
    if change["low"] is not None and change["high"] is not None:
        low, high = (signed(measure.scaled(change[end]), measure.digits) for end in ("low", "high"))
        ends = f"{low}…{high}"
    return f"{measure.label} no worse than {gate['baseline']}", shown, ends, result


def _value(measure: Measure, value: Json) -> str:
    return "–" if value["note"] == "it is not defined on these rows" else show(measure, value["estimate"])


def _undecided(check: Json, gate: Json) -> str:
    if check["note"]:
        return f"cannot tell: {check['note']}"
    worse = check["change"] and check["change"]["estimate"] * (1 if check["side"] == "max" else -1) > 0
    if check["change"] and not worse:
        return "no sign of worse"
    if check["rows"] is None:
        return "cannot tell, too close"
    of_each = " of each" if check["change"] and not gate["paired"] else ""
    return f"cannot tell, about {check['rows']:,} rows{of_each} would"


def _lines(gate: Json) -> Iterator[str]:
    """Say what must be known to read the table."""
    if gate["checks"]:
        m = len(gate["checks"])
        levels = f"{100 * gate['each_level']:.3g} % intervals"
        wrong = f"{100 * (1 - gate['level']):.3g} %"
        together = f", so that all {m} checks together break" if m > 1 else ": the gate breaks"
        yield (
            f"A check is broken only where its whole interval is on the wrong side. {levels}{together} by chance at "
            f"most {wrong} of the time."
        )
    if gate["paired"] is not None:
        n = gate["baseline_n"]
        examples = f"the same {n:,} examples" if gate["paired"] else f"{n:,} other examples"
        how = "one by one" if gate["paired"] else "as two independent samples"
        yield f"{gate['baseline']} is of {examples}, compared {how}; the interval is of the change."
    if gate["positive"] is not None:
        yield f"Two classes: calibration is that of the risk, P({gate['positive']})."
    yield from gate["notes"]
