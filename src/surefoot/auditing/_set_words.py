"""What prediction sets did, in one sentence that a person can act on."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.prediction_sets import PartCoverage, PredictionSets, SetMeasures


def sentence_of(measures: SetMeasures, sets: PredictionSets) -> str:
    """Say how often sets hold the true class, how large they are, and where they fail.

    Args:
        measures: On rows that the sets were not fitted on.
        sets: Those that were measured.

    Returns:
        One line without a full stop.
    """
    found = measures.coverage
    interval = f"{100 * found.level:.0f} % interval {100 * found.low:.1f}–{100 * found.high:.1f}"
    pieces = [
        f"{_called(sets.name)} sets hold the true class in {100 * found.estimate:.1f} % of {measures.n:,} rows that "
        f"they were not fitted on, {interval}, asked for {100 * measures.wanted:g} %"
    ]
    if not measures.holds:
        seldom = f"p = {measures.p_value:.2g}" if measures.p_value else "p < 1e-300"
        pieces.append(f"chance seldom gives so few ({seldom}), so these rows may not be like those fitted on")
    names_one = f"{100 * measures.singletons:.0f} % of the sets name one class"
    empty = f", {100 * measures.empty:.0f} % none" if measures.empty >= 0.005 else ""
    pieces.append(f"{measures.mean_size.estimate:.2f} of {sets.n_classes} classes on average; {names_one}{empty}")
    few = [_worst(parts, kind) for parts, kind in ((measures.classes, "class"), (measures.groups, "group"))]
    if any(few):
        hint = " (--per-class covers every class)" if few[0] and not sets.per_class else ""
        pieces.append(f"covered too seldom: {', '.join(filter(None, few))}{hint}")
    return "; ".join(pieces)


def _called(name: str) -> str:
    return name if ":" in name else name.upper()


def _worst(parts: Sequence[PartCoverage], kind: str) -> str:
    under = [each for each in parts if each.under]
    if not under:
        return ""
    worst = min(under, key=lambda each: each.coverage.estimate)
    named = f"{worst.column} = {worst.value}" if worst.column else worst.value
    more = f" and {len(under) - 1} more" if len(under) > 1 else ""
    return f"{kind} {named} {100 * worst.coverage.estimate:.1f} %{more}"
