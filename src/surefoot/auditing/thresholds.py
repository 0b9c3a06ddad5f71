"""Act above a threshold: chosen on some rows so that few answers are wrong, checked on others."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.auditing._confidence_counts import LOWER_ENDS, Cells, ConfidenceCounts
from surefoot.errors import InputError
from surefoot.metrics.interval import Interval
from surefoot.metrics.selective import RiskCheck, RiskThreshold, check_of_counts, threshold_of_cells
from surefoot.seeding import generator
from surefoot.sources.labels import Array
from surefoot.statistics.multiple import bonferroni

RULE = "confidence >= threshold"
_POINTS = 100
_VALUES = LOWER_ENDS[::-1]


@dataclass(frozen=True)
class GroupThreshold:
    """One value of a group column."""

    column: str
    value: str
    own: RiskThreshold
    """Chosen on this group's rows alone, at a level at which all groups of the column hold together."""
    own_check: RiskCheck | None
    of_all: RiskCheck | None
    """What the threshold for all rows does in this group."""


@dataclass(frozen=True)
class Threshold:
    """A confidence to act above, and what it does on rows that it was not chosen on. Fractions.

    Attributes:
        chosen: The threshold with its guarantee.
        check: What it does on other rows; None where there is no threshold, or no other row.
        chosen_on: Which rows it was chosen on.
        checked_on: Which rows it was checked on.
        groups: Thresholds of groups.
        curve: Share of answers, the surest first, and the share of wrong ones among them, where it was chosen.
        weighted: Whether rows were kept in proportion to their weights.
    """

    chosen: RiskThreshold
    check: RiskCheck | None
    chosen_on: str
    checked_on: str
    groups: tuple[GroupThreshold, ...]
    curve: tuple[tuple[float, float], ...]
    weighted: bool = False

    @property
    def threshold(self) -> float | None:
        """Act where the confidence is at least this; None where nothing could be shown."""
        return self.chosen.threshold

    @property
    def holds(self) -> bool:
        """Whether the check leaves it possible that the risk is kept to."""
        return self.check is None or self.check.risk is None or self.check.risk.low <= self.chosen.risk

    def sentence(self) -> str:
        """Say in one line what a person can act on."""
        chosen = self.chosen
        risk, level = _share(chosen.risk), _share(chosen.level)
        if chosen.threshold is not None:
            promise = (
                f"above {chosen.threshold:.14g} the answer is wrong at most {risk} of the time ({level} confidence)"
            )
            return f"{promise}; {self._checked()}"
        if chosen.n < chosen.needed:
            return (
                f"at most {risk} wrong ({level} confidence) takes at least {chosen.needed:,} answers without an error "
                f"to show, but there are {chosen.n:,} in {self.chosen_on}"
            )
        return (
            f"no threshold can be shown to keep wrong answers to {risk} ({level} confidence): of the "
            f"{chosen.n_above:,} surest answers {chosen.errors:,} are wrong, so it may be {_percent(chosen.bound)}"
        )

    def _checked(self) -> str:
        check = self.check
        if check is None:
            return f"this covers {_percent(self.chosen.coverage)} of the cases; there is no other row to check it on"
        covers = f"this covers {_percent(check.coverage.estimate)} of the cases"
        if check.risk is None:
            return f"{covers}, for no row of {self.checked_on} is above it"
        found = f"{_percent(check.risk.estimate)} wrong ({_ends(check.risk)})"
        if self.holds:
            return f"{covers}; on {self.checked_on}: {found}"
        return f"{covers}; but on {self.checked_on}: {found}, so these rows differ from those that it was chosen on"

    def to_json(self) -> dict[str, Any]:
        """Write the rule, its guarantee and its check for machines: fractions."""
        rule = {"rule": RULE, "threshold": self.threshold, "sentence": self.sentence(), "holds": self.holds}
        return {**rule, **dataclasses.asdict(self)}


