"""A ranking of models on the page and in the terminal, from its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.report.measures import Measure, show, show_interval
from surefoot.report.numbers import show_gap, signed
from surefoot.report.quantities import QUANTITIES
from surefoot.report.risk import GAP as RISK_GAP
from surefoot.report.risk import of_two

Json = Mapping[str, Any]
NLL, ACCURACY, ECE = QUANTITIES["nll"], QUANTITIES["accuracy"], QUANTITIES["ece"]
GAP = Measure("confidence_gap", "confidence − accuracy")
RISK_ECE = Measure("risk_ece", "ECE of the risk", lower_is_better=True)
PAIR_HEADS = ("pair", "NLL, first − second", "p", "better calibrated")


def beside(audits: Sequence[Json]) -> tuple[Measure, Measure, Measure]:
    """Return what stands beside the NLL: calibration error, mean gap and accuracy; of two classes those of the risk."""
    return (RISK_ECE, RISK_GAP, ACCURACY) if of_two(audits) else (ECE, GAP, ACCURACY)


def value_of(audit: Json, measure: Measure) -> Json:
    """Return the interval of a measure that the verdict holds, whatever measures were asked for."""
    if measure in (RISK_ECE, RISK_GAP):
        risk: Json = audit["two_classes"]["risk"]
        return dict(risk["ece" if measure is RISK_ECE else "gap"])
    return dict(audit["verdict"]["gap" if measure is GAP else measure.key])


def rank_heads(audits: Sequence[Json], ranking: Json) -> tuple[str, ...]:
    """Return the heads of the ranking's table."""
    ece, _, accuracy = beside(audits)
    return ("model", "alike", NLL.label, f"{percent_of(ranking['level'])} interval", ece.label, accuracy.label)


def rank_rows(audits: Sequence[Json], ranking: Json) -> list[tuple[str, ...]]:
    """Write a row per model, the smallest NLL first: name, letters, NLL with its interval, ECE and accuracy."""
    ece, _, accuracy = beside(audits)
    return [
        (
            ranking["names"][place],
            ranking["letters"][place],
            show(NLL, ranking["nll"][place]["estimate"]),
            show_interval(NLL, ranking["nll"][place]),
            *(show(each, value_of(audits[place], each)["estimate"]) for each in (ece, accuracy)),
        )
        for place in ranking["order"]
    ]


def rank_cells(audits: Sequence[Json], ranking: Json) -> list[dict[str, Any]]:
    """Write the same for a page: each measure with its interval."""
    rows = []
    for place in ranking["order"]:
        values = [(NLL, ranking["nll"][place]), *((each, value_of(audits[place], each)) for each in beside(audits))]
        rows.append({
            "place": place,
            "name": ranking["names"][place],
            "letters": ranking["letters"][place],
            "finding": audits[place]["verdict"]["finding"],
            "cells": [(show(m, v["estimate"], fine=True), show_interval(m, v, fine=True)) for m, v in values],
        })
    return rows


RANK_NOTE = "Models that share a letter cannot be told apart by NLL."


def percent_of(level: float) -> str:
    """Write a level in percent."""
    return f"{100 * level:g} %"


def pair_rows(ranking: Json) -> list[tuple[str, ...]]:
    """Write a row per pair, the clearest difference first."""
    names = ranking["names"]
    rows: list[tuple[str, ...]] = []
    for pair in sorted(ranking["pairs"], key=lambda pair: pair["p_value"]):
        better, nll = pair["better_calibrated"], pair["differences"]["nll"]
        gap = show_gap(NLL, nll).rstrip(" ●")
        rows.append((
            f"{names[pair['a']]} − {names[pair['b']]}",
            f"{gap} {'●' if pair['better'] is not None else ' '}",
            show_p(pair["p_value"]),
            "–" if better is None else names[better],
        ))
    return rows


def show_p(p: float) -> str:
    """Write a p-value: never as 0.

    Example:
        >>> show_p(0.0312), show_p(1e-9), show_p(1.0)
        ('0.031', '< 0.001', '1.000')
    """
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def pair_note(ranking: Json, most: int | None = None) -> str:
    """Say what intervals and p-values of pairs are, and how many are not shown."""
    n = len(ranking["pairs"])
    rest = f" And {n - most} more on the page." if most is not None and n > most else ""
    rows = f" On {ranking['sampled']:,} rows drawn at random." if ranking["sampled"] else ""
    return (
        f"Paired, example by example; intervals hold for all {n} pairs at once ({percent_of(ranking['level'])}), "
        f"p-values are after Holm's correction for them.{rows}{rest}"
    )


def matrix(ranking: Json, measure: Measure) -> list[dict[str, Any]]:
    """Write every difference row − column, models in the order of the ranking.

    Args:
        ranking: As ``Ranking.to_json`` writes it.
        measure: The NLL, the ECE or the accuracy.

    Returns:
        A row per model with its name and cells: text, interval, and whether the row is better, worse, or neither is
        shown.
    """
    found = {(pair["a"], pair["b"]): pair for pair in ranking["pairs"]}
    rows = []
    for row in ranking["order"]:
        cells: list[dict[str, str] | None] = []
        for column in ranking["order"]:
            if row == column:
                cells.append(None)
                continue
            pair = found.get((row, column)) or found[column, row]
            cells.append(_cell(pair, measure, row, flipped=(row, column) not in found))
        rows.append({"name": ranking["names"][row], "place": row, "cells": cells})
    return rows


def _cell(pair: Json, measure: Measure, row: int, *, flipped: bool) -> dict[str, str]:
    gap = pair["differences"][measure.key]
    ends = [gap[key] for key in ("estimate", "low", "high")]
    if flipped:
        ends = [None if end is None else -end for end in (ends[0], ends[2], ends[1])]
    value, low, high = ("" if end is None else signed(measure.scaled(end), measure.digits) for end in ends)
    winner = _winner(pair, measure)
    said = "even" if winner is None else "won" if winner == row else "lost"
    return {"value": value or "–", "interval": f"{low}…{high}" if low and high else "", "said": said}


def _winner(pair: Json, measure: Measure) -> int | None:
    """Return who is better: by NLL or calibration as Holm's rule decided, else where the interval excludes zero."""
    if measure.key in ("nll", "ece"):
        winner: int | None = pair["better" if measure.key == "nll" else "better_calibrated"]
        return winner
    gap = pair["differences"][measure.key]
    if gap["low"] is None or gap["low"] <= 0 <= gap["high"]:
        return None
    return int(pair["a"] if (gap["estimate"] < 0) == bool(measure.lower_is_better) else pair["b"])
