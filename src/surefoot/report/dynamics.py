"""How calibration, curvature and margins go together along training: what the page shows of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefoot.records import RunFolder
from surefoot.report.correlation import Correlation, correlate, pearson, spearman
from surefoot.report.curves import Curve
from surefoot.report.dynamics_figures import (
    TRAJECTORIES,
    Phase,
    Waypoints,
    certificate_figure,
    path_figure,
    phase_figure,
    sharpness_figure,
)
from surefoot.report.figures import Figure, curve_figure
from surefoot.report.marks import Mark

Named = tuple[str, Mark, Mapping[str, Curve]]


@dataclass(frozen=True)
class Together:
    """ECE on the test split and sharpness of one method, correlated along its runs."""

    label: str
    mark: Mark
    pearson: Correlation
    spearman: Correlation
    n_points: int


def read_phases(runs: Iterable[RunFolder]) -> list[Phase]:
    """Pair each run's test ECE with its sharpness at the same moments.

    Sharpness is read off between its own measurements where the two schedules differ.

    Args:
        runs: Runs of one method.

    Returns:
        One series per run that recorded both.
    """
    found = []
    for run in runs:
        records = run.tracked()
        ece, sharpness = _series(records, "test/ece"), _series(records, "gn_sharpness/value")
        if len(ece) < 2 or len(sharpness) < 2:
            continue
        steps = [step for step in ece if min(sharpness) <= step <= max(sharpness)]
        matched = np.interp(steps, list(sharpness), list(sharpness.values()))
        found.append(Phase(tuple(steps), tuple(map(float, matched)), tuple(ece[step] for step in steps)))
    return found


def _series(records: Iterable[Mapping[str, Any]], key: str) -> dict[int, float]:
    return {
        record["step"]: record[key] for record in records if record.get(key) is not None and math.isfinite(record[key])
    }


def read_path(runs: Iterable[RunFolder]) -> list[Waypoints]:
    """Read κ_min along the path to the perturbed weights, of the first run that recorded it: first, middle, last.

    Args:
        runs: Runs of one method.

    Returns:
        Up to three moments; none where nothing was recorded.
    """
    for run in runs:
        records = [record for record in run.tracked() if "path/bound" in record]
        if records:
            chosen = sorted({0, len(records) // 2, len(records) - 1})
            return [_waypoints(records[index]) for index in chosen]
    return []


def _waypoints(record: Mapping[str, Any]) -> Waypoints:
    values = {float(key.partition("@")[2]): value for key, value in record.items() if key.startswith("path/kappa_min@")}
    return Waypoints(record["step"], tuple(values), tuple(values.values()), record["path/bound"])


def correlations(phases: Sequence[tuple[str, Mark, Sequence[Phase]]]) -> list[Together]:
    """Correlate ECE with sharpness for every method that recorded both."""
    return [
        Together(
            label,
            mark,
            correlate([(phase.sharpness, phase.ece) for phase in series], pearson),
            correlate([(phase.sharpness, phase.ece) for phase in series], spearman),
            sum(len(phase.steps) for phase in series),
        )
        for label, mark, series in phases
        if series
    ]


def dynamics(methods: Sequence[Named], runs: Sequence[Sequence[RunFolder]]) -> dict[str, Any]:
    """Collect figures and numbers about curvature, margins and certificates.

    Args:
        methods: Label, mark and curves of each method.
        runs: Each one's runs.

    Returns:
        ``cards``, each with the place ``id``, ``heading`` and ``says``; ``figures`` for those places; and
        ``correlations``. All empty where only quality was tracked.
    """
    named = [(label, mark) for label, mark, _ in methods]
    phases = [(*name, read_phases(group)) for name, group in zip(named, runs, strict=True)]
    paths = [(*name, read_path(group)) for name, group in zip(named, runs, strict=True)]
    drawn: list[tuple[str, str, str, Figure | None]] = [
        (
            "sharpness",
            "Sharpness, log scale",
            "Largest Gauss–Newton eigenvalue on a probe of the training split (solid), mean sharpness of batches "
            "along their own gradients (dotted) and the line 2/η of the learning rate (dashed), over epochs.",
            sharpness_figure(methods),
        ),
        *(
            (quantity.key, quantity.label, f"{quantity.label} over epochs.", curve_figure(quantity, methods))
            for quantity in TRAJECTORIES
        ),
        (
            "phase",
            "ECE against sharpness",
            "Test ECE over sharpness at the same moment, coloured by step; one line per run.",
            phase_figure(phases),
        ),
        (
            "path",
            "Smallest curvature on the way to the perturbed weights",
            "Smallest Hessian eigenvalue between the weights and those that SAM climbs to, at the first, a middle and "
            "the last moment; dashed: the bound −‖∇L‖/ρ that the theory asks it to stay above.",
            path_figure(paths),
        ),
        (
            "certificate",
            "Certificate and measured ECE, log scale",
            "Test ECE (solid) and the bound on it by margins (dashed), over epochs.",
            certificate_figure(methods),
        ),
    ]
    shown = [(place, heading, says, figure) for place, heading, says, figure in drawn if figure is not None]
    return {
        "cards": [{"id": f"curve-{place}", "heading": heading, "says": says} for place, heading, says, _ in shown],
        "figures": [{"id": f"curve-{place}", "views": {"": figure}} for place, _, _, figure in shown],
        "correlations": correlations(phases),
    }
