"""Shifted pictures that a study's finished networks are measured on. Imports no torch until it measures."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surefoot.records import RunFolder

Place = tuple[str | None, int, str | None]  # corruption, severity, out-of-distribution data set
SCORE = "max_probability"  # out-of-distribution inputs are detected by it
CORRUPTIONS = ("motion_blur", "defocus_blur", "impulse_noise")  # the CSAM paper's


@dataclass(frozen=True)
class Shift:
    """Corruptions at severities, and out-of-distribution data sets: the same pictures for every run.

    Attributes:
        corruptions: Names.
        severities: From 1 to 5.
        ood: Out-of-distribution data sets.
        n: How many test pictures of each kind.
    """

    corruptions: tuple[str, ...] = ()
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    ood: tuple[str, ...] = ()
    n: int = 1000

    @property
    def places(self) -> list[Place]:
        """What there is to measure."""
        corrupted: list[Place] = [(name, severity, None) for name in self.corruptions for severity in self.severities]
        return corrupted + [(None, 0, name) for name in self.ood]

    def part(self, *, corruption: str | None = None, severity: int | None = None, ood: str | None = None) -> Shift:
        """Choose from it.

        Args:
            corruption: One of them; else all.
            severity: One of them; else all.
            ood: An out-of-distribution data set, instead of corruptions.

        Returns:
            The part.

        Example:
            >>> Shift(("fog", "snow"), ood=("digits",)).part(corruption="fog", severity=3).places
            [('fog', 3, None)]
        """
        if ood is not None:
            return replace(self, corruptions=(), ood=(ood,))
        corruptions = self.corruptions if corruption is None else (corruption,)
        return replace(
            self, corruptions=corruptions, severities=self.severities if severity is None else (severity,), ood=()
        )

    def measure(self, path: Path) -> None:
        """Measure a finished run; what has been measured stays."""
        from surefoot.shift import conditions, shift

        shift(
            path, conditions(self.corruptions, self.severities, self.ood), n=self.n, trust=True
        )  # the study names its parts

    def has(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record of a run's is one of these pictures, or of the clean ones beside them."""
        place = record["corruption"], record["severity"], record["ood"]
        is_clean = record["corruption"] is None and record["ood"] is None
        return record["n"] == self.n and not record["published"] and (is_clean or place in self.places)

    def is_measured(self, run: RunFolder) -> bool:
        """Return whether a run has all of it."""
        return set(self.places) <= self._read(run, "auroc").keys()

    def mean(self, run: RunFolder, metric: str) -> float | None:
        """Average a run's metric over all of it.

        Args:
            run: Has been measured.
            metric: ``accuracy``, ``ece``, ``debiased_ece``, ``nll`` or ``brier``; behind a temperature fitted on clean
                pictures ``ece@temperature`` and the like; or ``auroc``, of telling shifted pictures from clean ones by
                their largest probability.

        Returns:
            The mean; None where something is missing.
        """
        found = self._read(run, metric)
        return statistics.fmean(found[place] for place in self.places) if set(self.places) <= found.keys() else None

    def _read(self, run: RunFolder, metric: str) -> dict[Place, float]:
        found: dict[Place, float] = {}
        for record in run.shift():
            if record["n"] != self.n or record["published"] or record["detection"] is None:
                continue
            value = record["detection"][SCORE]["auroc"] if metric == "auroc" else record.get(metric)
            if value is not None:
                found[record["corruption"], record["severity"], record["ood"]] = value
        return found


def corrupted(*ood: str, smoke: bool = False) -> Shift:
    """Return the CSAM paper's corruptions, and out-of-distribution data sets beside them.

    Args:
        *ood: Their names.
        smoke: Less of it.

    Returns:
        The shift.
    """
    return Shift(CORRUPTIONS, (1, 5), ood, n=100) if smoke else Shift(CORRUPTIONS, ood=ood)
