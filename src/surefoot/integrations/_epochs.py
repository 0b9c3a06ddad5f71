"""The value of a run after every epoch, for whoever decides whether it is worth going on with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.records import RunFolder

# What every run measures on the calibration split after every epoch, by metric.
BY_EPOCH = {
    "nll": "calibration/loss",
    "accuracy": "calibration/accuracy",
    "ece": "calibration/ece",
    "kce": "calibration/kce",
}
Tell = Callable[[int, float], None]  # an epoch, and the value after it


class Epochs:
    """Hears the value after every epoch but the last, whose value is that of the finished run.

    Of an ensemble that trains one network after another, it hears the first network.

    Args:
        key: What to listen to; None for nothing.
        epochs: How many there are.
        tell: Called once per epoch; it raises to stop the run.
        worst: Stands for a value that is not finite.
    """

    def __init__(self, key: str | None, epochs: int, tell: Tell, worst: float) -> None:
        self._key, self._epochs, self._tell, self._worst = key, epochs, tell, worst
        self._told = 0

    def begin(self, folder: RunFolder) -> None:
        """Hear what a run that goes on has recorded already."""
        for record in folder.steps():
            self(record)

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Hear a record."""
        epoch = int(record["epoch"])
        is_value = self._key in record and record.get("tracker") == "quality" and not record.get("member")
        if is_value and self._told < epoch < self._epochs:
            self._told, value = epoch, record[str(self._key)]
            self._tell(epoch, self._worst if value is None else value)

    def end(self, folder: RunFolder, error: BaseException | None = None) -> None:
        """Nothing is left to do."""


@dataclass(frozen=True)
class Hearing:
    """Where a run is logged, if that is one listener."""

    listener: Epochs

    def __call__(self) -> Epochs:
        """Return the listener."""
        return self.listener

    def has_all(self, path: Path) -> bool:
        """Return whether nothing is left to tell: of a finished run, its value is read from its folder."""
        return True
