"""The page about shifted data; the report on runs shows the same section."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefoot.report.document import write_document
from surefoot.report.facts import facts
from surefoot.report.marks import mark_of
from surefoot.report.numbers import join
from surefoot.report.shift import CLEAN, COLUMNS, ShiftSummary
from surefoot.report.shift_figures import EVERY, shift_figures, words
from surefoot.report.summary import Summary

_SCORES = {"max_probability": "largest probability", "entropy": "entropy", "energy": "energy"}
_DETECTION = (("auroc", "AUROC"), ("aupr_in", "AUPR, in"), ("aupr_out", "AUPR, out"), ("fpr95", "FPR95"))


def write_shift_page(summary: Summary, shift: ShiftSummary, path: Path | str, *, command: str | None = None) -> Path:
    """Write the page.

    Args:
        summary: The runs.
        shift: Their measures on shifted data.
        path: The file to write; its folder is made if need be.
        command: What was typed.

    Returns:
        ``path``.
    """
    labels = [row.row.label for row in shift.rows]
    return write_document(
        "shift_page.html",
        path,
        figures=shift_figures(shift),
        title=f"{join(labels) if len(labels) <= 4 else f'{len(labels)} methods'} on shifted data",
        verdict=shift.verdict(),
        facts=facts(summary),
        command=command,
        **shift_context(shift),
    )


def shift_context(shift: ShiftSummary | None) -> dict[str, Any]:
    """Return what the section about shifted data asks for; ``shift`` is None where nothing was measured."""
    if shift is None:
        return {"shift": None}
    return {
        "shift": {
            "rows": shift.rows,
            "marks": [mark_of(index) for index in range(len(shift.rows))],
            "clean": CLEAN,
            "n": shift.n,
            "origin": shift.origin,
            "columns": COLUMNS,
            "choices": [(EVERY, "mean of all"), *((name, words(name)) for name in shift.corruptions)],
            "corruptions": shift.corruptions,
            "severities": shift.severities,
            "table": _table(shift),
            "ood": _ood_rows(shift),
            "detection": _DETECTION,
        }
    }


def _table(shift: ShiftSummary) -> list[tuple[str, list[list[str]]]]:
    """Write for every corruption and method the means over severities."""
    return [
        (
            words(name),
            [
                [
                    f"{(100 if column.percent else 1) * sum(found) / len(found):.{1 if column.percent else 3}f}"
                    for column in COLUMNS
                    if (
                        found := [
                            row.cells[name, level][column.key].mean
                            for level in shift.severities
                            if (name, level) in row.cells
                        ]
                    )
                ]
                for row in shift.rows
            ],
        )
        for name in shift.corruptions
    ]


def _ood_rows(shift: ShiftSummary) -> list[tuple[str, int, str, list[str]]]:
    """Write data set, method, score and percentages."""
    return [
        (name, index, _SCORES.get(score, score), [f"{100 * values[key]:.1f}" for key, _ in _DETECTION])
        for index, row in enumerate(shift.rows)
        for name, scores in row.ood.items()
        for score, values in scores.items()
    ]