def risks_of(risk: str | float | Sequence[float] | None) -> tuple[float, ...]:
    """Read which risks are allowed.

    Args:
        risk: One or several shares, or as people type them.

    Returns:
        The shares.

    Raises:
        InputError: If one is no share.

    Example:
        >>> risks_of("0.01,0.05"), risks_of(0.02), risks_of(None)
        ((0.01, 0.05), (0.02,), ())
    """
    if risk is None:
        return ()
    words = risk.split(",") if isinstance(risk, str) else risk if isinstance(risk, Sequence) else [risk]
    try:
        found = tuple(float(word) for word in words)
    except (TypeError, ValueError, OverflowError):
        found = ()
    if not found or not all(0 < each < 1 for each in found):
        raise InputError(
            f"Expected a risk between 0 and 1, such as 0.02 for 2 %, or several as 0.01,0.05, but got {risk!r}. "
            "Say the share of wrong answers that is allowed."
        )
    return found


def find_thresholds(
    counts: ConfidenceCounts, held_out: ConfidenceCounts | None, risks: Sequence[float], level: float
) -> tuple[Threshold, ...]:
    """Choose a threshold for each risk, and check it on other rows.

    Args:
        counts: Of the audited rows.
        held_out: Of a calibration set, if there is one: then it chooses, and all audited rows check. Else one half of
            the rows chooses, and the other checks.
        risks: Shares of wrong answers that are allowed.
        level: How surely each of them is to be kept to, and of the intervals.

    Returns:
        One per risk.
    """
    on = ("one half of the rows", "the other half")
    if held_out is not None:
        on = ("the calibration set", "the test set")
    return tuple(_find(counts, held_out, risk, level, *on) for risk in risks)


def _find(
    counts: ConfidenceCounts,
    held_out: ConfidenceCounts | None,
    risk: float,
    level: float,
    chosen_on: str,
    checked_on: str,
) -> Threshold:
    chooses, checks = _parts(counts.total, held_out.total if held_out else None, halve=held_out is None)
    chosen = _choose(chooses, risk, level, "all")
    groups = []
    for column, values in counts.groups.items():
        others = held_out.groups.get(column, {}) if held_out else {}
        each = bonferroni(level, len(values))
        for value, cells in sorted(values.items()):
            own_chooses, own_checks = _parts(cells, others.get(value), halve=held_out is None)
            own = _choose(own_chooses, risk, each, f"{column}/{value}")
            checked = [_check(own_checks, at, level) for at in (own.threshold, chosen.threshold)]
            groups.append(GroupThreshold(column, value, own, *checked))
    return Threshold(
        chosen=chosen,
        check=_check(checks, chosen.threshold, level),
        chosen_on=chosen_on,
        checked_on=checked_on,
        groups=tuple(groups),
        curve=_curve(*chooses[:2]),
        weighted=(held_out or counts).weighted,
    )


_Part = tuple[Array, Array, int]


def _parts(cells: Cells, held_out: Cells | None, *, halve: bool) -> tuple[_Part, _Part]:
    """Return the counts that choose, and those that check."""
    if halve:
        return cells.of(0), cells.of(1)
    return (held_out or Cells("none")).of(0, 1), cells.of(0, 1)


def _choose(part: _Part, risk: float, level: float, name: str) -> RiskThreshold:
    count, errors, rows = part
    ties = generator(0, f"audit threshold {name}")
    return threshold_of_cells(_VALUES, count, errors, risk=risk, level=level, rows=rows, generator=ties)


def _check(part: _Part, threshold: float | None, level: float) -> RiskCheck | None:
    count, errors, _ = part
    if threshold is None or not count.sum():
        return None
    above = threshold <= _VALUES
    return check_of_counts(int(count.sum()), int(count[above].sum()), int(errors[above].sum()), level)


def _curve(count: Array, errors: Array) -> tuple[tuple[float, float], ...]:
    """Share of answers and of wrong ones among them, at places where the confidence changes."""
    filled = count > 0
    above, wrong = count[filled].cumsum(), errors[filled].cumsum()
    if not len(above):
        return ()
    places = sorted({int((above >= above[-1] * (i + 1) / _POINTS).argmax()) for i in range(_POINTS)})
    return tuple((float(above[at] / above[-1]), float(wrong[at] / above[at])) for at in places)


def _share(value: float) -> str:
    return f"{100 * value:.6g} %"


def _percent(value: float) -> str:
    """Write a share with as many decimals as it takes not to be 0."""
    text = f"{100 * value:.1f}"
    return f"{text} %" if value == 0 or text != "0.0" else f"{100 * value:.2g} %"


def _ends(interval: Interval) -> str:
    return f"{100 * interval.level:.0f} % interval {100 * interval.low:.1f}–{100 * interval.high:.1f}"
