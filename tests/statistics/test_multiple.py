"""Holm's correction against its definition and by simulation."""

from __future__ import annotations

import itertools
from statistics import NormalDist

import numpy as np
import pytest

from surefoot.errors import OptionError
from surefoot.statistics import bonferroni, holm, p_value, step_down


def rejected_by_closure(p_values: list[float], alpha: float) -> list[bool]:
    """Reject a hypothesis where every set that holds it has one of at most alpha / size: Holm, the long way."""
    m = len(p_values)
    sets = [s for size in range(1, m + 1) for s in itertools.combinations(range(m), size)]
    return [all(min(p_values[j] for j in s) <= alpha / len(s) for s in sets if i in s) for i in range(m)]


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
def test_holm_decides_like_the_closed_test_of_bonferronis(alpha: float) -> None:
    draw = np.random.default_rng(0)
    for m in (1, 2, 3, 5, 6):
        for _ in range(40):
            p_values = (draw.random(m) ** 3).round(4).tolist()
            expected = rejected_by_closure(p_values, alpha)
            assert [p <= alpha for p in holm(p_values)] == expected
            decided = step_down(m, lambda i, level, p=p_values: p[i] <= 1 - level + 1e-12, 1 - alpha)  # type: ignore[misc]
            assert [i in decided for i in range(m)] == expected


def test_holm_keeps_the_order_and_ties() -> None:
    assert holm([0.04, 0.01, 0.01, 0.5]) == pytest.approx([0.08, 0.04, 0.04, 0.5])
    assert holm([0.4, 0.3]) == pytest.approx([0.6, 0.6])  # 2 · 0.3, and 0.4 may not be less
    assert holm([1.0, 1.0]) == (1.0, 1.0)


@pytest.mark.parametrize("wrong", [-0.1, 1.5, float("nan")])
def test_what_is_no_probability_is_refused(wrong: float) -> None:
    with pytest.raises(OptionError, match="Expected p-values between 0 and 1, but got"):
        holm([0.5, wrong])
    with pytest.raises(OptionError, match="Expected a level between 0 and 1, but got"):
        bonferroni(wrong, 3)


def test_intervals_at_bonferronis_level_hold_at_once() -> None:
    assert bonferroni(0.9, 0) == bonferroni(0.9, 1) == pytest.approx(0.9)
    found = np.random.default_rng(0).normal(size=(20_000, 5))
    reach = NormalDist().inv_cdf((1 + bonferroni(0.9, 5)) / 2)
    assert (np.abs(found) < reach).all(1).mean() == pytest.approx(0.98**5, abs=0.008)


def test_an_intervals_p_value_is_the_tests() -> None:
    for z in (0.3, 1.2, 2.5, 5.0):
        found = p_value(lambda level, z=z: NormalDist().inv_cdf((1 + level) / 2) < z)  # type: ignore[misc]
        assert found == pytest.approx(2 * NormalDist().cdf(-z), rel=1e-6)
    assert p_value(lambda level: False) == 1.0
    assert p_value(lambda level: True) == 1e-12
