"""All trackers of a run: whose turn it is, what they see, what they cost, what they remember."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from surefoot.errors import DivergedError, SurefootError
from surefoot.moment import Moment
from surefoot.ranks import ALONE, Ranks
from surefoot.training.tracker import Remembering, Tracker, undisturbed

Values = dict[str, float | str | None]
SKIPPED: Values = {"skipped": "budget"}


class Panel:
    """Asks the trackers that are due, and sees to it that the run does not notice.

    Under a budget every tracker has an equal share of it. A tracker that is due is skipped while it has used more
    than its share of the training time so far.

    Args:
        trackers: What to measure, by name.
        budget: Share of the training time to spend on it; None for whatever the trackers' own schedules take.
        clock: Gives seconds.
        ranks: Who measures together; what the budget allows is decided by the first one's clock.
    """

    def __init__(
        self,
        trackers: Mapping[str, Tracker],
        budget: float | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
        ranks: Ranks = ALONE,
    ) -> None:
        self.trackers = trackers
        self._ranks = ranks
        self._share = None if budget is None else budget / max(1, len(trackers))
        self._clock = clock
        self._used = dict.fromkeys(trackers, 0.0)
        self._trained = 0.0
        self._untold = 0.0  # seconds of trackers that nobody has asked for yet
        self._step: int | None = None
        self._left = clock()  # when the last look ended: what comes after it is training

    def measure(self, moment: Moment, *, everything: bool = False) -> Iterator[tuple[str, Values]]:
        """Measure what is due at this moment.

        Args:
            moment: What there is to see.
            everything: Whether all trackers are due, whatever their schedules say.

        Yields:
            A tracker's name, and its values: numbers, None where one is not finite, ``failed`` with the reason, or
            ``skipped`` where the budget is used up.
        """
        if self._step is not None and moment.step > self._step:  # a start or a resumption is no training
            self._trained += self._clock() - self._left
        self._step = moment.step
        for name, tracker in self.trackers.items():
            if not (everything or tracker.due(moment.step)):
                continue
            if self._share is not None and self._ranks.told(self._used[name] > self._share * self._trained):
                yield name, SKIPPED
                continue
            start = self._clock()
            values = _measure(tracker, moment)
            seconds = self._clock() - start
            self._used[name] += seconds
            self._untold += seconds
            if values:
                yield name, values
        self._left = self._clock()

    def take_seconds(self) -> float:
        """Return the seconds that trackers took since this was last asked."""
        seconds, self._untold = self._untold, 0.0
        return seconds

    def state_dict(self) -> dict[str, Any]:
        """Return what the trackers remember and, under a budget, the time that training and they have taken.

        Without a budget no clock has a say, so that two checkpoints of the same run are the same bytes.
        """
        memories = {name: each.state_dict() for name, each in self.trackers.items() if isinstance(each, Remembering)}
        spent = None if self._share is None else {"used": dict(self._used), "trained": self._trained}
        return {"trackers": memories, "spent": spent, "step": self._step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what :meth:`state_dict` gave; a tracker that was not there then starts without a memory."""
        for name, tracker in self.trackers.items():
            if isinstance(tracker, Remembering) and name in state["trackers"]:
                tracker.load_state_dict(state["trackers"][name])
        if state["spent"] is not None:
            self._used |= {name: seconds for name, seconds in state["spent"]["used"].items() if name in self._used}
            self._trained = state["spent"]["trained"]
        self._step = state["step"]
        self._left = self._clock()


def _measure(tracker: Tracker, moment: Moment) -> Values:
    """Measure undisturbed. A quantity that does not exist here is no reason to stop a training; divergence is."""
    try:
        with undisturbed(moment.model):
            values = tracker.measure(moment)
    except DivergedError:
        raise
    except SurefootError as error:
        return {"failed": str(error)}
    return {
        key: value if not isinstance(value, float) or math.isfinite(value) else None for key, value in values.items()
    }
