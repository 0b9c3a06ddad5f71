"""Where a log is written: what all writers share, and those of files, a CSV table and TensorBoard's events.

Every call may raise, for a disk can be full and a server away; whoever calls deals with it.
"""

from __future__ import annotations

import csv
import io
import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from surefoot.atomic import replacing, write_bytes
from surefoot.errors import InputError

EVERY = 1.0  # seconds between two moments at which what was written is sent
_DIGITS = 19  # of the largest whole number that a step can be
LOSS = "batch/loss"  # in every step's record, so it tells how far a log goes


class Writer(ABC):
    """Writes one log; abstract.

    Attributes:
        name: As people type it.
        package: What has to be installed.
        last: The last step that an earlier session has written, which must not be written twice; -1 for none.
    """

    name: str
    package: str | None = None
    last = -1

    def __init__(self) -> None:
        self._sent, self._step = time.monotonic(), -1

    def check(self) -> None:
        """Refuse before the training starts what cannot work.

        Raises:
            InputError: If the package is missing or cannot be imported.
        """
        if self.package is None:
            return
        try:
            import_module(self.package)
        except Exception as error:
            raise InputError(
                f"Expected {self.package} to log to, but it cannot be imported ({error}). "
                f"Run pip install 'surefoot[{self.name}]'."
            ) from error

    @abstractmethod
    def open(self, place: Path, title: str, settings: Mapping[str, Any], known: str | None, own: bool) -> str | None:
        """Start a log, or go on with one.

        Args:
            place: A folder for files.
            title: What the run is called.
            settings: What determines it.
            known: What an earlier session returned.
            own: Whether the loop is the user's own, who may have opened a log already.

        Returns:
            Under which name to go on with it in another session.
        """

    def write(self, step: int, values: Mapping[str, float], record: Mapping[str, Any]) -> None:
        """Write what was measured after a step, and send it about once per second, whole steps at a time."""
        if step != self._step and time.monotonic() - self._sent > EVERY:
            self.send()
            self._sent = time.monotonic()
        self._step = step
        self.add(step, values, record)

    @abstractmethod
    def add(self, step: int, values: Mapping[str, float], record: Mapping[str, Any]) -> None:
        """Take what was measured after a step: the numbers, and the record that they are from."""

    @abstractmethod
    def send(self) -> None:
        """See to it that what was taken can be seen."""

    @abstractmethod
    def image(self, step: int, name: str, png: bytes) -> None:
        """Write a picture."""

    @abstractmethod
    def close(self, failed: bool) -> None:
        """End the log of a run that is finished, or that failed."""

    def abandon(self) -> None:
        """Leave a log that cannot be written; a file is closed, a server is not asked again."""
        return


class Csv(Writer):
    """``metrics.csv``: one row per value, with step, epoch, tracker and key."""

    name = "csv"
    COLUMNS = ("step", "epoch", "tracker", "key", "value")

    def open(self, place: Path, title: str, settings: Mapping[str, Any], known: str | None, own: bool) -> str | None:
        """Open the table; rows of the first step that is written and of later ones are replaced."""
        self._path = place / "metrics.csv"
        self._file: Any = None  # opened when there is something to write
        if known is None and self._path.exists():
            raise InputError(f"Expected to write {self._path}, but somebody else's file is there. Rename it.")
        return "metrics.csv"

    def add(self, step: int, values: Mapping[str, float], record: Mapping[str, Any]) -> None:
        """Add rows: texts too, such as why a tracker failed."""
        if self._file is None:
            self._file = self._start(step)
            self._rows = csv.writer(self._file)
        texts = {key: record[key] for key in ("failed", "skipped") if key in record}
        place = step, record.get("epoch", ""), record.get("tracker", "")
        self._rows.writerows([*place, key, value] for key, value in {**values, **texts}.items())

    def _start(self, step: int) -> Any:
        kept = []
        if self._path.exists():
            with self._path.open(newline="", encoding="utf-8", errors="replace") as file, suppress(csv.Error):
                for row in csv.reader(line.replace("\0", "") for line in file):  # a torn quote ends what can be read
                    if len(row) == len(self.COLUMNS) and _is_step(row[0]) and int(row[0]) < step:
                        kept.append(row)
        with replacing(self._path) as aside, aside.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([self.COLUMNS, *kept])
        return self._path.open("a", newline="", encoding="utf-8")

    def send(self) -> None:
        """Flush."""
        if self._file is not None:
            self._file.flush()

    def image(self, step: int, name: str, png: bytes) -> None:
        """Write a file beside the table."""
        write_bytes(self._path.parent / f"{name}.png", png)

    def close(self, failed: bool) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def abandon(self) -> None:
        """Close the file, whatever is left to write."""
        self.close(failed=True)


