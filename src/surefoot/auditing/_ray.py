"""A cluster of Ray walks through the rows: a task per part, and a tree of tasks that merges what they found."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from surefoot.auditing._engine import M, Step
from surefoot.auditing._reading import OnRows
from surefoot.cluster_head import EVERY, head_of
from surefoot.clusters import connect, disconnect
from surefoot.errors import InputError, RunError
from surefoot.sources.plan import Part, count_rows, placed, plan
from surefoot.sources.source import Source
from surefoot.sources.window import seen_through

ATTEMPTS = 3  # at a part whose worker died
Node = tuple[int, int]  # consecutive parts: the first, and the one behind the last
_log = logging.getLogger("surefoot")


class RayEngine:
    """Walks through parts of the rows on a cluster.

    Args:
        address: Of the cluster; see :func:`~surefoot.clusters.connect`.
        workers: How many parts at once; else as many as the cluster has cores.
        tell: Called with a sentence when a worker died and its part is read again; else it is logged.
    """

    def __init__(
        self, address: str | None = None, workers: int | None = None, tell: Callable[[str], None] | None = None
    ) -> None:
        if workers is not None and workers < 1:
            raise InputError(f"Expected at least one worker, but got {workers}. Say --jobs 4.")
        self._ray = connect(address, cores=workers)
        self._head = head_of(self._ray)
        self._slots = workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._tell = tell or _log.warning
        # A worker that dies is told and counted here, which Ray's own retries are not.
        self._read = self._ray.remote(num_cpus=1, max_retries=0, num_returns=2)(_read_part)
        self._merge = self._ray.remote(num_cpus=1, max_retries=0, num_returns=2)(_merge)
        self._plans: dict[int, tuple[Source, list[Part]]] = {}
        self.parts: list[Part] = []
        """Those of the last walk."""

    def walk(self, source: Source, step: Step[M], on_rows: OnRows | None = None) -> M:
        """Let tasks walk through all parts, and bring home what they merge to."""
        self.parts = self._parts(source)
        found: M = self._walk(source, self.parts, step, on_rows)
        return found

    def _parts(self, source: Source) -> list[Part]:
        if id(source) not in self._plans:
            parts = plan(source, self._slots)
            known = [part.rows for part in parts if part.rows is not None]
            if len(known) < len(parts) or source.weights_are == "counts":
                known = self._walk(source, parts, _count, None).rows if len(parts) > 1 else [0]
            self._plans[id(source)] = source, placed(parts, known)
        return self._plans[id(source)][1]

    def _walk(self, source: Source, parts: list[Part], step: Step[Any], on_rows: OnRows | None) -> Any:
        tree = _Tree(len(parts))
        what = self._ray.put((source, step))
        waiting, rows = deque(range(len(parts))), 0
        running: dict[Any, tuple[Node, Any]] = {}
        attempts = [1] * len(parts)
        while True:
            while waiting and sum(b - a == 1 for (a, b), _ in running.values()) < self._slots:
                number = waiting.popleft()
                status, found = self._read.remote(what, parts[number])
                running[status] = (number, number + 1), found
            if (root := tree.done.get((0, len(parts)))) is not None:
                try:
                    return self._ray.get(root)
                except self._ray.exceptions.RayError as error:
                    del tree.done[0, len(parts)]
                    waiting.extend(self._again((0, len(parts)), parts, attempts, error))
                    continue
            ready, _ = self._ray.wait(list(running), timeout=EVERY)
            self._head.check()
            if not ready:
                continue
            status = ready[0]
            node, found = running.pop(status)
            try:
                rows += self._ray.get(status)
            except self._ray.exceptions.RayTaskError as error:
                for each in running:
                    self._ray.cancel(each, force=True)
                raise (error.cause if isinstance(error.cause, Exception) else error) from None
            except self._ray.exceptions.RayError as error:
                waiting.extend(self._again(node, parts, attempts, error))
                continue
            if on_rows and node[1] - node[0] == 1:
                on_rows(rows, min(1.0, sum(b - a for a, b in tree.done) / len(parts)))
            if (pair := tree.finish(node, found)) is not None:
                status, found = self._merge.remote(*pair)
                running[status] = tree.parents[node], found

    def _again(self, node: Node, parts: list[Part], attempts: list[int], error: Exception) -> range:
        """Read the parts of a node once more, and say so."""
        where = parts[node[0]].where if node[1] - node[0] == 1 else f"{node[1] - node[0]} merged parts"
        for number in range(*node):
            attempts[number] += 1
            if attempts[number] > ATTEMPTS:
                raise RunError(
                    f"Expected workers that live until {where} is read, but {ATTEMPTS} died "
                    f"({type(error).__name__}). Look whether they have enough memory, and run the same command again."
                )
        self._tell(
            f"A worker died while it read {where} ({type(error).__name__}): reading it again, attempt "
            f"{max(attempts[slice(*node)])} of {ATTEMPTS}."
        )
        return range(*node)

    def close(self) -> None:
        """Leave the cluster; one that was started for this ends."""
        disconnect()


@dataclass
class _Tree:
    """Which results are merged with which: always neighbours, the same ones whoever is first."""

    n: int
    parents: dict[Node, Node] = field(default_factory=dict)
    done: dict[Node, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._divide((0, self.n))

    def _divide(self, node: Node) -> None:
        first, last = node
        if last - first > 1:
            middle = (first + last) // 2
            for child in ((first, middle), (middle, last)):
                self.parents[child] = node
                self._divide(child)

    def finish(self, node: Node, result: Any) -> tuple[Any, Any] | None:
        """Take the result of a node; return both of a pair when they are there."""
        self.done[node] = result
        parent = self.parents.get(node)
        pair = [child for child in sorted(self.done) if parent is not None and self.parents.get(child) == parent]
        if len(pair) < 2:
            return None
        first, second = (self.done.pop(child) for child in pair)
        return first, second


@dataclass
class _Counted:
    rows: list[int]

    def merge(self, other: _Counted) -> None:
        self.rows = [*self.rows, *other.rows]


def _count(source: Source, on_rows: OnRows | None) -> _Counted:
    return _Counted([count_rows(source)])


def _read_part(what: tuple[Source, Step[Any]], part: Part) -> tuple[int, Any]:
    """Walk through one part, on whatever machine this is."""
    import torch

    torch.set_num_threads(1)
    source, step = what
    found = step(seen_through(source, part.window, part.where), None)
    return part.rows or 0, found


def _merge(one: Any, other: Any) -> tuple[int, Any]:
    one.merge(other)
    return 0, one
