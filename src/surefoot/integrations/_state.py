"""What a log folder says about itself: of which run it is, where its logs are and which of them are complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from surefoot.records import RunFolder, write_bytes

FILE = "log.json"
FILES = ("csv", "tensorboard")  # logs that are files in the folder; the others are kept elsewhere


class LogState:
    """``log.json``: by log, its name elsewhere and whether it is complete.

    Args:
        place: The log folder.
    """

    def __init__(self, place: Path) -> None:
        self._path = place / FILE
        self.of: list[Any] | None = None
        self.logs: dict[str, dict[str, Any]] = {}
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            self.of, self.logs = found["of"], {name: dict(log) for name, log in found["logs"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass  # there is none yet

    def known(self, name: str) -> str | None:
        """Return under which name a log is gone on with; None where there is none."""
        found = self.logs.get(name, {}).get("id")
        return None if found is None else str(found)

    def is_done(self, name: str) -> bool:
        """Return whether a log is complete."""
        return bool(self.logs.get(name, {}).get("done"))

    def note(self, name: str, known: str | None, *, done: bool) -> None:
        """Note how a log is gone on with, and whether it is complete."""
        self.logs[name] = {"id": known, "done": done}

    def begin(self, folder: RunFolder) -> None:
        """Forget logs of another run, or of one that is now made anew. Files that we wrote will be written over."""
        is_new = folder.done() is None and any(map(self.is_done, self.logs))
        if self.of != identity(folder) or is_new:
            self.logs = {name: {**found, "done": False} for name, found in self.logs.items() if name in FILES}
        self.of = identity(folder)

    def forget_servers(self) -> None:
        """Forget logs that are kept elsewhere, so that new ones are begun."""
        self.logs = {name: found for name, found in self.logs.items() if name in FILES}

    def save(self) -> None:
        """Write the file, if there is a folder."""
        if self._path.parent.is_dir():
            write_bytes(self._path, json.dumps({"of": self.of, "logs": self.logs}, indent=1).encode())


def identity(folder: RunFolder) -> list[Any]:
    """Say of what a log is: of the run, and of what is measured in it."""
    tracking = folder.tracking
    return [folder.run_id, list(tracking.trackers), tracking.budget]
