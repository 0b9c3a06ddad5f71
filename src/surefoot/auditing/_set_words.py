"""What prediction sets did, in one sentence that a person can act on."""

from __future__ import annotations

from surefoot.prediction_sets import PredictionSets, SetMeasures


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
        f"{sets.name} sets hold the true class in {100 * found.estimate:.1f} % of {measures.n:,} rows that they were "
        f"not fitted on, {interval}, asked for {100 * measures.wanted:g} %"
    ]
    if not measures.holds:
        pieces.append("that is fewer than chance explains, so these rows are not like those the sets were fitted on")
    names_one = f"{100 * measures.singletons:.0f} % of the sets name one class"
    empty = f", {100 * measures.empty:.0f} % none" if measures.empty >= 0.005 else ""
    pieces.append(f"{measures.mean_size.estimate:.2f} of {sets.n_classes} classes on average; {names_one}{empty}")
    for parts, kind in ((measures.classes, "class"), (measures.groups, "group")):
        under = [each for each in parts if each.under]
        if under:
            worst = min(under, key=lambda each: each.coverage.estimate)
            named = f"{worst.column} = {worst.value}" if worst.column else worst.value
            more = f" and {len(under) - 1} more" if len(under) > 1 else ""
            hint = " (per-class thresholds would cover it)" if kind == "class" and not sets.per_class else ""
            share = f"{100 * worst.coverage.estimate:.1f} %"
            pieces.append(f"covered too seldom: {kind} {named}, {share}{more}{hint}")
    return "; ".join(pieces)
