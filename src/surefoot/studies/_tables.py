"""Tables that several studies share: arms by metrics, published beside measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from surefoot.report.quantities import QUANTITIES
from surefoot.schema import SplitName
from surefoot.statistics import Estimate, difference, spread
from surefoot.studies.contract import Column, Published, Row, Table
from surefoot.studies.runs import BySeed, Runs, shared_seeds


def column(key: str, *, digits: int = 2) -> Column:
    """Return the column of a metric, called as it is everywhere."""
    known = QUANTITIES[key]
    return Column(key, known.heading, percent=known.percent, digits=digits)


ACCURACY, ECE, NLL = column("accuracy"), column("ece"), column("nll", digits=3)
TCE = Column("tce", f"{QUANTITIES['ece'].label} after T %", percent=True)
TNLL = Column("tnll", f"{QUANTITIES['nll'].label} after T", digits=3)
_AFTER_T = {"tce": "ece", "tnll": "nll"}


def metrics_table(
    runs: Runs, columns: tuple[Column, ...], published: Published | None = None, names: Mapping[str, str] | None = None
) -> Table:
    """Tabulate metrics of finished networks on the test split.

    Args:
        runs: The runs.
        columns: Which metrics; ``tce`` and ``tnll`` are ECE and NLL after temperature scaling.
        published: The published rows, if there are any.
        names: Arm → row label; else every arm by its own.

    Returns:
        The arms, then the published rows that no arm stands for.
    """
    published = published or {}
    names = names or {arm: arm for arm in runs.found}
    rows = []
    for arm, label in names.items():
        measured = {column.key: spread(metric(runs, arm, column.key)) for column in columns}
        rows.append(Row(label, published.get(label, {}), measured))
    shown = set(names.values())
    rows += [Row(label, values) for label, values in published.items() if label not in shown]
    return Table(columns, tuple(rows))


def metric(runs: Runs, arm: str, key: str, split: SplitName = "test") -> BySeed:
    """Read a metric by the key of its column."""
    calibrator = "temperature" if key in _AFTER_T else None
    return runs.measure(arm, _AFTER_T.get(key, key), calibrator=calibrator, split=split)


def ece_of(runs: Runs, arm: str, calibrator: str | None = None) -> BySeed:
    """Read the debiased ECE, for differences: the plain one is above 0 by chance, the more so the smaller it is."""
    return runs.measure(arm, "debiased_ece", calibrator=calibrator)


def ece_gap(runs: Runs, first: str, second: str) -> Estimate:
    """Return debiased ECE of one arm less that of another."""
    return difference(ece_of(runs, first), ece_of(runs, second))


def accuracy_gap(runs: Runs, first: str, second: str) -> Estimate:
    """Return accuracy of one arm less that of another."""
    return difference(runs.measure(first, "accuracy"), runs.measure(second, "accuracy"))


def difference_by_seed(first: BySeed, second: BySeed) -> BySeed:
    """Subtract by seed: those seeds that both have."""
    return {seed: first[seed] - second[seed] for seed in first if seed in second}


def mean_by_seed(values: Sequence[BySeed]) -> BySeed:
    """Average by seed: those seeds that all have."""
    return {seed: statistics.fmean(each[seed] for each in values) for seed in shared_seeds(values)}


def extended_table(table: Table, found: Mapping[Column, Mapping[str, BySeed]]) -> Table:
    """Add columns with values by row and seed to a table.

    Args:
        table: Its rows keep what they have.
        found: Column → label of a row → seed → value.

    Returns:
        The wider table.
    """
    rows = [
        replace(
            row,
            measured={
                **row.measured,
                **{c.key: spread(values[row.label]) for c, values in found.items() if row.label in values},
            },
        )
        for row in table.rows
    ]
    return Table((*table.columns, *found), tuple(rows))
