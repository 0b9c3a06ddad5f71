"""Which method's confidence to trust: chosen on the calibration split, judged on the test split.

A method that is picked for its test values looks better there than it is. So the test split has no say in the choice,
and nothing is called best unless its differences to all others on the test split are clear of zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.report.measures import show
from surefoot.report.numbers import join, show_percent, signed
from surefoot.report.summary import TOLD, MethodRow, Summary, difference_of
from surefoot.statistics import Estimate

Against = tuple[str, Estimate | None]  # another method, and chosen − other; None where no seed is shared


@dataclass(frozen=True)
class Choice:
    """The method with the lowest mean ECE on the calibration split, and the others in the order they are told of."""

    row: MethodRow
    others: tuple[MethodRow, ...]

    def against(self) -> list[Against]:
        """Return the difference of ECE to each other method on the test split."""
        return [(other.label, difference_of(other.by_seed, self.row.by_seed, "ece")) for other in self.others]


def choose(summary: Summary) -> Choice | None:
    """Choose by mean ECE on the calibration split among the methods that do better there than a constant answer.

    Args:
        summary: The comparison.

    Returns:
        The choice; the first other method is the baseline or, where that is chosen, the runner-up. None where there
        is nothing to choose from, or nothing to choose by.
    """
    known = [row for row in summary.rows if "ece" in row.calibration and "ece" in row.values]
    chosen = next((row for row in known if "ece" in row.best), None)
    if chosen is None or not any(beats_constant(row, "test") for row in known):
        return None
    others = [row for row in summary.rows if row is not chosen and "ece" in row.values]
    if chosen is summary.rows[0]:
        others.sort(key=lambda row: row.calibration["ece"].mean if "ece" in row.calibration else 2.0)
    return Choice(chosen, tuple(others))


def verdict(summary: Summary) -> str:
    """Say in a few sentences which method's confidence to trust, and how far that is known.

    Args:
        summary: The comparison.

    Returns:
        The sentences.
    """
    known = [row for row in summary.rows if "ece" in row.values]
    if not known:
        return "No run has an ECE."
    if len(summary.rows) == 1:
        return _sentences(f"{known[0].label}: {reached(summary, known[0])}.", constant_note(known[0]))
    for split in ("test", "calibration"):
        if not any(beats_constant(row, split) for row in known):
            share = show_percent(known[0].constant[split].share)
            return f"No method beats always saying the largest class ({share} on {split}): ECE means little here."
    choice = choose(summary)
    if choice is None:
        return "No method is chosen: the runs hold no ECE on the calibration split to choose by."
    against = choice.against()
    on_test = "On test it is best calibrated" if is_best(against) else "On test"
    left = [row.label for row in known if not beats_constant(row, "calibration")]
    return _sentences(
        f"Chosen on the calibration split: {choice.row.label}. {on_test}: {reached(summary, choice.row)}.",
        judge(against),
        constant_note(choice.row),
        f"Not chosen from: {join(left)}, no better than always saying the largest class." if left else "",
    )


def reached(summary: Summary, row: MethodRow) -> str:
    """Write ECE and accuracy on the test split."""
    told = [(summary.measures[key], row.values[key].mean) for key in TOLD if key in row.values]
    return ", ".join(f"{measure.label} {show(measure, value)}" for measure, value in told)


def beats_constant(row: MethodRow, split: str) -> bool:
    """Return whether accuracy is clear above that of one constant answer; yes where that was not measured."""
    return split not in row.constant or row.constant[split].is_beaten


def constant_note(row: MethodRow) -> str:
    """Warn of a method whose answers on the test split are worth no more than a constant one; else say nothing."""
    if beats_constant(row, "test"):
        return ""
    share = show_percent(row.constant["test"].share)
    return f"Its accuracy is not clear above always saying the largest class ({share}): its ECE means little."


def is_best(against: Sequence[Against]) -> bool:
    """Return whether the chosen method is below all others, each interval clear of zero."""
    return bool(against) and all(_side(gap) == "below" for _, gap in against)


def judge(against: Sequence[Against], *, begin: str = "That is") -> str:
    """Return how the chosen method compares: with the first other in numbers, with the rest in words.

    Args:
        against: The others, with the chosen method's ECE less theirs.
        begin: The first words.

    Returns:
        A few sentences; empty where there is no other.

    Example:
        >>> judge([("sgd", Estimate(-0.076, -0.089, -0.062, 3))])
        'That is 7.6 points below sgd (95 % interval −8.9 to −6.2, n = 3; clear of zero).'
        >>> judge([("sgd", Estimate(0.01, -0.096, 0.106, 3))])
        'That is 1.0 points above sgd (95 % interval −9.6 to +10.6, n = 3; not clear of zero). More seeds would tell.'
    """
    if not against:
        return ""
    (name, gap), *rest = against
    if gap is None:
        return f"It shares no seed with {name}: there is no telling whether that is luck."
    text = f"{begin} {100 * abs(gap.value):.1f} points {'below' if gap.value < 0 else 'above'} {name}"
    if gap.low is None or gap.high is None:
        return f"{text}; with one seed there is no telling whether that is luck."
    interval = f"95 % interval {signed(100 * gap.low, 1)} to {signed(100 * gap.high, 1)}, n = {gap.n}"
    by_side: dict[str, list[str]] = {"": [], "below": [], "above": []}
    for label, other in against:
        by_side[_side(other)].append(label)
    unclear = [label for label, other in rest if _side(other) == ""]
    told = [f"{text} ({interval}; {'clear' if _side(gap) else 'not clear'} of zero)."]
    if is_best(against) and rest:
        told.append(f"It is clear of zero against {join([label for label, _ in rest])} too.")
    if by_side["above"]:
        verb = "is" if len(by_side["above"]) == 1 else "are"
        told.append(f"{join(by_side['above'])} {verb} better calibrated than it there, clear of zero.")
    if unclear:
        told.append(f"Against {join(unclear)} it is not clear of zero{'' if _side(gap) else ' either'}.")
    return " ".join([*told, "More seeds would tell."] if by_side[""] else told)


def _side(gap: Estimate | None) -> str:
    """Say on which side of zero a difference clearly lies; empty where it does not."""
    if gap is None or gap.low is None or gap.high is None or gap.low <= 0 <= gap.high:
        return ""
    return "below" if gap.high < 0 else "above"


def _sentences(*parts: str) -> str:
    return " ".join(filter(None, parts))


def to_json(summary: Summary) -> dict[str, Any]:
    """Write the comparison for machines: what each method reached, what was chosen on which split, and the verdict.

    Args:
        summary: The comparison.

    Returns:
        Fractions, not percent. ``differences`` are to the first method, ``choice`` has the chosen one's to the others.
    """
    first = summary.rows[0].label if summary.rows else None
    differences = [
        {
            **{"label": row.label, "versus": first},
            **{key: dataclasses.asdict(row.difference[key]) for key in summary.shown if key in row.difference},
        }
        for row in summary.rows
        if row.difference is not None
    ]
    return {
        "rows": [row.to_json(summary.shown) for row in summary.rows],
        "differences": differences,
        "choice": _choice_json(choose(summary)),
        "verdict": verdict(summary),
    }


def _choice_json(choice: Choice | None) -> dict[str, Any] | None:
    if choice is None:
        return None
    against = choice.against()
    gaps = {label: None if gap is None else dataclasses.asdict(gap) for label, gap in against}
    split = {"chosen_on": "calibration", "judged_on": "test", "by": "ece"}
    return {"label": choice.row.label, **split, "is_best": is_best(against), "against": gaps}
