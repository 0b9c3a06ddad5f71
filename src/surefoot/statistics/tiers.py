"""Things that cannot be told apart share a letter (compact letter display)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def tiers(order: Sequence[int], apart: Iterable[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Return the sets of things none of which can be told apart, no set within another (Piepho 2004).

    Not being told apart is not passed on: A and B may be alike, B and C, and yet A and C not. So sets overlap.

    Args:
        order: All things, the best first.
        apart: Pairs that can be told apart.

    Returns:
        The sets, each in order, those with the better ones first. Two share a set if and only if they are not apart.

    Example:
        >>> tiers([2, 0, 1], [(2, 1)])
        ((2, 0), (0, 1))
        >>> tiers([0, 1, 2], [(0, 1), (0, 2)])
        ((0,), (1, 2))
    """
    found = [frozenset(order)] if order else []
    for pair in apart:
        one, other = pair
        split = [
            rest for each in found for rest in ((each - {one}, each - {other}) if {one, other} <= each else (each,))
        ]
        found = [each for each in dict.fromkeys(split) if not any(each < more for more in split)]
    place = {thing: rank for rank, thing in enumerate(order)}
    sets = [tuple(sorted(each, key=place.__getitem__)) for each in found]
    return tuple(sorted(sets, key=lambda each: [place[thing] for thing in each]))


def letters(order: Sequence[int], sets: Sequence[Sequence[int]]) -> dict[int, str]:
    """Return the letters of each thing: those that share one cannot be told apart.

    Args:
        order: All things.
        sets: As :func:`tiers` returns them.

    Returns:
        Texts such as ``ab``, by thing; beyond z numbers stand for letters.

    Example:
        >>> letters([2, 0, 1], tiers([2, 0, 1], [(2, 1)]))
        {2: 'a', 0: 'ab', 1: 'b'}
    """
    names = [chr(ord("a") + number) if number < 26 else f"({number + 1})" for number in range(len(sets))]
    return {thing: "".join(name for name, each in zip(names, sets, strict=True) if thing in each) for thing in order}
