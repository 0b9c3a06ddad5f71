"""A run's records where people watch runs: TensorBoard, MLflow, Weights & Biases, a CSV table.

``surefoot train --log tensorboard,csv`` and ``sf.train(…, log="tensorboard")`` write every record as it is made, and
the reliability diagram at the end. The run is the same bits without it. In a loop of one's own, :class:`Log` listens
to :class:`surefoot.trackers.Watch`.

All that a log says is in the run folder as well. So a log that was interrupted is made whole from there: when its run
goes on, and when the same command is given for a run that is finished.
"""

from __future__ import annotations

import io
import math
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from surefoot.config import run_words
from surefoot.errors import InputError, UnknownNameError
from surefoot.evaluate import key_of
from surefoot.imported import did_you_mean
from surefoot.integrations._servers import Mlflow, Wandb
from surefoot.integrations._state import LogState, identity
from surefoot.integrations._writers import LOSS, Csv, TensorBoard, Writer
from surefoot.metrics import reliability
from surefoot.records import RunFolder
from surefoot.report.bins import Bins, read_bins
from surefoot.report.paper import is_possible
from surefoot.report.paper.reliability import FIRST, diagram
from surefoot.seeding import replaying, rng_state

WRITERS: dict[str, type[Writer]] = {each.name: each for each in (TensorBoard, Mlflow, Wandb, Csv)}
FOLDER = "log"  # within the run folder
BATCH = {"loss": LOSS, "lr": "batch/lr", "passes": "batch/passes"}  # what a run's record of a step holds
PLACE = {"step", "epoch", "passes", "run", "seed", "member", "split", "tracker"}  # says where values are from


class LogWarning(UserWarning):
    """A log cannot be written. The training goes on."""


def read_log(log: str | Sequence[str]) -> tuple[str, ...]:
    """Read what people type after ``--log``.

    Args:
        log: Names, or a text with commas between them.

    Returns:
        The names, each once.

    Raises:
        InputError: If there is none, or one is unknown.

    Example:
        >>> read_log("tensorboard, csv")
        ('tensorboard', 'csv')
    """
    pieces = log.split(",") if isinstance(log, str) else list(log)
    names = dict.fromkeys(name.strip() for name in pieces if name.strip())
    for name in names:
        if name not in WRITERS:
            known = ", ".join(WRITERS)
            raise UnknownNameError(f"Unknown log {name!r}.{did_you_mean(name, WRITERS)} There are {known}.")
    if not names:
        raise InputError(f"Expected where to log, but got {log!r}. Write {', '.join(WRITERS)}, or several of them.")
    return tuple(names)


@dataclass(frozen=True)
class Logs:
    """Where the runs of a command are logged; it travels to the processes that make them.

    Attributes:
        names: As :func:`read_log` gives them.
    """

    names: tuple[str, ...]

    @classmethod
    def of(cls, log: str | Sequence[str]) -> Logs:
        """Find out before a training starts whether everything that is asked for can be had.

        Args:
            log: What was typed.

        Returns:
            The logs.

        Raises:
            InputError: If a name is unknown, a package missing, or a server does not answer.
        """
        names = read_log(log)
        for name in names:
            WRITERS[name]().check()
        if not is_possible():
            _say("There will be no reliability diagram in the log without matplotlib: pip install 'surefoot[figures]'.")
        return cls(names)

    def __call__(self) -> Log:
        """Make the log of one run."""
        return Log(self.names)

    def has_all(self, path: Path) -> bool:
        """Return whether the log of a finished run is complete."""
        state = LogState(path / FOLDER)
        return state.of == identity(RunFolder(path)) and all(map(state.is_done, self.names))


