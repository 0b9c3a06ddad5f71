"""Long curves for a page: of each of some columns, the lowest and the highest value, so that no spike is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from surefoot.report.curves import Curve
from surefoot.report.pairing import PairedSeries

COLUMNS = 300  # of a card; two values in each are as fine as a screen shows
MOMENTS = 40  # of a run, where one quantity is drawn over another
BANDED = 4  # lines that a curve with its band weighs
POINTS = 40_000  # on a page, whatever it shows


def columns_for(n_curves: int) -> int:
    """Return how many columns each of so many curves may have.

    Args:
        n_curves: On the whole page; one with a band counts :data:`BANDED` times.

    Returns:
        As many as a card shows, or fewer where there are many curves.

    Example:
        >>> columns_for(20), columns_for(600)
        (300, 33)
    """
    return max(10, min(COLUMNS, POINTS // (2 * max(n_curves, 1))))


def extremes(at: Sequence[float], *series: Sequence[float], columns: int) -> list[int]:
    """Choose moments so that every series keeps its lowest and its highest value in each of some columns.

    The first and the last moment are kept in any case, and the first, which may be that of an untrained network, is in
    no column: it would hide what is extreme beside it.

    Args:
        at: When the values were seen, rising.
        *series: Values, as many each.
        columns: Of equal width, between the first and the last moment.

    Returns:
        Places of those that are kept, all of them where there are no more than two per column.

    Example:
        >>> extremes([0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 9, 1, 2, 3, 2, 1, 0], columns=2)
        [0, 1, 2, 5, 8]
    """
    n = len(at)
    if n <= 2 * columns + 2:
        return list(range(n))
    moments = np.asarray(at[1:], np.float64)
    width = (moments[-1] - at[0]) / columns or 1.0
    column = np.minimum(((moments - at[0]) / width).astype(int), columns - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    kept = {0, n - 1}
    for values in series:
        shown = np.asarray(values[1:], np.float64)
        for sign in (1, -1):
            order = np.lexsort((sign * shown, column))  # within each column, the wanted one comes first
            kept.update((order[starts] + 1).tolist())
    return sorted(kept)


def thin(curve: Curve, columns: int) -> Curve:
    """Keep of a curve, and of its band, what a page can show.

    Args:
        curve: As long as it may be.
        columns: See :func:`extremes`.

    Returns:
        A curve of the same extremes.
    """
    series = [curve.mean] if curve.n_runs == 1 else [curve.mean, curve.low, curve.high]
    kept = extremes(curve.epochs, *series, columns=columns)
    if len(kept) == len(curve.epochs):
        return curve
    epochs, mean, low, high = (
        tuple(values[i] for i in kept) for values in (curve.epochs, curve.mean, curve.low, curve.high)
    )
    return Curve(epochs, mean, low, high, curve.n_runs)


def thin_all(curves: Mapping[str, Curve], columns: int) -> dict[str, Curve]:
    """Do so with all curves of a method."""
    return {key: thin(curve, columns) for key, curve in curves.items()}


def spaced(moments: PairedSeries, most: int = MOMENTS) -> PairedSeries:
    """Keep moments at equal distances: of a cloud of points, extremes alone would look wider than it is.

    Args:
        moments: Of one run.
        most: How many to keep, the first and the last among them.

    Returns:
        Those kept; all where there are no more.

    Example:
        >>> spaced(PairedSeries((0, 1, 2, 3, 4), (0.0,) * 5, (0.0,) * 5, True), 3).steps
        (0, 2, 4)
    """
    n = len(moments.steps)
    if n <= most:
        return moments
    kept = [round(i * (n - 1) / (most - 1)) for i in range(most)]
    x, y = (tuple(values[i] for i in kept) for values in (moments.x, moments.y))
    return PairedSeries(tuple(moments.steps[i] for i in kept), x, y, moments.exact)
