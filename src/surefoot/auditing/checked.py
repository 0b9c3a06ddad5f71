"""What a gate found."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from surefoot.auditing._gate_words import Shown, Side, show_broken, usual
from surefoot.auditing.baseline import Baseline
from surefoot.auditing.result import plain
from surefoot.metrics.interval import Interval

Status = Literal["passed", "broken", "undecided"]


@dataclass(frozen=True)
class Check:
    """One condition, and whether it holds as far as the rows can tell.

    Attributes:
        metric: What is checked.
        shown: Its label, unit and decimals.
        side: ``max``: the value may be at most so much; ``min``: at least.
        limit: How much; None where the baseline's value is the limit.
        status: ``broken`` where the whole interval is on the wrong side, ``passed`` where it is on the right one.
        value: The measure; of a gap, its size.
        was: The baseline's measure.
        change: Value − baseline with its interval, which decides then.
        rows: About how many rows would decide what is undecided; None where that cannot be said.
    """

    metric: str
    shown: Shown
    side: Side
    limit: float | None
    status: Status
    value: Interval
    was: Interval | None = None
    change: Interval | None = None
    rows: int | None = None

    @property
    def note(self) -> str:
        """Why there is no interval."""
        return (self.change or self.value).note


@dataclass(frozen=True)
class Gate:
    """All checks of one model's predictions.

    Attributes:
        file: What was checked.
        took: What was taken for what, for people.
        n: How many rows.
        checks: One after another.
        level: How often a gate that nothing should break is not broken, at least.
        each_level: Of each interval, so that all checks together keep to that.
        positive: Of two classes, the one whose probability is the risk.
        baseline: Its file; None without one.
        baseline_n: How many rows it was made of.
        paired: Whether it is of the same examples, which are compared one by one; None without one.
        notes: What a reader must know about the file.
        doubts: Why these may not be the predictions that they seem to be.
        kept: To be the baseline of later checks.
    """

    file: str
    took: str
    n: int
    checks: tuple[Check, ...]
    level: float
    each_level: float
    positive: str | None
    baseline: str | None
    baseline_n: int | None
    paired: bool | None
    notes: tuple[str, ...]
    doubts: tuple[str, ...]
    kept: Baseline

    @property
    def broken(self) -> bool:
        """Whether a check is broken."""
        return any(each.status == "broken" for each in self.checks)

    def sentence(self) -> str:
        """Say in one line whether the gate holds."""
        broken = [each for each in self.checks if each.status == "broken"]
        open_ = sum(each.status == "undecided" for each in self.checks)
        if broken:
            return "broken: " + "; ".join(map(show_broken, broken))
        if not self.checks:
            return "nothing to check"
        rows, checks = f"{self.n:,} rows" if self.n != 1 else "1 row", _count(len(self.checks), "check")
        if not open_:
            return f"passed: {checks}, on {rows}"
        done = len(self.checks) - open_
        return f"not broken as far as {rows} can tell: {done} of {checks} passed, {open_} cannot be decided"

    def save_baseline(self, path: Path | str) -> None:
        """Keep these predictions as the baseline of later checks.

        Args:
            path: A ``.json`` file.
        """
        keys = dict.fromkeys([*usual(self.kept.summary.positive is not None), *self.kept.summary.values])
        self.kept.save(path, {key: self.kept.summary.interval(key, self.level) for key in keys})

    def to_json(self) -> dict[str, Any]:
        """Write the gate for machines: fractions, null for what is not defined or infinite."""
        values: dict[str, Any] = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("checks", "kept")
        }
        checks = [dataclasses.asdict(each) | {"note": each.note} for each in self.checks]
        return plain({"sentence": self.sentence(), "broken": self.broken, **values, "checks": checks})  # type: ignore[no-any-return]


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
