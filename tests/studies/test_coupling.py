"""How the correlation of calibration error and sharpness is averaged over learning rates and seeds."""

from __future__ import annotations

import pytest

from surefoot.studies._coupling import correlate
from surefoot.studies.runs import Runs

Way = list[tuple[float, float, float]]  # error, sharpness and train accuracy at each moment

FITTED: Way = [(0.1, 1.0, 0.5), (0.3, 3.0, 1.0), (0.2, 2.0, 1.0), (0.1, 1.0, 1.0)]  # r = 1 after it
REVERSED: Way = [(0.1, 1.0, 0.5), (0.1, 3.0, 1.0), (0.2, 2.0, 1.0), (0.3, 1.0, 1.0)]  # r = −1
NEVER: Way = [(0.1, 1.0, 0.5), (0.3, 3.0, 0.6), (0.2, 2.5, 0.7), (0.1, 1.0, 0.8)]


class _Ways(Runs):
    """Runs of which only what was tracked is known."""

    def __init__(self, ways: dict[str, dict[int, Way]]) -> None:
        super().__init__({arm: {} for arm in ways})
        self.ways = ways

    def series(self, arm: str, *keys: str) -> dict[int, dict[int, tuple[float, ...]]]:
        return {seed: dict(enumerate(way)) for seed, way in self.ways[arm].items()}


def test_a_rate_that_a_seed_does_not_fit_is_left_out_of_table_and_numbers_alike() -> None:
    runs = _Ways({"sam, η = 0.1": {0: FITTED, 1: FITTED}, "sam, η = 0.2": {0: REVERSED, 1: NEVER}})
    found = correlate(runs, {}, {"sam": "SAM"})
    row = next(row for row in found.table.rows if row.label == "train ECE, after it")
    number = found.numbers["r of train ECE, after it and sharpness, SAM"]
    assert (row.measured["sam"].mean, row.measured["sam"].n) == (pytest.approx(1.0), 1)
    assert (number.value, number.n) == (pytest.approx(1.0), 2)


def test_all_rates_count_where_all_seeds_fit() -> None:
    runs = _Ways({"sam, η = 0.1": {0: FITTED, 1: FITTED}, "sam, η = 0.2": {0: REVERSED, 1: REVERSED}})
    found = correlate(runs, {}, {"sam": "SAM"})
    row = next(row for row in found.table.rows if row.label == "train ECE, after it")
    number = found.numbers["r of train ECE, after it and sharpness, SAM"]
    assert row.measured["sam"].mean == pytest.approx(0.0)
    assert number.value == pytest.approx(0.0)
