"""Who hears a run's records as they are made. The run is the same whether somebody listens or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from surefoot.records import RunFolder


class RunListener(Protocol):
    """Hears a run: its beginning, every record of a step or a tracker, its end.

    It changes nothing about the run, and raises where it wants the run to stop.
    """

    def begin(self, folder: RunFolder) -> None:
        """Hear that the run starts, goes on, or is finished already; what it has recorded so far is in the folder.

        An ensemble of several trainings begins once for each of them.
        """
        ...

    def __call__(self, record: dict[str, Any]) -> None:
        """Hear a record, right after it was made."""
        ...

    def end(self, folder: RunFolder, error: BaseException | None = None) -> None:
        """Hear that the run is finished, or why it stopped."""
        ...


@contextmanager
def heard(listener: RunListener | None, folder: RunFolder) -> Iterator[None]:
    """Tell a listener how the block ended.

    Args:
        listener: Who listens; None for nobody.
        folder: The run.
    """
    try:
        yield
    except BaseException as error:
        if listener is not None:
            listener.end(folder, error)
        raise
    if listener is not None:
        listener.end(folder)
