"""The report on runs: from a summary of methods to its page."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.report.bins import Bins, bin_rows, in_order, lean, read_bins
from surefoot.report.choice import verdict
from surefoot.report.curves import Curve, read_curves
from surefoot.report.document import write_document
from surefoot.report.dynamics import dynamics
from surefoot.report.facts import divide_options, facts, options, places
from surefoot.report.figures import Figure, curve_figure, reliability_figure
from surefoot.report.grid import Grid
from surefoot.report.marks import N_MARKS, Mark, mark_of
from surefoot.report.measures import show
from surefoot.report.numbers import join
from surefoot.report.quantities import QUANTITIES
from surefoot.report.shift import summarise_shift
from surefoot.report.shift_figures import shift_figures
from surefoot.report.shift_page import shift_context
from surefoot.report.summary import MethodRow, Summary
from surefoot.report.thinning import BANDED, columns_for, thin_all
from surefoot.report.tracks import tracks_of

CURVES = tuple(QUANTITIES[key] for key in ("loss", "accuracy", "ece"))


@dataclass(frozen=True)
class Method:
    """All that the figures show of one method."""

    row: MethodRow
    mark: Mark
    bins: dict[str | None, Bins]
    curves: dict[str, Curve]


def write_page(
    summary: Summary, path: Path, *, title: str | None = None, command: str | None = None, grids: Sequence[Grid] = ()
) -> Path:
    """Write the report.

    Args:
        summary: The comparison.
        path: The file to write; its folder is made if need be.
        title: Heading of the page; else it names methods and data.
        command: What was typed to make the runs, shown so that others can do the same.
        grids: Sweeps from which a setting was taken.

    Returns:
        ``path``.
    """
    path = Path(path)
    drawn = drawn_rows(summary)
    tracks = [tracks_of(row.runs) for row in drawn]
    read = [read_curves(each) for each in tracks]
    columns = columns_for(sum(BANDED if one.n_runs > 1 else 1 for each in read for one in each.values()))
    curves = [thin_all(each, columns) for each in read]
    methods = [
        Method(row, mark_of(place), read_bins(row.runs), found)
        for place, (row, found) in enumerate(zip(drawn, curves, strict=True))
    ]
    shifted = summarise_shift(dataclasses.replace(summary, rows=drawn))
    watched = dynamics(_drawn(methods), tracks)
    marks = {method.row.label: method.mark for method in methods}
    shared, own = divide_options([options(row) for row in summary.rows])
    return write_document(
        "template.html",
        path,
        figures=_figures(methods) + watched["figures"] + (shift_figures(shifted) if shifted else []),
        **shift_context(shifted),
        title=title or _title(summary),
        command=command,
        verdict=verdict(summary),
        facts=facts(summary),
        columns=summary.columns(),
        behind_calibrators=any("@" in key for key in summary.shown),
        rows=[(row, marks.get(row.label)) for row in summary.rows],
        methods=methods,
        n_left=len(summary.rows) - len(methods),
        thinned=columns if curves != read else None,
        shared=shared,
        options=own,
        places=[places(row, path) for row in summary.rows],
        cards=_cards(methods),
        views=_views(methods),
        curves=_curves(methods),
        dynamics=watched,
        grids=grids,
    )


def drawn_rows(summary: Summary) -> tuple[MethodRow, ...]:
    """Choose the methods that figures show: all, or as many as there are marks to tell them apart.

    Args:
        summary: The comparison.

    Returns:
        In their order: the first, which the others are compared with, and those of the lowest ECE on the calibration
        split.
    """
    ece = {row.label: row.calibration["ece"].mean if "ece" in row.calibration else 2.0 for row in summary.rows[1:]}
    best = set(sorted(ece, key=lambda label: ece[label])[: N_MARKS - 1])
    return tuple(row for place, row in enumerate(summary.rows) if place == 0 or row.label in best)


def _drawn(methods: list[Method]) -> list[tuple[str, Mark, Mapping[str, Curve]]]:
    """Return what curve figures draw: label, mark and curves."""
    return [(method.row.label, method.mark, method.curves) for method in methods]


def _title(summary: Summary) -> str:
    data = list(dict.fromkeys(run.spec.data.name for row in summary.rows for run in row.runs))
    if not data:
        return "No runs"
    labels = [row.label for row in summary.rows]
    return f"{join(labels) if len(labels) <= 4 else f'{len(labels)} methods'} on {join(data)}"


def _views(methods: list[Method]) -> list[tuple[str, str]]:
    """List the calibrators behind which somebody has bins: key for the script, and words for people."""
    words = {None: "as trained", "temperature": "after temperature scaling"}
    found = in_order({name for method in methods for name in method.bins})
    return [(name or "", words.get(name, f"after {name}")) for name in found]


def _cards(methods: list[Method]) -> list[dict[str, Any]]:
    """One card per method that has bins: its figure's place and, for every view, what the figure says."""
    return [
        {
            "id": f"reliability-{index}",
            "mark": method.mark,
            "label": method.row.label,
            "views": {
                name or "": {"bins": bins, "says": lean(bins), "rows": bin_rows(bins)}
                for name, bins in method.bins.items()
            },
        }
        for index, method in enumerate(methods)
        if method.bins
    ]


def _curves(methods: list[Method]) -> list[dict[str, str]]:
    """List the curve figures: place, heading, and their last values in words for those who cannot see them."""
    found = []
    for measure in CURVES:
        ends = [
            f"{method.row.label} {show(measure, curve.mean[-1])} on {split}"
            for method in methods
            for split in ("train", "test")
            if (curve := method.curves.get(f"{split}/{measure.key}"))
        ]
        if ends:
            says = f"{measure.title} over epochs. At the end: {', '.join(ends)}."
            scale = ", log scale" if measure.log else ""
            found.append({"id": f"curve-{measure.key}", "heading": f"{measure.title}{scale}", "says": says})
    return found


def _figures(methods: list[Method]) -> list[dict[str, Any]]:
    """All figures with their places; a curve has one view, a reliability diagram one per calibrator."""
    figures: list[dict[str, Any]] = []
    for index, method in enumerate(methods):
        views = {name or "": reliability_figure(bins, method.mark) for name, bins in method.bins.items()}
        if views:
            figures.append({"id": f"reliability-{index}", "views": views, "switch": "view"})
    for measure in CURVES:
        figure: Figure | None = curve_figure(measure, _drawn(methods))
        if figure is not None:
            figures.append({"id": f"curve-{measure.key}", "views": {"": figure}})
    return figures
