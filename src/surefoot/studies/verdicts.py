"""What numbers say of a claim: the side on which a whole interval lies decides, and nothing else.

A side needs at least :data:`LEAST_SEEDS` seeds, whatever the numbers are. A claim of several parts is one that all of
them speak for, each with its own interval: were one of them false, 5 % is the chance to miss it, however many there
are. That one of many speaks against it happens by chance more often, so that is corrected for their number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from surefoot.statistics import NOTHING, Estimate, holm
from surefoot.studies.contract import Finding, Side

LEAST_SEEDS = 3
LARGE = 999.5  # three digits of which would be written as a power of ten
FEW = 5  # parts of a claim whose reasons are all given
LEVEL = 0.05
DECIDING: tuple[Side, ...] = ("against", "open", "for")  # what one part's side does to the whole


def above(
    estimate: Estimate, limit: float, what: str, *, enough: float | None = None, least: int = LEAST_SEEDS
) -> Finding:
    """Return whether a number lies above a limit: its whole interval must lie on one side.

    Args:
        estimate: The number.
        limit: What it is compared with.
        what: Its name, for the reason.
        enough: The smallest number beyond the limit that would be worth the claim: where it is not clear of the limit
            and its whole interval lies below this, that is against it. Else the limit itself.
        least: Seeds below which nothing is said.

    Returns:
        For it, against it, or open; then with the number of seeds that would tell.

    Example:
        >>> above(Estimate(2.0, 1.5, 2.5, 5), 1.0, "the ratio").reason
        'the ratio is 2 (1.5 to 2.5, n = 5), above 1'
        >>> above(Estimate(1.2, 0.7, 1.7, 5), 1.0, "the ratio").reason
        'the ratio is 1.2 (0.7 to 1.7, n = 5), not clear of 1: about 34 seeds would tell'
        >>> above(Estimate(1.2, 0.7, 1.7, 5), 1.0, "the ratio", enough=2.0).reason
        'the ratio is 1.2 (0.7 to 1.7, n = 5), not clear of 1 and below 2'
    """
    return _beyond(estimate, limit, what, least, enough, wants_above=True)


def below(estimate: Estimate, limit: float, what: str, *, least: int = LEAST_SEEDS) -> Finding:
    """Return whether a number lies below a limit; see :func:`above`."""
    return _beyond(estimate, limit, what, least, wants_above=False)


def no_worse(estimate: Estimate, tolerance: float, what: str) -> Finding:
    """Return whether a difference is at least −tolerance with its whole interval, or certainly worse."""
    return above(estimate, -tolerance, what)


def _beyond(
    estimate: Estimate, limit: float, what: str, least: int, enough: float | None = None, *, wants_above: bool
) -> Finding:
    shown = f"{what} is {show(estimate)}"
    if estimate.low is None or estimate.high is None or estimate.n < least:
        return Finding("open", f"{shown}: fewer than {least} seeds")
    if estimate.low <= limit <= estimate.high:
        if enough is not None and estimate.high < enough:
            reason = f"{shown}, not clear of {short(limit)} and below {short(enough)}"
            return Finding("against", reason, estimate.p_value(enough), number=estimate, limit=enough)
        told = [estimate.seeds_to_tell(each) for each in (limit, enough) if each is not None]
        takes = _takes(min(filter(None, told), default=None))
        return Finding("open", f"{shown}, not clear of {short(limit)}: {takes}")
    is_above = estimate.low > limit
    reason = f"{shown}, {'above' if is_above else 'below'} {short(limit)}"
    if is_above == wants_above:
        return Finding("for", reason)
    return Finding("against", reason, estimate.p_value(limit), number=estimate, limit=limit)


def _takes(seeds: int | None) -> str:
    return f"about {seeds} seeds would tell" if seeds else "not even 1,000 seeds would tell"


def none_of(violations: Estimate, checked: Estimate, what: str) -> Finding:
    """Return whether something that is proven never to happen never did."""
    if not checked.is_known or not checked.value:
        return Finding("open", f"{what}: nothing was checked")
    reason = f"{what}: {violations.value:,g} violations in {checked.value:,.0f} checks"
    return Finding("against", reason, 0.0, is_proof=True) if violations.value else Finding("for", reason)


def true_if(condition: bool | None, what: str) -> Finding:
    """Turn a plain comparison into a finding; None stands for not known."""
    if condition is None:
        return Finding("open", what)
    return Finding("for", what) if condition else Finding("against", what, 0.0)


def together(parts: Sequence[Finding]) -> Finding:
    """Judge a claim with several parts: for it if all are, against it if one is after Holm's correction.

    Args:
        parts: One finding each.

    Returns:
        The finding with all reasons: first those that decide it, then the others by their side; of many, only how many
        others there are.

    Example:
        >>> together([Finding("for", "a"), Finding("open", "b"), Finding("open", "c")]).reason
        'b; c. For it: a'
        >>> together([*[Finding("for", "a")] * 5, Finding("against", "b", 0.001)]).reason
        'b; of the other parts 5 are for it'
        >>> together([*[Finding("for", "a")] * 4, Finding("open", "c"), Finding("against", "b", 0.001)]).reason
        'b; of the other parts 4 are for it and 1 is open'
        >>> low = Estimate(2.0, 0.5, 3.5, 3)
        >>> together([*[Finding("for", "a")] * 5, Finding("against", "b", 0.01, number=low)]).reason  # 6 · 0.01 > 0.05
        'b, but not clear among 6 parts: about 5 seeds would tell; of the other parts 5 are for it'
    """
    corrected = holm([part.p for part in parts])
    parts = [_with(part, p, len(parts)) for part, p in zip(parts, corrected, strict=True)]
    found: dict[Side, list[str]] = {side: [part.reason for part in parts if part.side == side] for side in DECIDING}
    side: Side = next((side for side in DECIDING if found[side]), "for")
    deciding = [part for part in parts if part.side == side]
    reason = "; ".join(found[side])
    others = {other: reasons for other, reasons in found.items() if other != side and reasons}
    if others and len(parts) > FEW:
        counted = " and ".join(f"{_are(len(reasons))} {_said(other)}" for other, reasons in reversed(others.items()))
        reason += f"; of the other parts {counted}"
    else:
        reason += "".join(f". {_said(other).capitalize()}: {'; '.join(told)}" for other, told in others.items())
    return Finding(side, reason, min(corrected, default=1.0), any(part.is_proof for part in deciding))


def deciding(reason: str) -> tuple[list[str], bool]:
    """Read a reason that :func:`together` wrote: the parts that decide, and whether there are others.

    Example:
        >>> deciding("a is 1; b is 2. For it: c is 3"), deciding("a is 1; of the other parts 5 are for it")
        ((['a is 1', 'b is 2'], True), (['a is 1'], True))
    """
    first, *others = re.split(r"\. (?=(?:For it|Against it|Open): )|; of the other parts ", reason)
    return first.split("; "), bool(others)


def _with(part: Finding, p: float, n_parts: int) -> Finding:
    """Correct a part for the number of parts."""
    if part.side == "against" and p > LEVEL:
        reason = f"{part.reason}, but not clear among {n_parts} parts"
        if part.number.is_known:
            reason += f": {_takes(part.number.seeds_to_tell(part.limit, level=LEVEL / n_parts))}"
        return Finding("open", reason)
    return replace(part, p=p)


def _are(n: int) -> str:
    return f"{n} is" if n == 1 else f"{n} are"


def _said(side: Side) -> str:
    return {"for": "for it", "against": "against it", "open": "open"}[side]


def read_numbers(values: Mapping[str, Any]) -> dict[str, Estimate]:
    """Read the numbers that a rule goes by from a result's plain values; one that is not known is null there."""
    found = values["numbers"].items()
    return {name: Estimate(**number) if number["value"] is not None else NOTHING for name, number in found}


def show(estimate: Estimate) -> str:
    """Write a number with its interval: ``2 (1.5 to 2.5, n = 5)``."""
    if not estimate.is_known:
        return "unknown"
    if estimate.low is None or estimate.high is None:
        return f"{short(estimate.value)} (n = {estimate.n})"
    return f"{short(estimate.value)} ({short(estimate.low)} to {short(estimate.high)}, n = {estimate.n})"


def short(value: float) -> str:
    """Write a number with three digits, a large one to the unit: ``0.0123``, ``21,346``."""
    return (f"{value:,.0f}" if abs(value) >= LARGE else f"{value:.3g}").replace("-", "−")
