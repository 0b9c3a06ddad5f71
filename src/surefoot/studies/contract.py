"""What a study is: a published claim, the runs that test it, and the rule by which it is judged.

A study is one file in ``claims/``. Its rule is written down before the runs that it is judged on, and
:attr:`Study.judge` sees the numbers that :attr:`Study.analyse` found and nothing else, so a verdict can be checked from
the results alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from surefoot.errors import SurefootError
from surefoot.evaluate import value_of
from surefoot.records import RunFolder
from surefoot.registry import DATA
from surefoot.schema import UNTRACKED, RunSpec, SplitName, Tracking
from surefoot.statistics import Estimate, Spread
from surefoot.studies._shifted import Shift

Size = Literal["smoke", "laptop", "paper"]
SIZES: tuple[Size, ...] = ("smoke", "laptop", "paper")
Outcome = Literal["held", "contradicted", "did not transfer", "underpowered"]
OUTCOMES: tuple[Outcome, ...] = ("held", "contradicted", "did not transfer", "underpowered")
Side = Literal["for", "against", "open"]
BySeed = dict[int, float]
SETTING = " · "  # between the name of an arm that is tuned and one of its settings


@dataclass(frozen=True)
class Arm:
    """One way to train within a study: a spec, whose seed is replaced, and what to measure on the way and after it.

    Where every seed divides the data anew, ``data`` names them with ``{seed}`` in it; else they are those of the spec.
    """

    spec: RunSpec
    tracking: Tracking = UNTRACKED
    shift: Shift | None = None
    data: str | None = None

    def at(self, seed: int) -> RunSpec:
        """Return the spec of one seed."""
        data = self.spec.data if self.data is None else DATA.parse(self.data.format(seed=seed))
        return replace(self.spec, seed=seed, data=data)


@dataclass(frozen=True)
class Column:
    """A quantity in the table: fractions are shown in percent."""

    key: str
    label: str
    percent: bool = False
    digits: int = 2


@dataclass(frozen=True)
class Row:
    """One line of the table: what was published, as printed there, and what was measured."""

    label: str
    published: Mapping[str, float | None] = field(default_factory=dict)
    measured: Mapping[str, Spread] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """Published beside measured."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Analysis:
    """What a study found: the table for people, and the numbers that the rule goes by.

    Attributes:
        table: Published beside measured.
        numbers: By name.
        shown: The runs that its figures show, where these are not all as they are.
    """

    table: Table
    numbers: Mapping[str, Estimate]
    shown: Runs | None = None


@dataclass(frozen=True)
class Finding:
    """What was found about a claim or a part of it.

    Attributes:
        side: Whether it is clearly for the claim, clearly against it, or neither.
        reason: The numbers that say so.
        p: How probable a number so far on the wrong side is by chance: 1 where it is on the right one, 0 where chance
            has no say.
        is_proof: Whether what is against it contradicts a proof, which holds in every setting.
    """

    side: Side
    reason: str
    p: float = 1.0
    is_proof: bool = False

    def verdict(self, *, same_setting: bool) -> Verdict:
        """Say what it means for the claim.

        Args:
            same_setting: Whether the runs were made as those that the claim was published with.

        Returns:
            Held; contradicted, or did not transfer where the setting is another one; underpowered where it is open.
        """
        against: Outcome = "contradicted" if same_setting or self.is_proof else "did not transfer"
        outcomes: dict[Side, Outcome] = {"for": "held", "against": against, "open": "underpowered"}
        return Verdict(outcomes[self.side], self.reason)


@dataclass(frozen=True)
class Verdict:
    """What came of a claim, and why that is said."""

    outcome: Outcome
    reason: str

    def __str__(self) -> str:
        """Write both as sentences; the reason does not begin with the outcome again."""
        return f"{self.outcome}. {sentence(self.reason)}"


def sentence(text: str) -> str:
    """Begin with a capital and end with a full stop; a symbol such as κ or r stays as it is.

    Example:
        >>> sentence("the ratio is 2"), sentence("r of both is 0.5"), sentence("κ_max is 3.")
        ('The ratio is 2.', 'r of both is 0.5.', 'κ_max is 3.')
    """
    begins = text[:2]
    first = text[:1].upper() if begins.isascii() and begins.isalpha() else text[:1]
    return f"{first}{text[1:].rstrip('.')}."


