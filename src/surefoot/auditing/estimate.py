"""Without labels: how good are a model's predictions on new rows, if only the classes' frequencies have changed?"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Any, Unpack

import torch

from surefoot.auditing._plain_rows import check_plain
from surefoot.auditing._reading import OnRows, Reading
from surefoot.auditing._shifted import ReferenceRows, Shifted, shifted
from surefoot.auditing._unlabelled import NewRows, read_new
from surefoot.auditing._walking import read
from surefoot.auditing.audit import choose_one
from surefoot.auditing.result import plain
from surefoot.errors import InputError, ShiftError
from surefoot.metrics.bootstrap import bootstrap_sums
from surefoot.metrics.interval import Interval, check_level, no_interval
from surefoot.seeding import generator
from surefoot.sources.files import is_path, name_of, open_predictions
from surefoot.sources.positive import choose_positive
from surefoot.sources.source import Source
from surefoot.sources.told import Told

FEW = 30  # rows of either file; of fewer nothing can be said
MOST = 50_000  # rows of each file that are drawn anew


@dataclass(frozen=True)
class ClassShare:
    """How frequent a class is."""

    name: str
    reference: float
    """In the labelled reference."""
    new: Interval
    """Among the new rows, estimated."""


@dataclass(frozen=True)
class Estimate:
    """What the reference says about new rows without labels, if only the classes' frequencies have changed. Fractions.

    Attributes:
        file: The new rows.
        reference: The labelled rows.
        n: How many new rows.
        n_reference: How many labelled ones.
        measures: By key: accuracy, ``ece`` and ``nll``; of two classes ``event_rate``, ``mean_risk`` (which needs no
            label) and ``risk_ece`` in the place of ``ece``.
        was: The same on the reference as it is.
        shares: Of each class.
        p_value: How often such a change alone would make the scores differ as much as they do.
        worth: As many labelled new rows would tell the accuracy as well.
        positive: Of two classes, the one whose probability is the risk.
        took: What was taken for what, for people.
        notes: What a reader must know.
    """

    file: str
    reference: str
    n: int
    n_reference: int
    measures: dict[str, Interval]
    was: dict[str, float]
    shares: tuple[ClassShare, ...]
    p_value: float
    worth: float
    positive: str | None
    took: str
    notes: tuple[str, ...]

    def sentence(self) -> str:
        """Say in one line what to expect on the new rows."""
        found, level = self.measures, f"{100 * self.measures['accuracy'].level:.0f} %"
        right = f"about {_percent(found['accuracy'])}, where the reference has {100 * self.was['accuracy']:.1f} %"
        if self.positive is None:
            said = f"accuracy on the {self.n:,} new rows is {right}; ECE about {_percent(found['ece'])}"
        else:
            rate, mean = _percent(found["event_rate"]), f"{100 * found['mean_risk'].estimate:.1f} %"
            said = f"about {rate} of the {self.n:,} new rows are {self.positive}, at a mean risk of {mean}; accuracy "
            said += f"{right}; ECE of the risk about {_percent(found['risk_ece'])}"
        return f"{said} ({level} intervals, if only class frequencies have changed)"

    def to_json(self) -> dict[str, Any]:
        """Write the estimate for machines: fractions, null for what is not defined or infinite."""
        return {"sentence": self.sentence(), **plain(dataclasses.asdict(self))}


def estimate(
    new: Any,
    reference: Any,
    *,
    model: str | None = None,
    positive: str | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    on_rows: OnRows | None = None,
    **told: Unpack[Told],
) -> Estimate:
    """Estimate accuracy and calibration on rows without labels from labelled ones of the same model.

    Args:
        new: Scores without labels: a file, a DataFrame, arrays by name, or an array.
        reference: Predictions with labels; see :func:`~surefoot.sources.files.open_predictions`.
        model: Which one, where a file holds several.
        positive: Of two classes, the name or number of the one whose probability is the risk.
        n_bins: Number of bins.
        level: Of the intervals; and 1 − level is how often a reference that fits is refused.
        on_rows: Called while reading the reference.
        **told: What names and values do not tell, of both; see :class:`~surefoot.sources.told.Told`.

    Returns:
        Estimates with intervals.

    Raises:
        ShiftError: If the new scores are distributed as no class frequencies would explain.
        InputError: If one of them cannot be read, or has too few rows.
    """
    check_level(level)
    if n_bins < 1:
        raise InputError(f"Expected bins ≥ 1, but got {n_bins}.")
    where = name_of(reference)
    told["score_of"] = positive
    opened, _ = choose_one(open_predictions(reference, **told), model, where)
    check_plain(opened, ("multiclass", "confidence"), where)
    reading = read(opened, n_bins=n_bins, where=where, on_rows=on_rows)
    if positive is not None and reading.n_classes != 2:
        raise InputError(f"Expected two classes with --positive, but {where} has {reading.n_classes}. Leave it out.")
    two = choose_positive(opened.class_names, positive, where) if reading.n_classes == 2 else None
    file = name_of(new) if is_path(new) else "the new rows"
    rows = read_new(new, opened, reading.n_classes, two.index if two else None, MOST, file, model, told)
    _check_enough(reading, where, rows, file)
    labelled = ReferenceRows.of(
        reading.probs(MOST), torch.from_numpy(reading.labels[:MOST]).long(), two.index if two else None
    )
    source = generator(0, "estimate")
    found = shifted(labelled, rows.scored, reading.n_classes, n_bins=n_bins, level=level, source=source)
    if found.p_value <= 1 - level:
        raise ShiftError(
            f"Expected scores that other class frequencies explain, but those of {file} are distributed otherwise than "
            f"any frequencies would make those of {where} (p = {found.p_value:.3f}): more has changed, and the "
            "reference says nothing about it. Label some of the new rows and audit them."
        )
    return _result(
        file, where, opened, reading, rows, found, two.name if two else None, two.index if two else None, level
    )


def _check_enough(reading: Reading, where: str, rows: NewRows, file: str) -> None:
    for n, name in ((reading.n, where), (rows.n, file)):
        if n < FEW:
            raise InputError(f"Expected at least {FEW} rows, but {name} has {n}. Fewer say nothing; collect more.")
    if len(set(reading.labels.tolist())) < 2:
        raise InputError(
            f"Expected labels of several classes, but {where} has one class only, so frequencies cannot be told. Use "
            "another reference."
        )


def _result(
    file: str,
    where: str,
    opened: Source,
    reading: Reading,
    rows: NewRows,
    found: Shifted,
    name: str | None,
    positive: int | None,
    level: float,
) -> Estimate:
    totals = reading.class_bins.sums[2].sum(1)
    names = opened.class_names or tuple(f"class {k}" for k in range(reading.n_classes))
    measures = {"accuracy": found.accuracy, "ece": found.ece, "nll": found.nll}
    was = {"accuracy": (reading.bins.sums[2].sum() / reading.n).item(), "nll": reading.values["nll"].mean}
    if positive is None:
        was["ece"] = bootstrap_sums("ece", reading.bins.sums).estimate
    else:
        rate = replace(found.shares[positive], metric="event_rate")
        mean = no_interval("mean_risk", rows.mean_risk or 0.0, level, "")
        risk = replace(measures.pop("ece"), metric="risk_ece")
        measures = {"event_rate": rate, "mean_risk": mean, "risk_ece": risk, **measures}
        was |= {"event_rate": (totals[positive] / reading.n).item()}
        was |= {"mean_risk": (reading.class_bins.sums[1, positive].sum() / reading.n).item()}
    return Estimate(
        file=file,
        reference=where,
        n=rows.n,
        n_reference=reading.n,
        measures=measures,
        was=was,
        shares=tuple(
            ClassShare(each, (total / reading.n), share)
            for each, total, share in zip(names, totals.tolist(), found.shares, strict=True)
        ),
        p_value=found.p_value,
        worth=found.worth,
        positive=name,
        took=f"{rows.took}; reference: {opened.took}",
        notes=tuple(_notes(reading, rows, names, totals.tolist())),
    )


def _notes(reading: Reading, rows: NewRows, names: tuple[str, ...], totals: list[float]) -> list[str]:
    notes = []
    if missing := [name for name, total in zip(names, totals, strict=True) if not total]:
        shown = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        notes.append(f"The reference has no row of {shown}; such rows are taken not to occur among the new ones.")
    if rows.labelled:
        notes.append("The new rows have labels, which were not looked at; audit them instead.")
    if max(reading.n, rows.n) > MOST:
        notes.append(f"Computed on at most {MOST:,} rows of each file, drawn at random.")
    return notes


def _percent(interval: Interval) -> str:
    return f"{100 * interval.estimate:.1f} % ({100 * interval.low:.1f}–{100 * interval.high:.1f})"
