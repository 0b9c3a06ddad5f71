"""Marks that everybody can tell apart: without colour, with few cones, on a light and on a dark page."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from surefoot.report.marks import N_COLORS, N_MARKS, SYMBOLS, mark_of
from tests.report.colours import VISIONS, contrast, distance, lab, palette

LEAST_DISTANCE, LEAST_STEP = 12.0, 5.0  # in L*a*b*, and in L* alone


@pytest.fixture(params=["light", "dark"])
def colours(request: pytest.FixtureRequest) -> dict[str, str]:
    return palette(request.param)


def test_lines_stand_out_from_the_page(colours: dict[str, str]) -> None:
    for index in range(N_COLORS):
        assert contrast(colours[f"--method-{index}"], colours["--card"]) >= 3
    for name in ("--soft", "--ink", "--accent", "--over", "--under"):
        assert min(contrast(colours[name], colours[back]) for back in ("--card", "--page")) >= 4.5


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_are_told_apart_with_few_cones(colours: dict[str, str], vision: str) -> None:
    pairs = combinations([colours[f"--method-{index}"] for index in range(N_COLORS)], 2)
    assert min(distance(one, other, vision) for one, other in pairs) >= LEAST_DISTANCE
    assert distance(colours["--over"], colours["--under"], vision) >= LEAST_DISTANCE


def test_four_methods_are_told_apart_in_grey_by_their_lines_alone(colours: dict[str, str]) -> None:
    shades = sorted(lab(colours[f"--method-{index}"])[0] for index in range(4))
    assert min(high - low for low, high in pairwise(shades)) >= LEAST_STEP


def test_more_methods_are_told_apart_in_grey_by_their_markers() -> None:
    assert len({mark_of(index).symbol for index in range(len(SYMBOLS))}) == len(SYMBOLS)
    assert len({(mark_of(index).symbol, mark_of(index).color) for index in range(N_MARKS)}) == N_MARKS


def test_orange_and_ochre_of_one_lightness_would_be_found() -> None:
    assert distance("#d55e00", "#9a7400") > 30
    assert distance("#d55e00", "#9a7400", "no red cones") < 3