@dataclass(frozen=True)
class Headline:
    """The number that stands for a claim where there is room for one only.

    Attributes:
        number: Its name among the numbers that the rule goes by.
        limit: On whose far side it speaks for the claim.
        published: What was published, in the same unit; None where no number was.
        percent: Whether it is shown in percentage points.
        is_lower: Whether the claim is that it lies below the limit.
    """

    number: str
    limit: float = 0.0
    published: float | None = None
    percent: bool = False
    is_lower: bool = False


@dataclass(frozen=True)
class Fixed:
    """When a rule was fixed.

    Attributes:
        date: The day.
        commit: The commit that has it word for word.
        amended: What had been seen of an earlier rule by then; empty for one that was written before any run.
    """

    date: str
    commit: str
    amended: str = ""

    def __str__(self) -> str:
        """Write it for the page of results."""
        return f"fixed {self.date} in {self.commit}" + (f", amended after seeing {self.amended}" * bool(self.amended))


@dataclass(frozen=True)
class Drawing:
    """A figure of the results: its name in ``surefoot figure``, and how the names of the arms that it shows begin."""

    figure: str
    arms: str = ""


def order(name: str) -> tuple[str, int]:
    """Return the place of a study in lists: letters first, then numbers as numbers.

    Example:
        >>> sorted(["b1", "a10", "a2", "mine"], key=order)
        ['a2', 'a10', 'b1', 'mine']
    """
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)


Published = Mapping[str, Mapping[str, float | None]]


class Runs:
    """The finished runs of a study, by arm and seed.

    Args:
        found: Finished runs.
        failed: What went wrong with the others.
        shifts: On which shifted pictures the arms were measured.

    Attributes:
        asked: Measures that were read, each a run, a split and a key.
        followed: Tracked quantities that were read.
    """

    def __init__(
        self,
        found: Mapping[str, Mapping[int, RunFolder]],
        failed: Mapping[str, Mapping[int, SurefootError]] | None = None,
        shifts: Mapping[str, Shift] | None = None,
    ) -> None:
        self.found = {arm: dict(sorted(runs.items())) for arm, runs in found.items()}
        self.failed = {arm: dict(errors) for arm, errors in (failed or {}).items() if errors}
        self.shifts = dict(shifts or {})
        self.asked: set[tuple[str, str, str]] = set()
        self.followed: set[str] = set()

    def __getitem__(self, arm: str) -> dict[int, RunFolder]:
        """Return an arm's runs by seed; none if all failed."""
        return self.found.get(arm, {})

    def tuned(self, *, by: str = "nll") -> Runs:
        """Choose among the settings of every arm that has some, seed by seed, by a metric on the calibration split.

        Args:
            by: The metric, whose smallest value is chosen.

        Returns:
            The runs with one arm in place of ``arm · setting`` for each, and all others as they are.
        """
        groups: dict[str, list[str]] = {}
        for label in self.found:
            groups.setdefault(label.partition(SETTING)[0], []).append(label)
        found = {arm: self._chosen(labels, by) for arm, labels in groups.items()}
        shifts = {arm: self.shifts[labels[0]] for arm, labels in groups.items() if labels[0] in self.shifts}
        return self.with_arms(found, shifts)

    def with_arms(self, found: Mapping[str, Mapping[int, RunFolder]], shifts: Mapping[str, Shift]) -> Runs:
        """Return other arms made of the same runs; what is read of them counts as read of these."""
        made = Runs(found, self.failed, shifts)
        made.asked, made.followed = self.asked, self.followed
        return made

    def _chosen(self, labels: Sequence[str], by: str) -> dict[int, RunFolder]:
        """Return the best setting's run of every seed; one that failed is out, one that is not made yet stops it."""
        if len(labels) == 1:
            return self[labels[0]]
        scores = {label: self.measure(label, by, split="calibration") for label in labels}
        chosen = {}
        for seed in sorted({seed for label in labels for seed in self[label]}):
            left = [label for label in labels if seed not in self.failed.get(label, {})]
            if all(seed in scores[label] for label in left):
                chosen[seed] = self[min(left, key=lambda label: scores[label][seed])][seed]
        return chosen

    def measure(self, arm: str, metric: str, *, calibrator: str | None = None, split: SplitName = "test") -> BySeed:
        """Read a metric of an arm's finished networks, by seed."""
        key = f"{metric}@{calibrator}" if calibrator else metric
        self.asked.update((run.path.name, split, key) for run in self[arm].values())
        found = {seed: value_of(run, key, split=split) for seed, run in self[arm].items()}
        return {seed: value for seed, value in found.items() if value is not None}

    def along(self, arms: Sequence[str], metric: str, *, split: SplitName = "test") -> dict[int, list[float]]:
        """Read a metric arm by arm, by seed: those seeds that every arm has."""
        found = [self.measure(arm, metric, split=split) for arm in arms]
        shared = [seed for seed in (found[0] if found else {}) if all(seed in each for each in found)]
        return {seed: [each[seed] for each in found] for seed in shared}

    def series(self, arm: str, *keys: str) -> dict[int, dict[int, tuple[float, ...]]]:
        """Read tracked quantities of an arm, by seed and step: those steps at which all of them were measured."""
        self.followed.update(keys)
        return {seed: _series(run, keys) for seed, run in self[arm].items()}

    def last(self, arm: str, key: str) -> BySeed:
        """Read a tracked quantity at the end of training, by seed."""
        found = {seed: list(steps.values()) for seed, steps in self.series(arm, key).items()}
        return {seed: values[-1][0] for seed, values in found.items() if values}

    def shifted(
        self,
        arm: str,
        metric: str,
        *,
        corruption: str | None = None,
        severity: int | None = None,
        ood: str | None = None,
    ) -> BySeed:
        """Average a metric over shifted pictures, by seed; what is not said is all corruptions and all severities."""
        part = self.shifts[arm].part(corruption=corruption, severity=severity, ood=ood)
        found = {seed: part.mean(run, metric) for seed, run in self[arm].items()}
        return {seed: value for seed, value in found.items() if value is not None}

    def all(self) -> list[RunFolder]:
        """Return all finished runs, arm by arm."""
        return [run for runs in self.found.values() for run in runs.values()]


