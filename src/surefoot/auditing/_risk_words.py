"""What to say about the risk of one of two classes, in a line that a person can act on."""

from __future__ import annotations

from surefoot.auditing._repair import CalibratorEffect
from surefoot.auditing._two_classes import TwoClasses

_FOLDS = {2: "twofold", 3: "threefold", 4: "fourfold", 5: "fivefold", 6: "sixfold", 7: "sevenfold", 8: "eightfold"}
_FOLDS |= {9: "ninefold", 10: "tenfold"}
MANY_TIMES = 1.5  # from here on a factor says more than a difference


def risk_words(two: TwoClasses) -> str:
    """Return how the risk compares with what happens.

    Args:
        two: What was found.

    Returns:
        The first part of the sentence.
    """
    risk, name = two.risk, f"P({two.positive.name})"
    level = f"{100 * risk.gap.level:.0f} % interval {_ends(risk.rate.low, risk.rate.high)}"
    means = f"mean {name} {percent(risk.mean)} where {percent(risk.rate.estimate)} happen, {level}"
    ece = f"ECE of {name} {percent(risk.ece.estimate)}"
    limit = f"chance alone seldom gives more than {percent(risk.consistency.limit)}"
    if two.finding in ("overstated", "understated"):
        return f"risk is {two.finding} {how_much(risk.mean, risk.rate.estimate)}: {means}"
    if two.finding == "over-confident":
        return f"risk is too extreme, too high where it is high and too low where it is low: {ece}, where {limit}"
    if two.finding == "under-confident":
        return f"risk is too moderate, too low where it is high and too high where it is low: {ece}, where {limit}"
    if two.finding == "mixed":
        return f"risk is too high in some places and too low in others: {ece}, where {limit}"
    chance = f"chance alone would give up to {percent(risk.consistency.limit)}"
    examples = f"{risk.n:,} examples with {risk.events:,} events"
    return f"risk is calibrated as far as {examples} can tell: {means}; {ece}, and {chance}"


def repair_words(two: TwoClasses) -> str:
    """Say what repairs the risk, and what does not.

    Args:
        two: What was found.

    Returns:
        The second part of the sentence.
    """
    if two.finding == "calibrated":
        return "nothing to repair"
    if not two.repairs:
        return two.why_no_repair
    before, one = percent(two.risk.ece.estimate), two.temperature
    if not two.advised:
        best = min(two.repairs, key=lambda each: each.ece.estimate)
        return f"no calibrator repairs it: {best.name} brings ECE from {before} to {percent(best.ece.estimate)} only"
    if two.advised[0] is one:
        said = f"temperature {one.temperature:.2f} brings"
    else:
        said = f"{_listed(two.advised)} {'brings' if len(two.advised) == 1 else 'bring'}"
    means, errors = ([percent(each.mean) for each in two.advised], [percent(each.ece.estimate) for each in two.advised])
    said += f" the mean to {_span(means)} and ECE from {before} to {_span(errors)}"
    if one is not None and one not in two.advised:
        said += f", a temperature does not (mean {percent(one.mean)}, ECE {percent(one.ece.estimate)})"
    return said


def compare_words(a: TwoClasses, b: TwoClasses) -> str:
    """Say whose mean risk is nearer to what happens, as far as it can be told.

    The events are the same for both, so only where the event rate may lie is left to chance: over all of it one of
    them has to be nearer.

    Args:
        a: One.
        b: The other, of the same examples.

    Returns:
        The words.
    """
    means, rate = {"A": a.risk.mean, "B": b.risk.mean}, a.risk.rate
    low, high = rate.low, rate.high
    nearer, other = sorted(means, key=lambda name: abs(means[name] - rate.estimate))
    happen = f"where {percent(rate.estimate)} happen, {100 * rate.level:.0f} % interval {_ends(low, high)}"
    if all(abs(means[nearer] - end) < abs(means[other] - end) for end in (low, high)):
        return (
            f"{nearer} has the better mean risk: {percent(means[nearer])} against {percent(means[other])} of {other}, "
            f"{happen}"
        )
    return f"A and B cannot be told apart by their mean risk: {percent(means['A'])} and {percent(means['B'])}, {happen}"


def how_much(mean: float, rate: float) -> str:
    """Say by how much two shares differ: as a factor where it is large, else in points.

    Args:
        mean: Mean risk.
        rate: Event rate.

    Returns:
        The words.

    Example:
        >>> how_much(0.12, 0.024), how_much(0.01, 0.016), how_much(0.55, 0.5)
        ('fivefold', '1.6-fold', 'by 5.0 points')
    """
    low, high = sorted((mean, rate))
    times = high / low if low > 0 else 0.0
    if times < MANY_TIMES:
        return f"by {percent(high - low).removesuffix(' %')} points"
    whole = round(times)
    near = abs(times - whole) < 0.15 or whole > 2
    return (_FOLDS.get(whole) or f"{whole:,}-fold") if near else f"{times:.1f}-fold"


def percent(share: float) -> str:
    """Write a share in percent: one decimal, more where it is below one percent.

    Example:
        >>> percent(0.024), percent(0.00234), percent(0.0)
        ('2.4 %', '0.23 %', '0.0 %')
    """
    return f"{_number(share)} %"


def _number(share: float) -> str:
    value = 100 * share
    if abs(value) < 1e-9 or abs(value) >= 0.95:  # less than that is rounding
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.01 else f"{value:.1g}"


def _ends(low: float, high: float) -> str:
    return f"{_number(low)}–{_number(high)}"


def _listed(repairs: tuple[CalibratorEffect, ...]) -> str:
    names = [each.name for each in repairs]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _span(texts: list[str]) -> str:
    """Write equal texts once, others as a range."""
    values = sorted(set(texts), key=lambda text: float(text.split()[0]))
    return values[0] if len(values) == 1 else f"{values[0].removesuffix(' %')}–{values[-1]}"
