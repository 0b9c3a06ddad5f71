"""A share of the training time, and how trackers stretch their schedules to stay within it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

BLEND = 0.3  # weight of the newest cost in the running mean
OVERDRAFT = 0.01  # share of the training time by which the look at the end may exceed the budget
EARLY = 0.1  # share of all that will be earned that may be spent on a look at the untrained network
SMALL = 0.05  # what costs no more than this share of what is saved for need not wait for it
WINDOW = 20  # steps, at least, over which a surplus is spent


class Budget:
    r"""Lets every tracker have each s-th of its own due steps, with the s that the account can pay for.

    All schedules are stretched by the same factor :math:`s = \max(1, \sum_i c_i f_i / (b\, \tau + a))`: c is a
    tracker's cost, f how often its own schedule calls it per step, τ the time of a training step, b the budget and
    a what the account holds, spread over the next steps. Nothing whose cost is known is measured before the time
    for it has been earned, and what a look at the end of the run will cost is set aside. A first measurement, whose
    cost nobody knows yet, waits for what its price lets expect. It may still overdraw the account; then the
    others wait until that is paid back. Whoever has waited longest is saved for.

    Args:
        share: b, seconds of measuring per second of training.
        prices: The trackers, and about how many examples' gradients each costs; 0 where nobody can tell.
        end: Last step of the run, or None where nobody knows.
        batch_size: Examples per training step.
    """

    def __init__(
        self, share: float, prices: Mapping[str, float], end: int | None = None, batch_size: int = 128
    ) -> None:
        self.share, self.end = share, end
        self._prices, self._batch_size = dict(prices), batch_size
        self._cost: dict[str, float | None] = dict.fromkeys(prices)
        self._calls: dict[str, int] = dict.fromkeys(prices, 0)
        self._waited: dict[str, float] = dict.fromkeys(prices, 0.0)
        self._trained = self._spent = 0.0
        self._step = 0
        self._queue: list[str] = []  # whose turn has come, but not the time to pay for it

    def trained(self, step: int, seconds: float) -> None:
        """Note that the training has come to ``step`` in so many seconds more."""
        if step > self._step:  # a start or a resumption is no training
            self._trained += seconds
        self._step = step

    def counts_for(self, name: str, step: int) -> bool:
        """Note that the tracker's own schedule calls it, and say whether its turn has come.

        Args:
            name: The tracker.
            step: Steps made.

        Returns:
            Whether as many calls have gone by as the stretched schedule leaves out, or this is the end.
        """
        self._calls[name] += 1
        self._waited[name] += 1
        return step in (0, self.end) or name in self._queue or self._waited[name] >= self.stretch

    @property
    def stretch(self) -> float:
        """The factor s by which schedules are longer than the trackers' own."""
        steps = max(1, self._step)
        wanted = sum(self._expected(name) * self._calls[name] / steps for name in self._cost)
        rate = self.share * self._trained / steps + self._account(self._step) / max(WINDOW, steps / 5)
        return max(1.0, wanted / rate) if rate > 0 else math.inf

    def _account(self, step: int) -> float:
        """Seconds earned, less those spent and those set aside for the end."""
        aside = 0.0
        if self.end and step < self.end:
            for cost in sorted(map(self._expected, self._cost)):
                if aside + cost > self._earned_at_end / 2:  # what is out of reach is not saved for
                    break
                aside += cost
            aside *= step / self.end
        return self.share * self._trained - self._spent - aside

    @property
    def _earned_at_end(self) -> float:
        """Seconds that will have been earned by the end; infinite where nobody knows when that is."""
        if self.end is None or self._step == 0:
            return math.inf
        return self.share * self._trained * self.end / self._step

    def allows(self, name: str, step: int) -> bool:
        """Say whether the account can pay for a measurement now.

        Args:
            name: The tracker.
            step: Steps made.

        Returns:
            Whether to measure. Whoever had to wait goes first: the others leave him what he needs. At the end, what
            was set aside is there to be spent.
        """
        cost = self._expected(name)
        if self._step == 0:  # nothing is earned yet: only what is next to nothing in the whole run
            return self._prices[name] <= EARLY * self.share * (self.end or 0) * self._batch_size
        first = self._queue[0] if self._queue else name
        is_small = cost <= SMALL * self._expected(first)
        saved = 0.0 if step == self.end or first == name or is_small else self._expected(first)
        overdraft = OVERDRAFT * self._trained if step == self.end else 0.0
        if saved + cost <= self._account(step) + overdraft:
            return True
        if name not in self._queue and self._spent + cost <= self._earned_at_end:
            self._queue.append(name)
        return False

    def _expected(self, name: str) -> float:
        """Seconds that a measurement will take: by experience, or by its price where there is none yet."""
        known = self._cost[name]
        if known is not None or self._step == 0:
            return known or 0.0
        return self._prices[name] * self._trained / (self._step * self._batch_size)

    def spend(self, name: str, seconds: float) -> None:
        """Book what a measurement took."""
        known = self._cost[name]
        # What was waited too long counts for the next time: 1.5 means every call and every other call in turn.
        self._waited[name] = 0.0 if known is None else min(max(0.0, self._waited[name] - self.stretch), 1.0)
        self._cost[name] = seconds if known is None else (1 - BLEND) * known + BLEND * seconds
        self._spent += seconds
        self._queue = [other for other in self._queue if other != name]

    def state_dict(self) -> dict[str, Any]:
        """Give the account."""
        return {
            "cost": dict(self._cost),
            "calls": dict(self._calls),
            "waited": dict(self._waited),
            "trained": self._trained,
            "spent": self._spent,
            "step": self._step,
            "queue": list(self._queue),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the account up again."""
        for name in self._cost:
            self._cost[name] = state["cost"].get(name)
            self._calls[name] = state["calls"].get(name, 0)
            self._waited[name] = state["waited"].get(name, 0)
        self._trained, self._spent, self._step = state["trained"], state["spent"], state["step"]
        self._queue = [name for name in state["queue"] if name in self._cost]