def _series(run: RunFolder, keys: Sequence[str]) -> dict[int, tuple[float, ...]]:
    seen: dict[int, dict[str, float]] = {}
    for record in run.tracked():
        for key in keys:
            if record.get(key) is not None:
                seen.setdefault(record["step"], {})[key] = record[key]
    return {step: tuple(at[key] for key in keys) for step, at in sorted(seen.items()) if len(at) == len(keys)}


@dataclass(frozen=True, kw_only=True)
class Study:
    """A published claim and how it is tested.

    Attributes:
        question: What is asked, in a sentence.
        rule: What has to be seen for the claim to have held.
        fixed: When the rule was fixed.
        differs: How the runs differ from the published ones at other sizes than ``paper``; empty where they do not.
        headline: The number for the figure of all claims.
        grid: The arms at a size, by label.
        analyse: From finished runs to table and numbers.
        judge: From the numbers to what they say of the claim.
        published: The published values: row → column → value as printed.
        source: Where they stand.
        seeds: How many seeds at each size.
        first_seed: The lowest of them: others may have been spent on finding out what to ask.
        drawings: The figures of the results.
    """

    question: str
    rule: str
    grid: Callable[[Size], dict[str, Arm]]
    analyse: Callable[[Runs], Analysis]
    judge: Callable[[Mapping[str, Estimate]], Finding]
    fixed: Fixed | None = None
    differs: str = ""
    headline: Headline | None = None
    published: Published = field(default_factory=dict)
    source: str = ""
    seeds: Mapping[Size, int] = field(default_factory=lambda: {"smoke": 1, "laptop": 5, "paper": 5})
    first_seed: int = 0
    drawings: tuple[Drawing, ...] = ()

    def seeds_at(self, size: Size) -> range:
        """Return the seeds at a size."""
        return range(self.first_seed, self.first_seed + self.seeds[size])

    def verdict(self, numbers: Mapping[str, Estimate], size: Size) -> Verdict:
        """Return what the numbers mean for the claim at a size."""
        return self.judge(numbers).verdict(same_setting=size == "paper" or not self.differs)
