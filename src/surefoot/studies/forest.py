"""All claims in one figure: what was published beside what was measured, one row each.

Every row has a scale of its own, for the claims have different units: the line is where a claim has no effect, and the
diamonds below each other are as much as was published. It is written as SVG by hand, so that the same results give the
same bytes whatever is installed.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from surefoot.statistics import NOTHING, Estimate
from surefoot.studies.contract import OUTCOMES, Headline, Outcome
from surefoot.studies.verdicts import deciding, read_numbers, short

Values = Mapping[str, Any]
WIDTH, ROW, TOP, BOTTOM = 1180, 50, 66, 34
STATEMENT, AXIS, NUMBERS = 52, (440, 760), 780  # where a row's parts begin; the axis ends too
RANGE = (-1.5, 2.5)  # in units of the published effect; what lies beyond is an arrow
FAR = 0.8  # where the farthest end lies of what nothing was published for
LINE = 56  # characters of a statement
NOTE, DUE = 72, 48  # and, in smaller letters, of what the number is and of what the verdict is due to
COLOURS: dict[Outcome, str] = {
    "held": "#0072b2",
    "contradicted": "#a33c00",
    "did not transfer": "#a33c00",
    "underpowered": "#666666",
}
HOLLOW: tuple[Outcome, ...] = ("did not transfer", "underpowered")


def forest_of(results: Sequence[Values]) -> str:
    """Draw all results.

    Args:
        results: What each study found, in the order of the rows.

    Returns:
        SVG.
    """
    height = TOP + ROW * len(results) + BOTTOM
    rows = [_row(values, TOP + ROW * number + ROW / 2) for number, values in enumerate(results)]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12" role="img">',
        "<title>What was published beside what was measured, claim by claim</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        *_legend(),
        *_scale(height),
        *(_rule(TOP + ROW * number) for number in range(1, len(results))),
        *(line for row in rows for line in row),
        "</svg>",
        "",
    ])


def headline_of(values: Values) -> tuple[Headline, Estimate] | None:
    """Return the number that stands for a claim and what was found of it; None where the claim has none."""
    if not values.get("headline"):
        return None
    headline = Headline(**values["headline"])
    return headline, read_numbers(values).get(headline.number, NOTHING)


def due_to(values: Values) -> str:
    """Return the part of a claim that its verdict is due to, where the number that stands for it does not show that.

    Example:
        >>> reason = "ECE of focal − csam is −0.02 (−0.03 to −0.01, n = 5), below 0; of the other parts 4 are for it"
        >>> due_to({"verdict": {"outcome": "did not transfer", "reason": reason}, "headline": {"number": "the mean"}})
        'ECE of focal − csam'
    """
    if values["verdict"]["outcome"] == "held" or not values.get("headline"):
        return ""
    parts, _ = deciding(values["verdict"]["reason"])
    names = [part.partition(" is ")[0].rstrip(",") for part in parts]
    if names == [values["headline"]["number"]]:
        return ""
    return names[0] + (f", and {len(names) - 1} more" if len(names) > 1 else "")


def show_published(headline: Headline) -> str:
    """Write what was published, with its unit."""
    return "" if headline.published is None else _number(headline.published, headline)


def show_measured(headline: Headline, found: Estimate) -> str:
    """Write what was measured with its interval and unit."""
    if not found.is_known:
        return "unknown"
    if found.low is None or found.high is None:
        return _number(found.value, headline)
    return f"{_number(found.value, headline)} ({_number(found.low, headline)} to {_number(found.high, headline)})"


def _number(value: float, headline: Headline) -> str:
    return short(100 * value if headline.percent else value)


def _row(values: Values, y: float) -> list[str]:
    outcome: Outcome = values["verdict"]["outcome"]
    lines = textwrap.wrap(values["statement"], LINE)[:2]
    first = y + 4 - 7 * (len(lines) - 1)
    parts = [
        _text(8, y + 4, values["claim"], weight="bold"),
        *(_text(STATEMENT, first + 14 * number, line) for number, line in enumerate(lines)),
    ]
    found = headline_of(values)
    if found is None:
        counted = re.search(r"[\d,]+ violations in [\d,]+ checks", values["verdict"]["reason"])
        return [*parts, *_told(counted[0] if counted else "", "", outcome, "", y)]
    headline, measured = found
    shown = show_measured(headline, measured) + (" points" if headline.percent else "")
    published = show_published(headline)
    against = f"published {published}" if published else f"limit {_number(headline.limit, headline)}"
    parts += [
        *_marks(headline, measured, outcome, y),
        *_told(f"{shown}; {against}", headline.number, outcome, due_to(values), y),
    ]
    return parts


def _told(numbers: str, name: str, outcome: Outcome, due: str, y: float) -> list[str]:
    """Write the numbers, what they are of, and the verdict; beside it what it is due to, if they do not show that."""
    note = f"  due to {_cut(due, DUE)}" if due else ""
    told = [_text(NUMBERS, y - 9, numbers)]
    told += [_text(NUMBERS, y + 4, _cut(name, NOTE), size=10, fill="#555")] if name else []
    return [*told, _text(NUMBERS, y + (18 if name else 6), outcome, fill=COLOURS[outcome], note=note)]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _marks(headline: Headline, found: Estimate, outcome: Outcome, y: float) -> list[str]:
    """Draw the interval, the value and what was published, all measured from the limit in the claim's direction."""
    sign = -1 if headline.is_lower else 1
    ends = [found.value if end is None else end for end in (found.low, found.high)]
    if headline.published is not None and sign * (headline.published - headline.limit) > 0:
        unit = sign * (headline.published - headline.limit)
    else:
        unit = max(abs(value - headline.limit) for value in (found.value, *ends)) / FAR or 1.0
    at = sorted(sign * (end - headline.limit) / unit for end in ends) if found.is_known else []
    parts = []
    if headline.published is not None:
        x = _place(sign * (headline.published - headline.limit) / unit)
        parts.append(_diamond(x, y))
    if not at:
        return parts
    colour = COLOURS[outcome]
    left, right = (_place(end) for end in at)
    parts.append(
        f'<line x1="{left:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="2.2"/>'
    )
    parts += [_arrow(left - 7, y, colour, -1)] if at[0] < RANGE[0] else []
    parts += [_arrow(right + 7, y, colour, 1)] if at[1] > RANGE[1] else []
    x = _place(sign * (found.value - headline.limit) / unit)
    return [*parts, _mark(x, y, outcome)]


