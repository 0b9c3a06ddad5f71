"""Who walks through the rows, by name: this process, or a cluster of Ray."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from surefoot.auditing._engine import HERE, Engine
from surefoot.clusters import ENGINES
from surefoot.errors import InputError


@contextmanager
def open_engine(name: str = "local", address: str | None = None, jobs: int | None = None) -> Iterator[Engine]:
    """Make an engine ready while the block lasts.

    Args:
        name: ``local``, this process; or ``ray``.
        address: Of the Ray cluster; see :func:`~surefoot.clusters.connect`.
        jobs: How many parts are read at once; else as many as the cluster has cores.

    Yields:
        The engine.

    Raises:
        InputError: If there is no such engine, or it has no use for what was said.
    """
    if name not in ENGINES:
        raise InputError(f"Expected an engine among {', '.join(ENGINES)}, but got {name!r}. Choose one.")
    if name == "local":
        if address is not None or jobs is not None:
            said = "--address" if address is not None else "--jobs"
            raise InputError(f"Expected {said} with --engine ray, but the engine is local. Say --engine ray.")
        yield HERE
        return
    from surefoot.auditing._ray import RayEngine

    engine = RayEngine(address, jobs)
    try:
        yield engine
    finally:
        engine.close()
