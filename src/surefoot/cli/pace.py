"""How long the runs that are left take: each kind of run goes on at the pace at which such runs were made here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from surefoot.studies.engine import Job


class Pace:
    """Measures how long runs take and guesses the rest.

    Runs of one network that are watched in the same way are of one kind: within it a run's work is told well enough by
    its epochs and passes, across kinds it is not. A kind of which nothing is known yet goes at the mean of all others.

    Args:
        jobs: All runs.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.work = {job.path: _work(job) for job in jobs}
        self._kinds = {job.path: _kind(job) for job in jobs}
        self._shares = dict.fromkeys(self.work, 0.0)
        self._begun: dict[Path, tuple[float, float]] = {}  # when, and how much of it was there already
        self._taken: dict[Path, tuple[float, float]] = {}  # seconds, and the work done in them
        self._first: float | None = None

    @property
    def done(self) -> float:
        """The work that is done; of all there is, see :attr:`work`."""
        return sum(self.work[path] * share for path, share in self._shares.items())

    def go_on(self, path: Path, share: float, now: float) -> None:
        """Note how much of a run is there."""
        self._first = now if self._first is None else self._first
        since, had = self._begun.setdefault(path, (now, share))
        self._taken[path] = (now - since, self.work[path] * (share - had))
        self._shares[path] = share

    def end(self, path: Path, now: float) -> None:
        """Note that a run has ended, finished or not; one that nobody saw begin was there already."""
        if path in self._begun:
            self.go_on(path, 1.0, now)
        self._shares[path] = 1.0

    def begin_anew(self, path: Path) -> None:
        """Note that a run that failed is made once more."""
        self._shares[path] = 0.0
        self._begun.pop(path, None)
        self._taken.pop(path, None)

    def left(self, now: float) -> float | None:
        """Guess how many seconds are left, with as many runs at once as until now; None without anything to go by."""
        seconds, work = (sum(each) for each in zip((0.0, 0.0), *self._taken.values(), strict=True))
        if self._first is None or not seconds or not work:
            return None
        own = {kind: self._pace_of(kind) or seconds / work for kind in set(self._kinds.values())}
        rest = sum(self.work[path] * (1 - share) * own[self._kinds[path]] for path, share in self._shares.items())
        return rest * (now - self._first) / seconds or None

    def _pace_of(self, kind: str) -> float:
        """Return the seconds that a unit of work takes in runs of a kind; 0 where it is not known."""
        taken = [each for path, each in self._taken.items() if self._kinds[path] == kind]
        work = sum(done for _, done in taken)
        return sum(seconds for seconds, _ in taken) / work if work else 0.0


def _work(job: Job) -> float:
    """Guess how long a run takes beside others of its kind: epochs, passes per step, members, and what is measured."""
    method = job.spec.method
    members = method.ensemble.options.get("members", 1) if method.ensemble else 1
    passes = (1.0 if method.base is None else 2.0) * float(members or 1)
    return job.spec.epochs * (passes + 0.3 * len(job.tracking.trackers))


def _kind(job: Job) -> str:
    return f"{job.spec.model} {job.spec.batch_size} {job.tracking.trackers}"
