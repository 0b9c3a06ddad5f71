"""A sweep over a method's options: which setting is taken, and by what."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table

from surefoot.errors import InputError
from surefoot.evaluate import SHOWN
from surefoot.metric_keys import read_metrics
from surefoot.records import RunFolder
from surefoot.registry import METRICS
from surefoot.report.choice import beats_constant
from surefoot.report.measures import Measure
from surefoot.report.numbers import show_spread
from surefoot.report.summary import MethodRow, summarise


@dataclass(frozen=True)
class Grid:
    """All settings of a sweep, and the one with the best mean on the calibration split; the test split has no say.

    Attributes:
        text: As it was asked for.
        by: The measure that decides.
        columns: All that are shown.
        rows: One per setting.
        chosen: None where no setting beats a constant answer.
        stopped: How many more were tried and stopped early.
        is_search: Whether the chosen setting is trained anew, with seeds that had no say in the choice.
    """

    text: str
    by: Measure
    columns: tuple[Measure, ...]
    rows: tuple[MethodRow, ...]
    chosen: MethodRow | None
    stopped: int = 0
    is_search: bool = False

    @property
    def tried(self) -> int:
        """How many settings were tried."""
        return len(self.rows) + self.stopped

    def sentence(self) -> str:
        """Say which setting was taken, and on what grounds."""
        early = f", {self.stopped} of them stopped early," if self.stopped else ""
        asked = f"{self.text}: of {self.tried} setting{'s' * (self.tried != 1)}{early}"
        if self.chosen is None:
            return f"{asked} none beats always saying the largest class on the calibration split; none is taken."
        value = show_spread(self.chosen.calibration[self.by.key], self.by) + (" %" if self.by.percent else "")
        if not self.is_search:
            return f"{asked} {self.chosen.label} has the best mean {self.by.label} on the calibration split: {value}."
        anew = "It is trained anew, with other seeds."
        return f"{asked} {self.chosen.label} has the best {self.by.label} on the calibration split: {value}. {anew}"

    def to_json(self) -> dict[str, Any]:
        """Write the sweep for machines: fractions, all of the calibration split."""
        settings = [
            {
                "label": row.label,
                "options": row.options,
                "calibration": {key: dataclasses.asdict(spread) for key, spread in row.calibration.items()},
            }
            for row in self.rows
        ]
        chosen = None if self.chosen is None else self.chosen.label
        return {
            "grid": self.text,
            "chosen": chosen,
            "chosen_on": "calibration",
            "by": self.by.key,
            "settings": settings,
            "tried": self.tried,
            "stopped": self.stopped,
        }


def effort_note(methods: Sequence[str], grids: Sequence[Grid]) -> str:
    """Say of a comparison with searches who was given how many settings, unless all were given the same.

    Args:
        methods: Those that are compared as they are.
        grids: The sweeps and searches.

    Returns:
        A sentence, or nothing.
    """
    if not any(grid.is_search for grid in grids):
        return ""
    tried = [f"{grid.tried} settings of {grid.text}" for grid in grids]
    if len({grid.tried for grid in grids}) == 1 and not methods:
        return ""
    alone = f"{', '.join(methods)} as it was named" if len(methods) == 1 else f"{', '.join(methods)} as they were named"
    told = "; ".join([*tried, *([alone] if methods else [])])
    return f"Not all were given the same number of settings: {told}. For a fair contest search every method."


def check_choice(by: str) -> str:
    """Find the measure to choose by.

    Args:
        by: A metric, as :func:`~surefoot.metric_keys.read_metrics` reads it.

    Returns:
        Its key.

    Raises:
        InputError: If settings cannot be chosen by it.
    """
    keys = read_metrics(by)
    if len(keys) != 1 or "@" in keys[0] or METRICS.read(keys[0])[0].facts.get("lower_is_better") is None:
        raise InputError(
            f"Expected to choose by one metric of which lower or higher is better, without calibrator, but got {by!r}. "
            "Take nll, brier, ece or accuracy."
        )
    return keys[0]


def choose_setting(text: str, runs: Sequence[RunFolder], by: str, n_seeds: int) -> Grid:
    """Choose the setting with the best mean on the calibration split.

    Args:
        text: The grid.
        runs: The finished runs of all its settings.
        by: The key of what decides, as :func:`check_choice` gives it.
        n_seeds: Of each setting; one of which runs are missing is not chosen.

    Returns:
        All settings, and the chosen one.
    """
    keys = dict.fromkeys([*(key for key in SHOWN if "@" not in key), by])
    summary = summarise(runs, tuple(keys))
    measure = summary.measures.get(by, Measure(by, by))
    known = [row for row in summary.rows if len(row.seeds) == n_seeds and by in row.calibration]
    known = [row for row in known if beats_constant(row, "calibration")]
    sign = 1 if measure.lower_is_better else -1
    chosen = min(known, key=lambda row: (sign * row.calibration[by].mean, row.passes.mean), default=None)
    return Grid(text, measure, tuple(summary.columns()), summary.rows, chosen)


def grid_table(grid: Grid) -> Table:
    """Lay a sweep out for a terminal: what each setting reached on the calibration split.

    Args:
        grid: The sweep.

    Returns:
        The table; the chosen setting has an arrow.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, title=grid.text, title_justify="left")
    table.add_column("setting", overflow="fold")
    for column in grid.columns:
        table.add_column(column.heading, justify="right", no_wrap=True)
    for row in grid.rows:
        cells = [show_spread(row.calibration[c.key], c) if c.key in row.calibration else "–" for c in grid.columns]
        is_chosen = grid.chosen is not None and row.label == grid.chosen.label
        table.add_row(f"{'→ ' if is_chosen else '  '}{row.label}", *cells, style="bold" if is_chosen else "")
    return table