class TensorBoard(Writer):
    """An event file, written in this thread, so that a full disk is noticed where it happens."""

    name = package = "tensorboard"
    SUFFIX = ".surefoot"

    def check(self) -> None:
        """Import what writes events as well."""
        super().check()
        _events()

    def open(self, place: Path, title: str, settings: Mapping[str, Any], known: str | None, own: bool) -> str | None:
        """Prepare a file in the folder, which TensorBoard shows as one run."""
        self._place, self._settings = place, settings
        self._out: Any = None  # opened when there is something to write
        return place.name

    def add(self, step: int, values: Mapping[str, float], record: Mapping[str, Any]) -> None:
        """Add scalars."""
        self._event(step, [{"tag": key, "simple_value": value} for key, value in values.items()])

    def _event(self, step: int, values: list[dict[str, Any]]) -> None:
        event, summary, _ = _events()
        if self._out is None:
            self._out = self._start(step)
        made = event.Event(wall_time=time.time(), step=step, summary=summary.Summary(value=values))
        self._out.write(made.SerializeToString())

    def _start(self, step: int) -> Any:
        """Begin a file; what earlier ones say about this step and later ones no longer counts."""
        event, _, writer = _events()
        if step == 0:
            for old in self._place.glob(f"events.out.tfevents.*{self.SUFFIX}"):
                old.unlink()
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}{self.SUFFIX}"
        self._out = writer.RecordWriter((self._place / name).open("wb"))
        start = event.SessionLog(status=event.SessionLog.START)
        for first in ({"file_version": "brain.Event:2"}, {"session_log": start}):
            self._out.write(event.Event(wall_time=time.time(), step=step, **first).SerializeToString())
        if self._settings:
            lines = ["| setting | value |", "|---|---|", *(f"| {k} | `{v}` |" for k, v in self._settings.items())]
            self._event(step, [_text("settings", "\n".join(lines))])
        return self._out

    def send(self) -> None:
        """Flush."""
        if self._out is not None:
            self._out.flush()

    def image(self, step: int, name: str, png: bytes) -> None:
        """Add a picture."""
        from matplotlib.image import imread

        height, width, *_ = imread(io.BytesIO(png)).shape
        image = {"height": height, "width": width, "colorspace": 4, "encoded_image_string": png}
        self._event(step, [{"tag": name, "image": image}])

    def close(self, failed: bool) -> None:
        """Close the file."""
        if self._out is not None:
            self._out.close()

    def abandon(self) -> None:
        """Close the file, whatever is left to write."""
        self.close(failed=True)


def _is_step(text: str) -> bool:
    """Return whether a text is the number of a step, not of hundreds of digits."""
    return text.isdecimal() and len(text) < _DIGITS


def _events() -> tuple[Any, Any, Any]:
    """Import what TensorBoard's files are made of."""
    protos = "tensorboard.compat.proto"
    names = f"{protos}.event_pb2", f"{protos}.summary_pb2", "tensorboard.summary.writer.record_writer"
    event, summary, writer = map(import_module, names)
    return event, summary, writer


def _text(tag: str, text: str) -> dict[str, Any]:
    """Make a value that TensorBoard's page of texts shows."""
    tensor = {"dtype": "DT_STRING", "string_val": [text.encode()], "tensor_shape": {"dim": [{"size": 1}]}}
    return {"tag": f"{tag}/text_summary", "metadata": {"plugin_data": {"plugin_name": "text"}}, "tensor": tensor}
