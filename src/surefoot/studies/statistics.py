"""The statistics behind every verdict: intervals over seeds, and outcomes that follow from them.

Everything is paired by seed: two arms with the same seed share initial weights and the order of examples. Intervals
are at 95 %. An outcome needs at least :data:`LEAST_SEEDS` seeds, whatever the numbers look like.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from surefoot.report.correlation import pearson
from surefoot.report.summary import paired_difference
from surefoot.studies.contract import Estimate, Outcome, Verdict

LEAST_SEEDS = 3
N_RESAMPLED = 10_000
NOTHING = Estimate(None, n=0)
FEW = 5  # parts of a claim whose reasons are all given


def difference(first: Mapping[int, float], second: Mapping[int, float]) -> Estimate:
    """Return the mean of ``first − second`` over the seeds they share, with Student's interval.

    Args:
        first: Values by seed.
        second: Likewise.

    Returns:
        The estimate.

    Example:
        >>> gap = difference({0: 2.0, 1: 4.0, 2: 6.0}, {0: 1.0, 1: 2.0, 2: 3.0, 9: 0.0})
        >>> gap.value, round(gap.low, 3), gap.n
        (2.0, -0.484, 3)
    """
    return mean([first[seed] - second[seed] for seed in first if seed in second])


def mean(values: Sequence[float]) -> Estimate:
    """Return a mean with Student's interval."""
    if not values:
        return NOTHING
    found = paired_difference(values)
    return Estimate(found.mean, found.low, found.high, found.n)


def ratio(first: Mapping[int, float], second: Mapping[int, float]) -> Estimate:
    r"""Return :math:`\sum_s a_s / \sum_s b_s` over the seeds they share, with a bootstrap interval over seeds.

    Args:
        first: Values by seed.
        second: Likewise, above 0.

    Returns:
        The ratio of means and the 2.5 % and 97.5 % quantiles of it over resampled seeds.

    Example:
        >>> ratio({0: 2.0, 1: 4.0, 2: 6.0}, {0: 1.0, 1: 2.0, 2: 3.0})  # the same in every seed
        Estimate(value=2.0, low=2.0, high=2.0, n=3)
    """
    seeds = [seed for seed in first if seed in second]
    a, b = (np.array([values[seed] for seed in seeds]) for values in (first, second))
    if not seeds or b.sum() <= 0:
        return NOTHING
    value = float(a.sum() / b.sum())
    if len(seeds) < 2:
        return Estimate(value, n=1)
    drawn = np.random.default_rng(0).integers(0, len(seeds), (N_RESAMPLED, len(seeds)))
    below = b[drawn].sum(1)
    low, high = np.quantile((a[drawn].sum(1) / np.where(below > 0, below, np.nan)), [0.025, 0.975])
    return Estimate(value, float(low), float(high), len(seeds))


def correlation(pairs: Iterable[tuple[float, ...]]) -> float:
    """Return Pearson's r of two series over the same moments; NaN for fewer than three or for constants.

    Args:
        pairs: The two values at every moment.

    Returns:
        Between −1 and 1.

    Example:
        >>> round(correlation([(1.0, 2.0), (2.0, 4.0), (3.0, 7.0)]), 4)
        0.9934
    """
    found = np.array(list(pairs), np.float64)
    return pearson(found[:, 0], found[:, 1]) if len(found) >= 3 else math.nan


def mean_and_sd(values: Sequence[float]) -> Estimate:
    """Return mean ± one standard deviation, as the papers print spreads over learning rates; not an interval."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return NOTHING
    middle, half = statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else 0.0
    return Estimate(middle, middle - half, middle + half, len(known))


def u_shape(
    curves: Mapping[int, Sequence[float]], chosen_by: Mapping[int, Sequence[float]]
) -> tuple[Estimate, Estimate]:
    """Contrast both ends of a curve with an inner point: U-shaped where both contrasts are above 0.

    The inner point is the one with the lowest mean over seeds on other examples: were it chosen on those that the
    contrasts are taken on, the contrasts would come out too high. They are ``first − inner`` and ``last − inner``,
    paired by seed.

    Args:
        curves: By seed, the values at increasing settings; at least three. Of the test split.
        chosen_by: Likewise, of the calibration split.

    Returns:
        Left and right contrast.

    Example:
        >>> left, right = u_shape({0: [3.0, 1.0, 0.5, 2.0]}, {0: [3.0, 1.0, 1.5, 2.0]})
        >>> left.value, right.value
        (2.0, 1.0)
    """
    whole = {seed: curve for seed, curve in curves.items() if len(curve) >= 3 and len(chosen_by.get(seed, ())) >= 3}
    if not whole:
        return NOTHING, NOTHING
    table, other = np.array(list(whole.values())), np.array([chosen_by[seed] for seed in whole])
    inner = 1 + int(other[:, 1:-1].mean(0).argmin())
    left, right = table[:, 0] - table[:, inner], table[:, -1] - table[:, inner]
    return mean(left.tolist()), mean(right.tolist())


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
    if not checked.value:
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
    if estimate.value is None:
        return "unknown"
    if estimate.low is None or estimate.high is None:
        return f"{_short(estimate.value)} (n = {estimate.n})"
    return f"{_short(estimate.value)} ({_short(estimate.low)} to {_short(estimate.high)}, n = {estimate.n})"


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")
