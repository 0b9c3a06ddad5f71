"""What a study is: a published claim, the runs that test it, and the rule by which it is judged.

A study is one file in ``claims/``. Its rule is written down before the runs that it is judged on, and
:attr:`Study.judge` sees the numbers that :attr:`Study.analyse` found and nothing else, so a verdict can be checked from
the results alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from surefoot.registry import DATA
from surefoot.schema import UNTRACKED, RunSpec, Tracking
from surefoot.statistics import NOTHING, Estimate, Spread
from surefoot.studies._shifted import Shift
from surefoot.studies.runs import Runs

Size = Literal["smoke", "laptop", "paper"]
SIZES: tuple[Size, ...] = ("smoke", "laptop", "paper")
Outcome = Literal["held", "contradicted", "did not transfer", "underpowered"]
OUTCOMES: tuple[Outcome, ...] = ("held", "contradicted", "did not transfer", "underpowered")
Side = Literal["for", "against", "open"]


@dataclass(frozen=True)
class Arm:
    """One way to train within a study: a spec, whose seed is replaced, and what to measure on the way and after it.

    Where every seed divides the data anew, ``data`` names them with ``{seed}`` in it; else they are those of the spec.
    ``seeds`` are those of an arm that needs others than its study, such as more of them.
    """

    spec: RunSpec
    tracking: Tracking = UNTRACKED
    shift: Shift | None = None
    data: str | None = None
    seeds: range | None = None

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
        number: What was held against a limit, if one was.
        limit: The limit.
    """

    side: Side
    reason: str
    p: float = 1.0
    is_proof: bool = False
    number: Estimate = NOTHING
    limit: float = 0.0

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
