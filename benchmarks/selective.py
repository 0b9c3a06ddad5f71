"""How often "above this threshold at most so many are wrong" is false, by simulation.

python benchmarks/selective.py                    # the table of docs/metrics.md, some minutes
python benchmarks/selective.py --studies 200      # fewer
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betainc

from surefoot.metrics import risk_threshold
from surefoot.seeding import derive, generator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Population:
    """Stretches of answers, the surest first: their shares, and how many are wrong in each.

    ``tied`` stretches have one confidence each; else every answer has its own. Thresholds see nothing but this order,
    so it stands for every distribution of confidences with these errors.
    """

    shares: Array
    wrong: Array
    tied: bool = False

    def draw(self, n: int, source: np.random.Generator) -> tuple[Array, Array]:
        """Draw confidences and whether each answer is right."""
        place = source.random(n)
        stretch = np.searchsorted(self.shares.cumsum()[:-1], place, side="right")
        right = source.random(n) >= self.wrong[stretch]
        return (1 - (stretch + 1) / (len(self.shares) + 1) if self.tied else 1 - place), right

    def risk(self, threshold: float) -> float:
        """Return the share of wrong answers among all that are at least so sure."""
        if self.tied:
            stretch = round((1 - threshold) * (len(self.shares) + 1))
            return float((self.shares * self.wrong)[:stretch].sum() / self.shares[:stretch].sum())
        ends = np.concatenate([[0.0], self.shares.cumsum()])
        errors = np.concatenate([[0.0], (self.shares * self.wrong).cumsum()])
        place = 1 - threshold
        return float(np.interp(place, ends, errors) / place)


def smooth(wrong: Callable[[Array], Array], stretches: int = 500) -> Population:
    """Divide a curve into short stretches."""
    middle = (np.arange(stretches) + 0.5) / stretches
    return Population(np.full(stretches, 1 / stretches), wrong(middle))


def hovering(risk: float, stretches: int = 40) -> Population:
    """Errors come in turns, so that the risk is just above the limit, at it, just above it, … at ever more places."""
    wrong = np.where(np.arange(stretches) % 2 == 0, 2 * risk, 0.0) * (1 + 1e-9)
    return Population(np.full(stretches, 1 / stretches), wrong)


def stairs(risk: float) -> Population:
    """Few confidences, each risk above the limit by a hair, the surest too bad and what follows better."""
    shares = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.33])
    ends = np.concatenate([[0.0], shares.cumsum()])
    limits = risk * (1 + np.array([0.0, 1.0, 0.5, 0.1, 1e-9, 1e-9, 1e-9]))
    return Population(shares, np.diff(limits * ends) / shares, tied=True)


POPULATIONS: dict[str, Callable[[float], Population]] = {
    "calibrated, confidence 50–100 %": lambda _: smooth(lambda u: 0.5 * u**2),
    "calibrated, mostly sure": lambda _: smooth(lambda u: 0.5 * u**6),
    "over-confident: wrong four times as often as said": lambda _: smooth(lambda u: np.minimum(1, 2 * u**4)),
    "1 in 100 of the surest mislabelled": lambda _: smooth(lambda u: 0.01 + 0.3 * u**4),
    "five confidences only": lambda r: Population(
        np.array([0.3, 0.25, 0.2, 0.15, 0.1]), np.array([0.2, 0.6, 1.2, 6, 8]) * r, tied=True
    ),
    "at the limit everywhere": lambda r: smooth(lambda u: np.full_like(u, r * (1 + 1e-9))),
    "at the limit from the middle on": lambda r: Population(np.array([0.5, 0.5]), np.array([1, 1 + 1e-9]) * r),
    "one confidence, at the limit": lambda r: Population(np.array([0.6, 0.4]), np.array([r * (1 + 1e-9), 0.9]), True),
    "hovering at the limit": hovering,
    "bad first, then at the limit": stairs,
    "safe first, far beyond the limit behind": lambda r: Population(np.array([0.4, 0.6]), np.array([r, 1.0])),
}


def one_by_one(confidence: Array, right: Array, risk: float, level: float = 0.95) -> float | None:
    """The lowest threshold whose own bound is low enough, of all that were tried: what is often done."""
    order = np.argsort(-confidence, kind="stable")
    wrong, n = (~right[order]).cumsum(), np.arange(1, len(order) + 1)
    chance = np.where(wrong < n, betainc(np.maximum(n - wrong, 1e-9), wrong + 1.0, 1 - risk), 1.0)
    last = np.append(np.diff(confidence[order]) != 0, True)  # of equal confidences
    found = np.flatnonzero((chance <= 1 - level) & last)
    return float(confidence[order][found[-1]]) if len(found) else None


@dataclass
class Tally:
    """Studies in which a threshold was given, in which it was wrong, and what it covered."""

    given: int = 0
    false: int = 0
    covered: float = 0.0

    def add(self, threshold: float | None, truth: float, coverage: float, risk: float) -> None:
        """Count a study."""
        if threshold is not None:
            self.given, self.false, self.covered = self.given + 1, self.false + (truth > risk), self.covered + coverage


def study(name: str, n: int, risk: float, studies: int) -> tuple[Tally, Tally]:
    """Repeat one study.

    Args:
        name: Of the population.
        n: Rows in each.
        risk: What is allowed.
        studies: How many.

    Returns:
        The counts of ours, and of bounds one by one.
    """
    population, tallies = POPULATIONS[name](risk), (Tally(), Tally())
    source = np.random.default_rng(derive(0, f"selective/{name}/{n}/{risk}"))
    ties = generator(0, f"selective/ties/{name}/{n}/{risk}")
    for _ in range(studies):
        confidence, right = population.draw(n, source)
        ours = risk_threshold(confidence, right, risk=risk, generator=ties).threshold
        for tally, found in zip(tallies, (ours, one_by_one(confidence, right, risk)), strict=True):
            if found is not None:
                tally.add(found, population.risk(found), float((confidence >= found).mean()), risk)
    return tallies


def table(names: Sequence[str], sizes: Sequence[int], risks: Sequence[float], studies: int) -> Iterator[list[str]]:
    """Write the rows of the table."""
    yield ["errors", "risk", *(f"n = {n:,}" for n in sizes), *(f"one by one, n = {n:,}" for n in sizes)]
    for name in names:
        for risk in risks:
            found = [study(name, n, risk, studies) for n in sizes]
            ours = [f"{100 * a.false / studies:.1f} % (covers {100 * a.covered / studies:.0f} %)" for a, _ in found]
            yield [name, f"{risk:g}", *ours, *(f"{100 * b.false / studies:.1f} %" for _, b in found)]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=2000, help="per cell (default 2000)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000, 10_000], help="rows")
    parser.add_argument("--risks", type=float, nargs="+", default=[0.02, 0.1], help="what is allowed")
    chosen = parser.parse_args()
    for number, row in enumerate(table(list(POPULATIONS), chosen.sizes, chosen.risks, chosen.studies)):
        print(f"| {' | '.join(row)} |", flush=True)
        if not number:
            print(f"|{'---|' * len(row)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