class Log:
    """Listens to a run, or to the trackers of a loop of one's own, and writes down what it hears.

    A log that cannot be written is given up with one warning; the others and the training go on.

    Args:
        log: ``"tensorboard"``, ``"mlflow"``, ``"wandb"``, ``"csv"``, or several with commas.
        out: A folder for files, in a loop of one's own; a run has its own place.
        title: What the run is called in MLflow and Weights & Biases; else as the folder.
        settings: What to note about it, by name.

    Example:
        >>> import tempfile
        >>> place = tempfile.mkdtemp()
        >>> with Log("csv", place) as log:
        ...     log({"step": 1, "train/loss": 0.5})
        >>> print(Path(place, "metrics.csv").read_text())
        step,epoch,tracker,key,value
        1,,,train/loss,0.5
        <BLANKLINE>
    """

    def __init__(
        self,
        log: str | Sequence[str],
        out: Path | str | None = None,
        *,
        title: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._writers = [WRITERS[name]() for name in read_log(log)]
        self._name, self._step, self._state = title or Path(out or "").name, 0, LogState(Path())
        self._begun = out is not None
        if out is not None:
            place = Path(out)
            place.mkdir(parents=True, exist_ok=True)
            self._state = LogState(place)
            self._state.forget_servers()
            for writer in self._writers:
                writer.check()
                known = self._state.known(writer.name)
                found = writer.open(place, self._name, settings or {}, known, own=True)
                self._state.note(writer.name, found, done=False)
            self._state.save()

    def begin(self, folder: RunFolder) -> None:
        """Start or go on with the log of a run: write down what the run has recorded and the log has not."""
        if self._begun:  # the next training of an ensemble
            return
        self._begun, self._name, place = True, folder.path.name, folder.path / FOLDER
        self._state = LogState(place)
        self._state.begin(folder)
        is_done = folder.done() is not None
        self._writers = [each for each in self._writers if not (is_done and self._state.is_done(each.name))]
        words = run_words(folder.spec, folder.tracking, int(folder.environment.get("threads", 1)))
        settings = {key: value for key, value in words.items() if value is not None}
        for writer in list(self._writers):
            self._try(writer, partial(self._open, writer, place, settings))
        for record in folder.steps() if self._writers else ():
            self(record)

    def _open(self, writer: Writer, place: Path, settings: Mapping[str, Any]) -> None:
        place.mkdir(parents=True, exist_ok=True)
        known = writer.open(place, self._name, settings, self._state.known(writer.name), own=False)
        self._state.note(writer.name, known, done=False)
        self._state.save()

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Write a record of a step or a tracker: everything in it that is a number.

        Args:
            record: ``step`` and values by name; ``epoch`` and ``tracker`` where they are known.
        """
        step = self._step = int(record["step"])
        values = _values(record)
        for writer in list(self._writers):
            if step > writer.last:
                self._try(writer, partial(writer.write, step, values, record))

    def reliability(self, probs: Any, labels: Any, *, step: int | None = None, name: str = "reliability") -> None:
        """Write a reliability diagram.

        Args:
            probs: Class probabilities, shape ``(n, classes)``.
            labels: Class indices, shape ``(n,)``.
            step: After which step; else the last one that was heard.
            name: What the picture is called.
        """
        found = reliability(probs, labels)
        bins = Bins(tuple(map(int, found.count)), tuple(found.confidence), tuple(found.accuracy), 1)
        self._draw(self._step if step is None else step, name, [("", bins, FIRST)])

    def end(self, folder: RunFolder, error: BaseException | None = None) -> None:
        """Write the final measures and the reliability diagram of a finished run, and close."""
        if error is None and self._writers:
            measures = {_final(record): record.get("value") for record in folder.measures()}
            final = {"step": self._step, **measures}
            for writer in list(self._writers):
                self._try(writer, partial(writer.write, self._step, _values(final), final))
            drawn = {name: bins for name, bins in read_bins([folder]).items() if name in (None, "temperature")}
            label = folder.spec.method.name
            self._draw(
                self._step,
                "reliability",
                [(f"{label} after {name}" if name else label, bins, FIRST) for name, bins in drawn.items()],
            )
        self.close(failed=error is not None)

    def close(self, *, failed: bool = False) -> None:
        """Send what waits and close.

        Args:
            failed: Whether the training did.
        """
        for writer in list(self._writers):
            self._try(writer, partial(self._close, writer, failed))
        self._writers = []

    def _close(self, writer: Writer, failed: bool) -> None:
        writer.send()
        writer.close(failed)
        self._state.note(writer.name, self._state.known(writer.name), done=not failed)
        self._state.save()

    def __enter__(self) -> Log:
        """Log for a while."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close."""
        self.close(failed=error is not None)

    def _draw(self, step: int, name: str, columns: Sequence[tuple[str, Bins, str]]) -> None:
        if not is_possible() or not columns:
            return
        buffer = io.BytesIO()
        try:
            with replaying(rng_state()):
                diagram(columns).savefig(buffer, format="png", dpi=110, metadata={"Software": None})
        except Exception as error:  # the run is finished, and is not to fail for a picture
            _say(f"Expected to draw the reliability diagram, but {type(error).__name__}: {error}. The log has none.")
            return
        for writer in list(self._writers):
            self._try(writer, partial(writer.image, step, name, buffer.getvalue()))

    def _try(self, writer: Writer, do: Callable[[], object]) -> None:
        """Let a writer do something. The run must not notice: neither a failure, nor that a random number was drawn."""
        try:
            with replaying(rng_state()):
                do()
        except Exception as error:
            self._writers.remove(writer)
            with suppress(Exception):  # what is wrong is known
                writer.abandon()
            found = f"{type(error).__name__}: {error}"
            _say(
                f"Expected to log {self._name} to {writer.name}, but after step {self._step}: {found}. "
                "The training goes on without it. When this is mended, the same command writes the rest of a run's log."
            )


def _values(record: Mapping[str, Any]) -> dict[str, float]:
    """Find the numbers in a record, by name."""
    is_step = "run" in record and "tracker" not in record
    found = {name: record[key] for key, name in BATCH.items() if key in record} if is_step else {}
    found |= {key: value for key, value in record.items() if key not in (BATCH if is_step else ()) and key not in PLACE}
    return {
        key: float(value) for key, value in found.items() if isinstance(value, int | float) and math.isfinite(value)
    }


def _final(record: dict[str, Any]) -> str:
    """Name a final measure: ``final/test/ece@temperature``."""
    return f"final/{record['split']}/{key_of(record)}"


def _say(message: str) -> None:
    """Warn. In a process that the command line has started, nobody has told Python how it writes warnings."""
    if multiprocessing.parent_process() is None:
        warnings.warn(message, LogWarning, stacklevel=4)
    else:
        print(f"Warning: {message}", file=sys.stderr, flush=True)
