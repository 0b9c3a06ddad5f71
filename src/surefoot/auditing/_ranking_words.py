"""What to say about several predictions of the same examples, in a line that a person can act on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surefoot.auditing.ranking import Ranking


def ranking_words(ranking: Ranking) -> str:
    """Say which is best by NLL and by calibration, and which cannot be told apart.

    Args:
        ranking: What was found.

    Returns:
        The sentence.
    """
    pieces = [*_by_nll(ranking), *_infinite(ranking), _by_calibration(ranking)]
    level = f"{100 * ranking.level:.0f} %"
    return f"{'; '.join(pieces)} ({level} for all {len(ranking.pairs)} pairs together, by Holm's correction)"


def _by_nll(ranking: Ranking) -> Iterable[str]:
    names, (best, *rest) = ranking.names, ranking.order
    if len(ranking.tiers) == 1:
        yield f"none of {listed(names)} can be told apart by NLL"
        return
    worse = {pair.a + pair.b - best for pair in ranking.pairs if pair.better == best}
    first = [number for number in ranking.order if number not in worse]
    if len(first) == 1:
        yield f"{names[best]} is best by NLL, {_ahead(ranking, best, rest[0])}"
    else:
        yield f"{listed([names[number] for number in first])} cannot be told apart as the best by NLL"
    others = [[number for number in tier if number in worse] for tier in ranking.tiers]
    alike = [tier for tier in others if len(tier) > 1 and not any(set(tier) < set(more) for more in others)]
    yield from (f"{listed([names[n] for n in tier])} cannot be told apart" for tier in _once(alike))
    if len(first) > 1:
        shown = listed([names[number] for number in ranking.order if number in worse])
        yield f"{shown} {'is' if len(worse) == 1 else 'are'} worse than {names[best]}"


def _ahead(ranking: Ranking, best: int, second: int) -> str:
    (pair,) = (pair for pair in ranking.pairs if {pair.a, pair.b} == {best, second})
    nll = pair.differences["nll"]
    if not nll.known:
        return f"ahead of {ranking.names[second]}"
    low, high = sorted(abs(end) for end in (nll.low, nll.high)) if 0.0 not in nll else (0.0, max(-nll.low, nll.high))
    return f"{abs(nll.estimate):.3f} ({low:.3f}–{high:.3f}) below {ranking.names[second]}, the next"


def _infinite(ranking: Ranking) -> Iterable[str]:
    """Say whose NLL is infinite: nothing can be told by it."""
    found = [n for n in ranking.order if not math.isfinite(ranking.nll[n].estimate)]
    if found:
        yield f"the NLL of {listed([ranking.names[number] for number in found])} is infinite"


def _by_calibration(ranking: Ranking) -> str:
    beaten = {pair.a + pair.b - pair.better_calibrated for pair in ranking.pairs if pair.better_calibrated is not None}
    what = "mean risk" if ranking.audits[0].two_classes is not None else "calibration"
    if not beaten:
        return f"none can be told apart by {what}"
    left = [number for number in ranking.order if number not in beaten]
    shown = listed([ranking.names[number] for number in left])
    if len(left) == 1:
        beats = sum(pair.better_calibrated == left[0] for pair in ranking.pairs)
        if beats == len(ranking.names) - 1:
            return f"{shown} is best by {what}"
    return f"by {what} none is shown to be better than {shown}"


def _once(sets: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    return list(dict.fromkeys(map(tuple, sets)))


def listed(names: Sequence[str], most: int = 6) -> str:
    """Write names as in a sentence, of many the first only.

    Args:
        names: At least one.
        most: How many to write.

    Returns:
        The text.

    Example:
        >>> listed(["a", "b", "c"]), listed(list("abcdefgh"), most=3)
        ('a, b and c', 'a, b, c and 5 others')
    """
    shown = list(names) if len(names) <= most + 1 else [*names[:most], f"{len(names) - most} others"]
    return " and ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part)
