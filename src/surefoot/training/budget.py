"""A share of the training time, and how trackers stretch their schedules to spend it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

EARLY = 0.1  # share of the purse that may go into a look at the untrained network
TOLERANCE = 0.3  # of the purse, by which it may be missed, and of a cost, by which it may vary
WINDOW = 50  # steps over which the time of a step is averaged
AHEAD = 1.2  # where nobody knows the end, plans reach this many times as far as the training has come


class Budget:
    r"""Plans from what the whole training will have earned, anew at every step.

    By the end, training earns the purse B = b (T + τ n): b is the budget, T the time of all steps so far, τ that of a
    recent one and n how many are to come. What is left of it is spread over the calls to come: each tracker gets
    every s-th of its own due steps,

    .. math:: s = \max\Big(1, \frac{\sum_i c_i n_i}{B - S - R}\Big),

    with c_i what a measurement of tracker i costs, n_i how often its own schedule will still call it, S what was
    spent and R what is set aside for a look at the end, at most half of B. On the way, a measurement is started if it
    brings S + R closer to B; at the end, if S stays below 1.3 B though it took 1.3 times what it used to. One whose
    cost is only a guess must fit into B in both cases; at the end, where S is below 0.7 B without it, into 1.3 B.
    So S comes to about 0.7 B at least and 1.3 B at most where single measurements are small against B, and else to no
    more than about B and one measurement.

    The guess is the tracker's price g_i, in training steps, corrected by what those that have measured cost and what
    had been guessed for them: c_i = g_i (g_i τ + Σ_j c_j) / (g_i + Σ_j g_j).

    Args:
        share: b, seconds of measuring per second of training.
        prices: The trackers, in the order in which they may look at the end, and about how many examples' gradients
            each costs; 0 where nobody can tell: such a one measures once to find out.
        end: Last step of the run, or None where nobody knows.
        batch_size: Examples per training step.
    """

    def __init__(
        self, share: float, prices: Mapping[str, float], end: int | None = None, batch_size: int = 128
    ) -> None:
        self.share, self.end = share, end
        self._guesses = {name: price / batch_size for name, price in prices.items()}
        self._cost: dict[str, float | None] = dict.fromkeys(prices)
        self._calls: dict[str, int] = dict.fromkeys(prices, 0)
        self._waited: dict[str, float] = dict.fromkeys(prices, 0.0)
        self._trained = self._spent = self._pace = 0.0
        self._step = 0

    def trained(self, step: int, seconds: float) -> None:
        """Note that the training has come to ``step`` in so many seconds more.

        A machine that becomes busy slows steps and measurements alike, so known costs follow the time of a step.
        """
        n_steps = step - self._step
        if n_steps > 0:  # a start or a resumption is no training
            self._trained += seconds
            weight = min(1.0, n_steps / min(step, WINDOW))
            pace = (1 - weight) * self._pace + weight * seconds / n_steps
            if self._step >= WINDOW and self._pace > 0:
                self._cost = {name: cost and cost * pace / self._pace for name, cost in self._cost.items()}
            self._pace = pace
        self._step = step

    def counts_for(self, name: str, step: int) -> bool:
        """Note that the tracker's own schedule calls it, and say whether its turn has come.

        Args:
            name: The tracker.
            step: Steps made.

        Returns:
            Whether as many calls have gone by as the stretched schedule leaves out, or this is the start or the end.
        """
        self._calls[name] += 1
        self._waited[name] += 1
        return step in (0, self.end) or self._waited[name] >= self.stretch

    def allows(self, name: str, step: int) -> bool:
        """Return whether a measurement now fits into the plan.

        Args:
            name: The tracker.
            step: Steps made.

        Returns:
            Whether to measure.
        """
        if step == 0:
            return self._spent + self.expected(name) <= EARLY * self._purse
        if step == self.end:
            return self._fits_last(name)
        return self._fits(name, self._purse - self._spent - self._aside)

    def spend(self, name: str, seconds: float, *, found: bool = True) -> None:
        """Book what a measurement took; its cost is the mean of this and of what it was before.

        Args:
            name: The tracker.
            seconds: What it took.
            found: Whether there was anything to measure; if not, this says nothing about the guesses of others.
        """
        known = self._cost[name]
        if not found:
            self._guesses[name] = 0.0
        # What was waited too long counts for the next time: 1.5 means every call and every other call in turn.
        self._waited[name] = 0.0 if known is None else min(max(0.0, self._waited[name] - self.stretch), 1.0)
        self._cost[name] = seconds if known is None else (known + seconds) / 2
        self._spent += seconds

    def expected(self, name: str) -> float:
        """c, the seconds that a measurement will take: by its own experience, else by its guess and that of others."""
        known, guess = self._cost[name], self._guesses[name]
        if known is not None or guess == 0:
            return known or 0.0
        paid, guessed = self._experience
        return guess * (guess * self._step_time + paid) / (guess + guessed)

    @property
    def stretch(self) -> float:
        """The factor s by which schedules are longer than the trackers' own."""
        to_come = (self._horizon - self._step) / max(1, self._step)
        left = self._purse - self._spent - self._aside
        wanted = sum(self.expected(name) * self._calls[name] for name in self._cost if self._fits(name, left)) * to_come
        return max(1.0, wanted / left) if left > 0 else math.inf

    def _fits(self, name: str, left: float) -> bool:
        """Return whether a measurement brings what is left closer to 0; one of unknown cost must not exceed it."""
        cost = self.expected(name)
        return (cost if self._cost[name] is None else cost / 2) <= left

    def _fits_last(self, name: str) -> bool:
        """Return whether a measurement at the end keeps the sum within its tolerance, as far as anybody can tell."""
        cost, most = self.expected(name), 1 + TOLERANCE
        if self._cost[name] is not None:
            return self._spent + most * cost <= most * self._purse
        is_short = self._spent + self._aside < (1 - TOLERANCE) * self._purse  # missed without it: worth a risk
        return self._spent + cost <= (most if is_short else 1) * self._purse

    @property
    def _horizon(self) -> float:
        """N, the step up to which plans are made."""
        return AHEAD * self._step if self.end is None else self.end

    @property
    def _purse(self) -> float:
        """B, the seconds that will have been earned."""
        return self.share * (self._trained + self._step_time * (self._horizon - self._step))

    @property
    def _aside(self) -> float:
        """R, the seconds set aside for a look at the end by those for whom there is room, in their order."""
        aside = 0.0
        if self.end is not None:
            for cost in map(self.expected, self._cost):
                if aside + cost <= min(self._purse / 2, self._purse - self._spent):
                    aside += cost
        return aside

    @property
    def _step_time(self) -> float:
        """τ; before the first step by what was paid so far, and if that is nothing, in a unit of its own."""
        if self._step > 0:
            return self._pace
        paid, guessed = self._experience
        return paid / guessed if guessed > 0 else 1.0

    @property
    def _experience(self) -> tuple[float, float]:
        """What those cost that have measured, in seconds, and what their guesses were, in steps."""
        pairs = [(cost, self._guesses[name]) for name, cost in self._cost.items() if cost is not None]
        return sum(cost for cost, guess in pairs if guess > 0), sum(guess for _, guess in pairs)

    def state_dict(self) -> dict[str, Any]:
        """Return the account."""
        return {
            "guesses": dict(self._guesses),
            "cost": dict(self._cost),
            "calls": dict(self._calls),
            "waited": dict(self._waited),
            "trained": self._trained,
            "spent": self._spent,
            "pace": self._pace,
            "step": self._step,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the account up again."""
        for name in self._cost:
            self._guesses[name] = state.get("guesses", {}).get(name, self._guesses[name])
            self._cost[name] = state["cost"].get(name)
            self._calls[name] = state["calls"].get(name, 0)
            self._waited[name] = state["waited"].get(name, 0)
        self._trained, self._spent, self._step = state["trained"], state["spent"], state["step"]
        self._pace = state.get("pace", self._trained / max(1, self._step))
