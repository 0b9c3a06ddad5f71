"""Outcomes that follow from numbers: the side on which a whole interval lies decides, and nothing else.

An outcome needs at least :data:`LEAST_SEEDS` seeds, whatever the numbers are.
"""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.statistics import Estimate
from surefoot.studies.contract import Outcome, Verdict

LEAST_SEEDS = 3
FEW = 5  # parts of a claim whose reasons are all given
DECIDING: tuple[Outcome, ...] = ("did not hold", "not resolved", "held")  # what one part's outcome does to the whole


def above(estimate: Estimate, limit: float, what: str, *, least: int = LEAST_SEEDS) -> Verdict:
    """Return whether a number lies above a limit: its whole interval must lie on one side.

    Args:
        estimate: The number.
        limit: What it is compared with.
        what: Its name, for the reason.
        least: Seeds below which nothing is said.

    Returns:
        Held, did not hold, or not resolved.

    Example:
        >>> above(Estimate(2.0, 1.5, 2.5, 5), 1.0, "the ratio")
        Verdict(outcome='held', reason='the ratio is 2 (1.5 to 2.5, n = 5), above 1')
    """
    shown = f"{what} is {show(estimate)}"
    if estimate.low is None or estimate.high is None or estimate.n < least:
        return Verdict("not resolved", f"{shown}: fewer than {least} seeds")
    if estimate.low > limit:
        return Verdict("held", f"{shown}, above {_short(limit)}")
    if estimate.high < limit:
        return Verdict("did not hold", f"{shown}, below {_short(limit)}")
    return Verdict("not resolved", f"{shown}, not clear of {_short(limit)}")


def below(estimate: Estimate, limit: float, what: str, *, least: int = LEAST_SEEDS) -> Verdict:
    """Return whether a number lies below a limit; see :func:`above`."""
    turned: dict[Outcome, Outcome] = {"held": "did not hold", "did not hold": "held", "not resolved": "not resolved"}
    found = above(estimate, limit, what, least=least)
    return Verdict(turned[found.outcome], found.reason)


def no_worse(estimate: Estimate, tolerance: float, what: str) -> Verdict:
    """Return whether a difference is at least −tolerance with its whole interval, or certainly worse."""
    return above(estimate, -tolerance, what)


def none_of(violations: Estimate, checked: Estimate, what: str) -> Verdict:
    """Return whether something that must never happen never did."""
    if not checked.is_known or not checked.value:
        return Verdict("not resolved", f"{what}: nothing was checked")
    outcome: Outcome = "did not hold" if violations.value else "held"
    return Verdict(outcome, f"{what}: {violations.value:g} violations in {checked.value:g} checks")


def true_if(condition: bool | None, what: str) -> Verdict:
    """Turn a plain comparison into a verdict; None stands for not known."""
    if condition is None:
        return Verdict("not resolved", what)
    return Verdict("held" if condition else "did not hold", what)


def together(parts: Sequence[Verdict]) -> Verdict:
    """Judge a claim with several parts: held if all held, did not hold if one did not.

    Args:
        parts: One verdict each.

    Returns:
        The verdict with all reasons: first those that decide it, then the others by their outcome; of many, only how
        many others there are.

    Example:
        >>> together([Verdict("held", "a"), Verdict("not resolved", "b"), Verdict("not resolved", "c")])
        Verdict(outcome='not resolved', reason='b; c. Held: a')
        >>> together([*[Verdict("held", "a")] * 5, Verdict("did not hold", "b")]).reason
        'b; of the other parts 5 held'
    """
    found: dict[Outcome, list[str]] = {
        name: [part.reason for part in parts if part.outcome == name] for name in DECIDING
    }
    outcome: Outcome = next((name for name in DECIDING if found[name]), "held")
    reason = "; ".join(found[outcome])
    others = {name: reasons for name, reasons in found.items() if name != outcome and reasons}
    if others and len(parts) > FEW:
        counted = " and ".join(f"{len(reasons)} {name}" for name, reasons in reversed(others.items()))
        return Verdict(outcome, f"{reason}; of the other parts {counted}")
    told = [f". {name.capitalize()}: {'; '.join(reasons)}" for name, reasons in others.items()]
    return Verdict(outcome, reason + "".join(told))


def show(estimate: Estimate) -> str:
    """Write a number with its interval: ``2 (1.5 to 2.5, n = 5)``."""
    if not estimate.is_known:
        return "unknown"
    if estimate.low is None or estimate.high is None:
        return f"{_short(estimate.value)} (n = {estimate.n})"
    return f"{_short(estimate.value)} ({_short(estimate.low)} to {_short(estimate.high)}, n = {estimate.n})"


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")
