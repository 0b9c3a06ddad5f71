"""Whether two audits are the same: texts and counts exactly, sums but for the rounding of their last digits."""

from __future__ import annotations

from typing import Any

SUMS = 1e-12


def differences(one: Any, other: Any, at: str = "") -> list[str]:
    """List where two trees of JSON differ, floats by more than 1e-12 of their size (at least of 1)."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [found for key in one for found in differences(one[key], other[key], f"{at}/{key}")]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [
            found for k, pair in enumerate(zip(one, other, strict=True)) for found in differences(*pair, f"{at}/{k}")
        ]
    if isinstance(one, float) and isinstance(other, float):
        return [] if abs(one - other) <= SUMS * max(1.0, abs(one)) else [f"{at}: {one!r} and {other!r}"]
    return [] if type(one) is type(other) and one == other else [f"{at}: {one!r} and {other!r}"]


def test_differences_are_seen() -> None:
    assert differences({"a": [1, 0.5]}, {"a": [1, 0.5 + 1e-15]}) == []
    assert differences({"a": [1, 0.5]}, {"a": [1, 0.5 + 1e-11]}) == ["/a/1: 0.5 and 0.50000000001"]
    assert differences({"a": [1]}, {"a": [2]}) == ["/a/0: 1 and 2"]
    assert differences([1], [1, 2]) == [": [1] and [1, 2]"]
