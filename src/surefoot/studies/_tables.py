"""Tables that several studies share: arms by metrics, published beside measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from surefoot.report.quantities import QUANTITIES
from surefoot.statistics import spread
from surefoot.studies.contract import BySeed, Column, Published, Row, Runs, Table


def column(key: str, *, digits: int = 2) -> Column:
    """Return the column of a metric, called as it is everywhere."""
    known = QUANTITIES[key]
    return Column(key, known.heading, percent=known.percent, digits=digits)


ACCURACY, ECE = column("accuracy"), column("ece")
TCE = Column("tce", f"{QUANTITIES['ece'].label} after T %", percent=True)


def metrics_table(
    runs: Runs, columns: tuple[Column, ...], published: Published | None = None, names: Mapping[str, str] | None = None
) -> Table:
    """Tabulate metrics of finished networks on the test split.

    Args:
        runs: The runs.
        columns: Which metrics; ``tce`` is ECE after temperature scaling.
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


def metric(runs: Runs, arm: str, key: str) -> dict[int, float]:
    """Read a metric by the key of its column."""
    return runs.measure(arm, "ece", calibrator="temperature") if key == "tce" else runs.measure(arm, key)


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
