"""Findings among many: p-values corrected for how many there are."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.errors import OptionError


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    r"""Return p-values that hold for all comparisons together (Holm 1979).

    .. math:: \tilde p_{(k)} = \max_{j \le k} \min(1, (m - j + 1)\, p_{(j)})

    Whatever the dependence among m comparisons: where those of at most α are said to differ, the chance that a single
    one of these does not is at most α.

    Args:
        p_values: One per comparison, in any order. A comparison that cannot be made counts too, with 1.

    Returns:
        As many, in the same order, none smaller than it was.

    Raises:
        OptionError: If one is no probability.

    Example:
        >>> holm([0.01, 0.04, 0.03])  # 3 · 0.01, then 2 · 0.03, then 0.04, which may not be less
        (0.03, 0.06, 0.06)
        >>> holm([])
        ()
    """
    if wrong := [p for p in p_values if not 0 <= p <= 1]:
        raise OptionError(f"Expected p-values between 0 and 1, but got {wrong[0]}. Count what is not known as 1.")
    m, last = len(p_values), 0.0
    adjusted = [0.0] * m
    for rank, place in enumerate(sorted(range(m), key=p_values.__getitem__)):
        last = max(last, min(1.0, (m - rank) * p_values[place]))
        adjusted[place] = last
    return tuple(adjusted)
