"""Act above a threshold, in the terminal and on the page, from the JSON of an audit."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from surefoot.report.figures import AXIS, PERCENT, Figure, layout, whiskers
from surefoot.report.marks import Mark
from surefoot.report.numbers import show_count

Json = Mapping[str, Any]
_MOST = 2.5  # times the risk that is allowed: the curve is cut off where it goes higher


def threshold_text(audit: Json) -> Iterator[Text]:
    """Lay out for a terminal above which confidence to act.

    Args:
        audit: As ``Audit.to_json`` writes it.

    Yields:
        One line per risk that is allowed, and what weights do.
    """
    found = audit.get("thresholds", ())
    for each in found:
        yield Text(f"{_sentence(each)}.", "bold" if each["holds"] and each["threshold"] is not None else "")
    if words := weight_words(found):
        yield Text(f"Note: {words}")


def _sentence(each: Json) -> str:
    return f"{each['sentence'][:1].upper()}{each['sentence'][1:]}"


def weight_words(thresholds: Sequence[Json]) -> str:
    """Say what was done with weights; nothing where there are none."""
    if not thresholds or not thresholds[0]["weighted"]:
        return ""
    chosen = thresholds[0]["chosen"]
    return (
        f"Thresholds count {show_count(chosen['n'])} of {show_count(chosen['rows'])} rows, drawn in proportion to "
        "their weights: binomial bounds are exact for these, if no weight anywhere is larger than the largest one here."
    )


GROUP_HEADS = ("n", "wrong above it %", "own threshold", "covers %", "wrong above its own %")


def group_rows(threshold: Json, column: str) -> list[tuple[str, ...]]:
    """Write what a threshold does in every group of a column, and the group's own one.

    Args:
        threshold: As ``Threshold.to_json`` writes it.
        column: The column.

    Returns:
        Rows: value, rows that check, share of wrong ones above the threshold for all, own threshold and what it does;
        none where there is no threshold at all.
    """
    rows: list[tuple[str, ...]] = []
    if _nothing(threshold, column):
        return rows
    for each in threshold["groups"]:
        if each["column"] == column:
            own, check = each["own"], each["own_check"]
            checked = each["of_all"] or check
            rows.append((
                each["value"],
                show_count(checked["n"]) if checked else "–",
                _wrong(each["of_all"]),
                "none" if own["threshold"] is None else f"{own['threshold']:.14g}",
                f"{100 * check['coverage']['estimate']:.1f}" if check else "–",
                _wrong(check),
            ))
    return rows


def _nothing(threshold: Json, column: str) -> bool:
    """Whether there is neither a threshold for all nor one for a group of the column."""
    own = [each["own"]["threshold"] for each in threshold["groups"] if each["column"] == column]
    return threshold["threshold"] is None and not any(at is not None for at in own)


def _wrong(check: Json | None) -> str:
    if check is None or check["risk"] is None:
        return "–"
    risk = check["risk"]
    return f"{100 * risk['estimate']:.1f} ({100 * risk['low']:.1f}…{100 * risk['high']:.1f})"


def group_columns(threshold: Json) -> list[str]:
    """List the columns that groups are from."""
    return list(dict.fromkeys(each["column"] for each in threshold["groups"]))


def group_words(threshold: Json, column: str) -> str:
    """Say what the table of a column shows, and what was corrected for."""
    groups = [each for each in threshold["groups"] if each["column"] == column]
    level, each = (100 * share for share in (threshold["chosen"]["level"], groups[0]["own"]["level"]))
    at, needed = threshold["threshold"], groups[0]["own"]["needed"]
    takes = f"{each:.4g} % each, which takes at least {show_count(needed)} answers without an error"
    risk = f"at most {100 * threshold['chosen']['risk']:.6g} % wrong"
    if _nothing(threshold, column):
        return f"By {column}: no group has a threshold of its own for {risk} either ({takes})."
    first = "no threshold for all rows" if at is None else f"above {at:.14g}, the threshold for all rows"
    return (
        f"By {column}: {first}, and own thresholds, with which {risk} holds in all {len(groups)} groups at once with "
        f"{level:.6g} % confidence ({takes}). In brackets: {level:.6g} % intervals, each on its own, on "
        f"{threshold['checked_on']}."
    )


def threshold_cards(model: Mapping[str, Any]) -> dict[str, Any] | None:
    """Put together what the page shows of one model; None where no risk was asked about."""
    found = model["audit"].get("thresholds", ())
    if not found:
        return None
    tables = [
        {"column": column, "says": group_words(each, column), "rows": group_rows(each, column)}
        for each in found
        for column in group_columns(each)
    ]
    return {
        "id": f"threshold-{model['id']}",
        "label": model["label"],
        "mark": model["mark"],
        "sentences": [f"{_sentence(each)}." for each in found],
        "weights": weight_words(found),
        "rows": [_row(each) for each in found],
        "chosen_on": found[0]["chosen_on"],
        "checked_on": found[0]["checked_on"],
        "tables": tables,
        "figure": threshold_figure(found, model["mark"]),
    }


def _row(each: Json) -> tuple[str, ...]:
    """Allowed, threshold, then where it was chosen: above it, wrong, bound; and the check: covered, wrong."""
    chosen, check, none = each["chosen"], each["check"], each["threshold"] is None
    return (
        f"{100 * chosen['risk']:.6g}",
        "none" if none else f"{each['threshold']:.14g}",
        f"{show_count(chosen['n_above'])} of {show_count(chosen['n'])}",
        show_count(chosen["errors"]),
        f"{100 * chosen['bound']:.2f}",
        f"{100 * check['coverage']['estimate']:.1f}" if check else "–",
        _wrong(check),
    )


def threshold_figure(thresholds: Sequence[Json], mark: Mark) -> Figure:
    """Draw the share of wrong answers over the share that is answered, the thresholds and their checks.

    Args:
        thresholds: Of one model.
        mark: Its colour.

    Returns:
        The figure.
    """
    curve = thresholds[0]["curve"]
    line = {
        "type": "scatter",
        "mode": "lines",
        "x": [share for share, _ in curve],
        "y": [risk for _, risk in curve],
        "line": {"color": mark.color, "width": 2.4},
        "hovertemplate": "the surest %{x:.0%}: %{y:.2%} wrong<extra></extra>",
    }
    allowed = [each["chosen"]["risk"] for each in thresholds]
    tops = [risk for share, risk in curve if share >= 0.05] + [1.2 * each for each in allowed]
    points = [point for each in thresholds if each["threshold"] is not None for point in _points(each, mark)]
    tops += [point["y"][0] + point["error_y"]["array"][0] for point in points]
    return {
        "data": [line, *points],
        "layout": {
            **layout(height=340),
            "hovermode": "closest",
            "dragmode": False,
            "shapes": [
                {
                    **{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": risk, "y1": risk},
                    "line": {"color": "--ink", "width": 1.2, "dash": "dash"},
                }
                for risk in allowed
            ],
            "annotations": [
                {
                    **{"xref": "paper", "x": 0, "y": risk, "xanchor": "left", "yanchor": "bottom", "showarrow": False},
                    "text": f"{100 * risk:.6g} % allowed",
                }
                for risk in allowed
            ],
            "xaxis": {
                **AXIS,
                "range": [0, 1],
                "tickformat": ".0%",
                "title": {"text": "share answered, the surest first", "standoff": 6},
                "fixedrange": True,
            },
            "yaxis": {
                **AXIS,
                "tickformat": PERCENT,
                "range": [0, 1.08 * min(max(tops), max(_MOST * max(allowed), 1e-3))],
                "title": {"text": "wrong", "standoff": 6},
                "fixedrange": True,
            },
        },
    }


def _points(each: Json, mark: Mark) -> list[Figure]:
    """The threshold with its bound, and the check with its interval."""
    chosen, check = each["chosen"], each["check"]
    share, name = chosen["errors"] / chosen["n_above"], html.escape(f"above {each['threshold']:.14g}")
    at = _point(chosen["n_above"] / chosen["n"], share, share, chosen["bound"])
    at |= {"marker": {"color": mark.color, "size": 8, "symbol": "circle"}}
    at |= {"hovertemplate": f"{name}<br>chosen: %{{y:.2%}} wrong, bound {chosen['bound']:.2%}<extra></extra>"}
    if check is None or check["risk"] is None:
        return [at]
    risk = check["risk"]
    other = _point(check["coverage"]["estimate"], risk["estimate"], risk["low"], risk["high"])
    other |= {"marker": {"color": "--ink", "size": 10, "symbol": "square-open", "line": {"width": 1.5}}}
    other |= {"hovertemplate": f"{name}<br>checked: %{{y:.2%}} wrong, covers %{{x:.1%}}<extra></extra>"}
    return [at, other]


def _point(x: float, y: float, low: float, high: float) -> Figure:
    error = whiskers([y], [low], [high], width=5)
    return {"type": "scatter", "mode": "markers", "x": [x], "y": [y], "error_y": error}
