"""One run on disk.

::

    spec.json            the RunSpec, its id, and what the data are
    run.toml             the same as settings for ``surefoot train --config``
    environment.json     versions and hardware
    steps.jsonl          one line per step and per tracked moment
    timing.jsonl         seconds spent; kept apart, so that everything else is the same bits every time
    splits.npz           where each example of each split stands in the published data
    predictions/         <split>.npz with logits, labels (numbers from 0) and the classes' names
    measures.jsonl       one line per metric, split and calibrator
    tracked.jsonl        one line per tracker asked after the fact
    shift.jsonl          one line per corruption and severity, and per out-of-distribution data set
    checkpoint/          the newest state of the training, and until its end the one before
    checksums.json       hashes of predictions and splits; a checkpoint has its own, and that of the steps before it
    done.json            written last: this run is finished

Everything but the two growing files is replaced whole. The growing ones are cut back to the last checkpoint when
a killed run goes on.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from surefoot.atomic import write_bytes, write_json
from surefoot.config import RUN, run_words, to_toml
from surefoot.errors import InputError
from surefoot.records._arrays import array_files, read_predictions, read_rows, write_predictions, write_rows
from surefoot.records._checksums import hash_of, write_checksums
from surefoot.records._kinds import is_measure, is_shift, is_step, is_timing, is_tracked
from surefoot.records._lines import ANEW, append_lines, keep_lines, read_lines, to_lines
from surefoot.records._lock import hold
from surefoot.records._objects import read_object
from surefoot.records._ownership import check_ours, read_header, remove_run
from surefoot.schema import Predictions, Rows, RunSpec, SplitName, Tracking

Record = dict[str, Any]


class RunFolder:
    """Reads and writes one run folder.

    Args:
        path: The folder; it need not exist yet.
    """

    write_every = 1.0  # seconds between two writings of steps, for who watches

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoint"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only writer; the lock goes away with the process, however it ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("a") as file:  # whoever wrote something into it keeps it
            hold(file, self.path)
            yield

    def begin(
        self, spec: RunSpec, run_id: str, data: Record, environment: Record, tracking: Tracking | None = None
    ) -> None:
        """Write down what is about to run.

        Args:
            spec: What determines the run.
            run_id: Its name.
            data: What the data are: fingerprint, sizes, class names.
            environment: What it runs on.
            tracking: What is measured on the way; it is not part of the spec, for it changes nothing.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        tracking = tracking or Tracking()
        header = {"id": run_id, "spec": spec.to_json(), "data": data, "tracking": dataclasses.asdict(tracking)}
        write_json(self.path / "spec.json", header)
        words = run_words(spec, tracking, int(environment.get("threads", 1)))
        write_bytes(self.path / RUN, to_toml(words).encode())
        write_json(self.path / "environment.json", environment)

    def check_ours(self) -> None:
        """Refuse a folder that holds somebody's own files where a run would write.

        Raises:
            InputError: If there are any; it names them.
        """
        check_ours(self.path)

    def clear(self) -> None:
        """Remove everything that belongs to the run, and nothing else."""
        remove_run(self.path)

    def files(self) -> Iterator[Path]:
        """List the files that make the run, so that nothing else is written in their place."""
        for name in ("predictions", "checkpoint"):
            yield from (path for path in (self.path / name).rglob("*") if path.is_file())
        for pattern in ("*.json", "*.jsonl", "*.npz", RUN, ".lock"):
            yield from self.path.glob(pattern)

    @property
    def run_id(self) -> str | None:
        """Name of the run in this folder; None if there is none."""
        return str(self._header()["id"]) if (self.path / "spec.json").exists() else None

    @property
    def spec(self) -> RunSpec:
        """What determines the run."""
        try:
            return RunSpec.from_json(self._header()["spec"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"Expected what surefoot wrote, but {self.path / 'spec.json'} is damaged. {ANEW}"
            ) from error

    @property
    def data(self) -> Record:
        """What the data are."""
        data: Record = self._header()["data"]
        return data

    @property
    def tracking(self) -> Tracking:
        """What is measured while the run trains."""
        found = self._header().get("tracking", {"trackers": []})
        return Tracking(tuple(found["trackers"]), found.get("budget"))

    @property
    def environment(self) -> Record:
        """What the run ran on."""
        return read_object(self.path / "environment.json")

    def _header(self) -> Record:
        header: Record | None = read_header(self.path)
        if header is None and (self.path / "spec.json").exists():
            raise InputError(
                f"Expected {self.path} to be a run folder, but its spec.json is none that surefoot wrote. "
                "Choose another folder."
            )
        if header is None:
            raise InputError(f"Expected a run folder, but {self.path} has no spec.json. Run `surefoot train` first.")
        return header

    def append_steps(self, records: Iterable[Record], *, sync: bool = False) -> int:
        """Add lines to ``steps.jsonl``.

        Args:
            records: One per line.
            sync: Wait until they are on the disk.

        Returns:
            Size of the file in bytes.
        """
        return append_lines(self.path / "steps.jsonl", records, sync=sync)

    def hash_of_steps(self, size: int) -> str:
        """Return the hash of so many first bytes of ``steps.jsonl``, for a checkpoint to vouch for them."""
        return hash_of(self.path / "steps.jsonl", size)

    def cut_back(self, size: int, step: int, wanted: str | None = None) -> None:
        """Forget what was recorded after a checkpoint, and whatever line a kill has torn.

        Args:
            size: Bytes that ``steps.jsonl`` had at the checkpoint.
            step: Number of steps that had been made.
            wanted: Hash of those bytes; None where an older version wrote the checkpoint.

        Raises:
            InputError: If records are missing that the checkpoint knows of, or are not those.
        """
        path = self.path / "steps.jsonl"
        found = path.stat().st_size if path.exists() else 0
        if found < size:
            raise InputError(
                f"Expected {size:,} bytes of records in {path}, but it has {found:,}: the file is damaged. {ANEW}"
            )
        if wanted is not None and self.hash_of_steps(size) != wanted:
            raise InputError(
                f"Expected the first {size:,} bytes of {path} as they were written, but they are damaged: their hash "
                f"is another. {ANEW}"
            )
        if found > size:
            os.truncate(path, size)
        keep_lines(self.path / "timing.jsonl", lambda line: is_timing(line) and line["step"] <= step)

    def steps(self) -> list[Record]:
        """Read all lines of ``steps.jsonl``."""
        return read_lines(self.path / "steps.jsonl", is_step)

    def add_seconds(self, step: int, seconds: float, tracking: float = 0.0) -> None:
        """Note that the run up to ``step`` took so many seconds more, and how many of them trackers took."""
        line = {"step": step, "seconds": round(seconds, 4), "tracking": round(tracking, 4)}
        append_lines(self.path / "timing.jsonl", [line])

    def seconds(self) -> float:
        """Seconds spent on training so far, over all sessions, without those of trackers."""
        lines = read_lines(self.path / "timing.jsonl", is_timing)
        return float(sum(line["seconds"] - line.get("tracking", 0.0) for line in lines))

    def tracking_seconds(self) -> float:
        """Seconds that trackers took so far, over all sessions."""
        return float(sum(line.get("tracking", 0.0) for line in read_lines(self.path / "timing.jsonl", is_timing)))

    def write_predictions(self, predictions: Predictions) -> None:
        """Store the predictions of one split."""
        write_predictions(self.path, predictions)

    def predictions(self, split: SplitName) -> Predictions:
        """Read the predictions of one split."""
        return read_predictions(self.path, split)

    def has_predictions(self, split: SplitName) -> bool:
        """Return whether the predictions of a split are there."""
        return (self.path / "predictions" / f"{split}.npz").exists()

    def write_rows(self, rows: Mapping[SplitName, Rows]) -> None:
        """Store which rows of the published data make each split."""
        write_rows(self.path, rows)

    def rows(self) -> dict[SplitName, Rows]:
        """Read which rows of the published data make each split; empty where that was not known."""
        return read_rows(self.path)

    def write_measures(self, records: Iterable[Record]) -> None:
        """Replace ``measures.jsonl``."""
        write_bytes(self.path / "measures.jsonl", to_lines(records))

    def measures(self) -> list[Record]:
        """Read all lines of ``measures.jsonl``."""
        return read_lines(self.path / "measures.jsonl", is_measure)

    def write_tracked(self, records: Iterable[Record]) -> None:
        """Replace ``tracked.jsonl``."""
        write_bytes(self.path / "tracked.jsonl", to_lines(records))

    def tracked_later(self) -> list[Record]:
        """Read all lines of ``tracked.jsonl``: what trackers saw after the fact."""
        return read_lines(self.path / "tracked.jsonl", is_tracked)

    def tracked(self, steps: Iterable[Record] | None = None) -> list[Record]:
        """Read what trackers saw: on the way, and after the fact where they were asked again.

        Args:
            steps: What :meth:`steps` gave, for who has read it already.

        Returns:
            The records in the order of their steps.
        """
        later = self.tracked_later()
        again = {(record["step"], record["tracker"]) for record in later}
        first = [record for record in (self.steps() if steps is None else steps) if "tracker" in record]
        kept = [record for record in first if (record["step"], record["tracker"]) not in again]
        return sorted(kept + later, key=lambda record: int(record["step"]))

    def write_shift(self, records: Iterable[Record]) -> None:
        """Replace ``shift.jsonl``."""
        write_bytes(self.path / "shift.jsonl", to_lines(records))

    def shift(self) -> list[Record]:
        """Read all lines of ``shift.jsonl``: quality on shifted data."""
        return read_lines(self.path / "shift.jsonl", is_shift)

    def finish(self, summary: Record) -> None:
        """Write the hashes of arrays, then ``done.json``: the run is finished."""
        write_checksums(self.path, array_files(self.path))
        write_json(self.path / "done.json", summary)

    def done(self) -> Record | None:
        """What :meth:`finish` wrote; None while the run is not finished."""
        path = self.path / "done.json"
        return read_object(path, ("passes", "seconds")) if path.exists() else None