def _rule(y: float) -> str:
    return f'<line x1="8" y1="{y}" x2="{WIDTH - 8}" y2="{y}" stroke="#e6e6e6"/>'


def _place(value: float) -> float:
    low, high = RANGE
    share = (min(max(value, low), high) - low) / (high - low)
    return AXIS[0] + share * (AXIS[1] - AXIS[0])


def _arrow(x: float, y: float, colour: str, way: int) -> str:
    return f'<path d="M{x:.1f} {y - 5:.1f} l{7 * way} 5 l{-7 * way} 5 z" fill="{colour}"/>'


def _diamond(x: float, y: float) -> str:
    return f'<path d="M{x:.1f} {y - 8:.1f} l7 8 l-7 8 l-7 -8 z" fill="none" stroke="#222" stroke-width="1.4"/>'


def _mark(x: float, y: float, outcome: Outcome) -> str:
    """Return a circle where nothing is against the claim and a square where something is; hollow where less is sure."""
    fill = "white" if outcome in HOLLOW else COLOURS[outcome]
    look = f'fill="{fill}" stroke="{COLOURS[outcome]}" stroke-width="2"'
    if outcome in ("contradicted", "did not transfer"):
        return f'<rect x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10" {look}/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" {look}/>'


def _legend() -> list[str]:
    parts, x = [], STATEMENT + 6
    for outcome in OUTCOMES:
        parts += [_mark(x, 18, outcome), _text(x + 12, 22, outcome)]
        x += 40 + 7 * len(outcome)
    parts.append(_diamond(x, 18))
    return [*parts, _text(x + 14, 22, "published"), _text(x + 100, 22, "lines: 95 % intervals over seeds")]


def _scale(height: float) -> list[str]:
    none, published = _place(0), _place(1)
    end = height - BOTTOM
    return [
        f'<line x1="{none:.1f}" y1="{TOP - 8}" x2="{none:.1f}" y2="{end}" stroke="#222"/>',
        _text(none, TOP - 14, "no effect", anchor="middle"),
        _text(published, TOP - 14, "as published", anchor="middle"),
        _text(AXIS[0], end + 18, "← against the claim", fill="#555"),
        _text(AXIS[1], end + 18, "for it →", anchor="end", fill="#555"),
    ]


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    weight: str = "normal",
    fill: str = "#222",
    size: int | None = None,
    note: str = "",
) -> str:
    look = f'text-anchor="{anchor}" font-weight="{weight}" fill="{fill}"' + (f' font-size="{size}"' if size else "")
    small = f'<tspan xml:space="preserve" font-size="10" fill="#555">{escape(note)}</tspan>' if note else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(text)}{small}</text>'
