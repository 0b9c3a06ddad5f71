"""All trackers of a run: whose turn it is, what they see, what they cost, what they remember."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from surefoot.errors import DivergedError, SurefootError
from surefoot.schema import Moment
from surefoot.training.budget import Budget
from surefoot.training.tracker import Horizon, Remembering, Tracker, undisturbed

Values = dict[str, float | str | None]


class Panel:
    """Asks the trackers that are due, and sees to it that the run does not notice.

    Args:
        trackers: What to measure.
        horizon: How long the run is; None where nobody knows.
        budget: Share of the training time to spend; None for whatever the trackers' own schedules take.
        clock: Gives seconds.
    """

    def __init__(
        self,
        trackers: Sequence[Tracker],
        horizon: Horizon | None = None,
        budget: float | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.trackers = trackers
        self._end = horizon.n_steps if horizon else None
        self._clock = clock
        self._seconds = 0.0
        self._left = clock()  # when the last look ended: what comes after it is training
        groups = dict.fromkeys(map(_group, trackers))  # in their order
        prices = {group: max(_price(tracker) for tracker in trackers if _group(tracker) == group) for group in groups}
        batch_size = horizon.batch_size if horizon else 128
        self._budget = None if budget is None else Budget(budget, prices, self._end, batch_size)

    def look(self, moment: Moment, *, everything: bool = False) -> Iterator[tuple[str, Values]]:
        """Measure what is due at this moment.

        Args:
            moment: What there is to see.
            everything: Whether all trackers are due, whatever their schedules say.

        Yields:
            A tracker's name, and its values: numbers, None where one is not finite, or ``failed`` with the reason.
        """
        if self._budget is not None:
            self._budget.trained(moment.step, self._clock() - self._left)
        due: dict[str, list[Tracker]] = {}
        for tracker in self.trackers:
            if everything or tracker.due(moment.step):
                due.setdefault(_group(tracker), []).append(tracker)
        if self._budget is not None:
            due = {group: members for group, members in due.items() if self._budget.counts_for(group, moment.step)}
        for group, members in due.items():
            if self._budget is None or self._budget.allows(group, moment.step):
                spent, found = 0.0, False
                for tracker in members:
                    start = self._clock()
                    values = _measure(tracker, moment)
                    spent += self._clock() - start
                    found |= bool(values) and "failed" not in values
                    if values:
                        yield tracker.name, values
                self._seconds += spent
                if self._budget is not None:
                    self._budget.spend(group, spent, found=found)
        self._left = self._clock()

    def take_seconds(self) -> float:
        """Return the seconds that trackers took since this was last asked."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def state_dict(self) -> dict[str, Any]:
        """Return what the trackers remember and, under a budget, the account."""
        memories = {tracker.name: tracker.state_dict() for tracker in self.trackers if isinstance(tracker, Remembering)}
        return {"trackers": memories, "budget": None if self._budget is None else self._budget.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what :meth:`state_dict` gave; a tracker that was not there then starts without a memory."""
        for tracker in self.trackers:
            if isinstance(tracker, Remembering) and tracker.name in state["trackers"]:
                tracker.load_state_dict(state["trackers"][tracker.name])
        if self._budget is not None and state["budget"] is not None:
            self._budget.load_state_dict(state["budget"])
        self._left = self._clock()


def _group(tracker: Tracker) -> str:
    """Say with whom a tracker shares its work; a budget lets all of them measure, or none."""
    return str(getattr(tracker, "group", tracker.name))


def _price(tracker: Tracker) -> float:
    """Say what a measurement costs at a guess; what a group shares is paid once, so its price is the dearest one's."""
    return float(getattr(tracker, "price", 0.0))


def _measure(tracker: Tracker, moment: Moment) -> Values:
    """Measure undisturbed. A quantity that does not exist here is no reason to stop a training; divergence is."""
    try:
        with undisturbed(moment.model):
            values = tracker.measure(moment)
    except DivergedError:
        raise
    except SurefootError as error:
        return {"failed": str(error)}
    return {key: value if math.isfinite(value) else None for key, value in values.items()}
