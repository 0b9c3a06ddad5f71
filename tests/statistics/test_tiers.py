"""Letters against all subsets."""

from __future__ import annotations

import itertools

import numpy as np

from surefoot.statistics import letters, tiers


def alike_by_all_subsets(m: int, apart: set[tuple[int, int]]) -> set[frozenset[int]]:
    """List every set without a pair that is apart, and keep those that no other holds."""
    subsets = [frozenset(s) for size in range(1, m + 1) for s in itertools.combinations(range(m), size)]
    alike = [s for s in subsets if not any({i, j} <= s for i, j in apart)]
    return {s for s in alike if not any(s < other for other in alike)}


def test_sets_are_the_largest_in_which_none_is_apart() -> None:
    draw = np.random.default_rng(0)
    for m in range(1, 8):
        for _ in range(30):
            pairs = list(itertools.combinations(range(m), 2))
            apart = {pair for pair in pairs if draw.random() < draw.choice([0.2, 0.5, 0.9])}
            order = draw.permutation(m).tolist()
            found = tiers(order, apart)
            assert {frozenset(each) for each in found} == alike_by_all_subsets(m, apart)
            assert len(found) == len(set(found))
            names = letters(order, found)
            for i, j in pairs:
                assert (not set(names[i]) & set(names[j])) == ((i, j) in apart)


def test_sets_and_letters_go_by_rank() -> None:
    assert tiers([3, 1, 0, 2], [(3, 0), (3, 2), (1, 2)]) == ((3, 1), (1, 0), (0, 2))
    assert letters([3, 1, 0, 2], ((3, 1), (1, 0), (0, 2))) == {3: "a", 1: "ab", 0: "bc", 2: "c"}
    assert tiers([], []) == ()
    many = list(range(30))
    assert letters(many, tiers(many, itertools.combinations(many, 2)))[29] == "(30)"
