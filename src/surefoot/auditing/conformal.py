"""Fit prediction sets on a file of predictions, and measure them on rows that they were not fitted on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from surefoot.auditing._applying import check_classes
from surefoot.auditing._reading import OnRows, Reading
from surefoot.auditing._set_rows import rows_of, sampled_rows
from surefoot.auditing._set_words import sentence_of
from surefoot.auditing._walking import read
from surefoot.auditing.audit import choose_one
from surefoot.auditing.calibrate import COMPARED_VALUES, FITTED_VALUES, Origin
from surefoot.auditing.result import plain
from surefoot.calibrators import Calibrator, load, load_about
from surefoot.errors import InputError, SplitError
from surefoot.metrics.interval import check_level
from surefoot.places import written
from surefoot.prediction_sets import (
    PredictionSets,
    SetMeasures,
    SetsComparison,
    SetSums,
    compare_sets,
    coverage_range,
    fit_sets,
)
from surefoot.prediction_sets._quantile import check_coverage
from surefoot.prediction_sets._rows import check_form
from surefoot.prediction_sets.compare import rows_to_compare
from surefoot.registry import SETS
from surefoot.schema import Predictions
from surefoot.sources.files import name_of, open_predictions
from surefoot.sources.scores import FittedTo
from surefoot.sources.source import Source
from surefoot.sources.told import Told


@dataclass(frozen=True)
class FittedSets:
    """Prediction sets to use, and what they, or their like from half of the rows, did on other rows."""

    file: str
    took: str
    sets: PredictionSets
    """Those to use."""
    comparison: SetsComparison | None
    """None where the score was given."""
    measures: SetMeasures
    measured_sets: PredictionSets
    """Those that were measured: the same, or of a file with one set of rows those fitted on one half."""
    measured_on: str
    """Which rows, in words."""
    n: int
    """How many rows there were to fit on."""
    origin: Origin
    fitted_to: dict[str, Any]
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Say in one line how often sets hold the true class and how large they are."""
        return sentence_of(self.measures, self.measured_sets)

    def to_json(self) -> dict[str, Any]:
        """Write everything for machines: fractions, null for what is not defined."""
        sets = self.sets
        n_behind = min(self.measured_sets.rows) if self.measured_sets.per_class else self.measured_sets.n
        measured = asdict(self.measures)
        values: dict[str, Any] = plain({
            "sentence": self.sentence(),
            "file": self.file,
            "took": self.took,
            "n": self.n,
            "n_classes": sets.n_classes,
            "method": sets.method,
            "coverage": sets.coverage,
            "per_class": sets.per_class,
            "calibrator": None if sets.calibrator is None else sets.calibrator.name,
            "thresholds": list(sets.thresholds),
            "rows": list(sets.rows),
            "comparison": None if self.comparison is None else asdict(self.comparison),
            "measured": {
                **measured,
                "on": self.measured_on,
                "holds": self.measures.holds,
                "fitted_rows": self.measured_sets.n,
                "same_sets": self.measured_sets == sets,
                "usual": None if sets.weighted or sets.per_class else coverage_range(n_behind, sets.coverage),
            },
            "notes": list(self.notes),
            "doubts": list(self.doubts),
        })
        return values

    def save(self, path: Path | str) -> None:
        """Write the sets, and with them a fingerprint of the rows that they were fitted on."""
        with written(path) as here:
            self.sets.save(here, about={"fitted_rows": asdict(self.origin), "fitted_to": self.fitted_to})


def conformal(
    source: Any,
    test: Any = None,
    *,
    coverage: float = 0.9,
    method: str | None = None,
    per_class: bool = False,
    calibrator: Calibrator | Path | str | None = None,
    model: str | None = None,
    level: float = 0.95,
    on_rows: OnRows | None = None,
    **told: Unpack[Told],
) -> FittedSets:
    """Fit prediction sets and measure them on rows that they were not fitted on.

    Args:
        source: Rows to fit on: a file, or predictions in memory. Of a calibration and a test set, sets are fitted on
            the first and measured on the second. Of one set, half of the rows is measured on, with sets fitted on the
            other half, and those to use are fitted on all.
        test: Other rows to measure on.
        coverage: How often the true class is to be in the set.
        method: A score; else the one with the smallest sets, by cross-fitting on the rows to fit on.
        per_class: Take a threshold for each class.
        calibrator: A fitted or saved one that probabilities go through first, fitted on other rows.
        model: Which one, where a file holds several.
        level: Of the intervals.
        on_rows: Called while reading.
        **told: What names and values do not tell; see :class:`~surefoot.sources.told.Told`.

    Returns:
        The sets and what they did.

    Raises:
        SplitError: If rows are used twice.
    """
    check_coverage(coverage)
    check_level(level)
    if method is not None:
        SETS.parse(method)  # raises where there is none, before the file is read
    first: Told = {**told, "groups": ()} if test is not None else told
    where = name_of(source)
    audited, held_out = choose_one(open_predictions(source, **first), model, where)
    rows = held_out or audited
    if test is not None:
        audited, _ = choose_one(open_predictions(test, **told), model, name_of(test))
    _check_source(rows, where)
    reading = read(rows, n_bins=15, where=where, sampled_values=0, on_rows=on_rows)
    before, behind = _calibrator(calibrator, reading, where)
    fitted, halves = sampled_rows(rows, where, FITTED_VALUES)
    in_halves = audited is rows
    part = fitted.rows(halves == 0) if in_halves else fitted
    options: dict[str, Any] = {
        "coverage": coverage,
        "per_class": per_class,
        "calibrator": before,
        "weights_are": rows.weights_are,
    }
    if method is None and in_halves and len(part.labels) < (least := rows_to_compare(coverage)):
        raise InputError(
            f"Expected at least {2 * least} rows, of which half are measured on, to choose a score, but {where} has "
            f"{reading.n}. Say which to use, such as --method lac."
        )
    comparison = None if method is not None else _compare(part, options)
    chosen = method or (comparison.best if comparison else "lac")
    measured_sets = fit_sets(part, chosen, **options)
    sets = fit_sets(fitted, chosen, **options) if in_halves else measured_sets
    tested = where if test is None else name_of(test)
    if not in_halves:
        _check_other_rows(audited, rows, reading, tested, where, behind)
    sums = SetSums(sets.n_classes)
    for each in rows_of(audited, tested):
        some = each.half(1) if in_halves else each
        sums.add(measured_sets.sets(logits=some.logits), some.labels, some.weights, some.groups)
    sampled = reading.n - len(fitted.labels)
    drawn = f"Thresholds rest on {len(fitted.labels):,} rows drawn at random." if sampled else ""
    return FittedSets(
        file=where,
        took=rows.took,
        sets=sets,
        comparison=comparison,
        measures=sums.measures(measured_sets, level=level, weights_are=audited.weights_are),
        measured_sets=measured_sets,
        measured_on=_measured_on(in_halves, tested, audited, part),
        n=reading.n,
        origin=Origin.of_rows(where, reading),
        fitted_to={
            "n_classes": sets.n_classes,
            "class_names": list(rows.class_names),
            "scores": list(rows.columns[0]),
            "kind": rows.kind,
        },
        notes=tuple(filter(None, (*sets.notes, *rows.notes, drawn))),
        doubts=reading.doubts,
    )


def _check_source(rows: Source, where: str) -> None:
    check_form(rows.form)
    if rows.split == "test":
        raise SplitError(
            f"Expected rows to fit sets on, but {where} holds a test set only ({rows.took}). Fit on the calibration "
            "set, or rename the arrays to logits and labels if no test depends on them."
        )


def _calibrator(
    given: Calibrator | Path | str | None, reading: Reading, where: str
) -> tuple[Calibrator | None, Origin | None]:
    """Read a calibrator, and refuse one that was fitted on these rows: scores of them would be too good."""
    if given is None or isinstance(given, Calibrator):
        return given, None
    fitted, about = load(given), load_about(given)
    origin = Origin.of(about["fitted_rows"], Path(given).name) if "fitted_rows" in about else None
    if origin is not None and origin.holds(reading):
        raise SplitError(
            f"Expected a calibrator that was fitted on other rows than the sets, but {Path(given).name} was fitted on "
            f"{where}: rows would no longer be exchangeable with new ones. Divide them into two files."
        )
    n_classes = about.get("fitted_to", {}).get("n_classes", reading.n_classes)
    if n_classes != reading.n_classes:
        raise InputError(
            f"Expected a calibrator for {reading.n_classes} classes, but {Path(given).name} was fitted on {n_classes}. "
            "Fit one on predictions of the same model."
        )
    return fitted, origin


def _compare(part: Predictions, options: dict[str, Any]) -> SetsComparison:
    few = max(100, COMPARED_VALUES // part.logits.shape[1])
    return compare_sets(part.rows(slice(few)), **options)


def _check_other_rows(
    audited: Source, rows: Source, reading: Reading, tested: str, where: str, behind: Origin | None
) -> None:
    """Refuse to measure on the rows that sets, or the calibrator before them, were fitted on."""
    check_form(audited.form)
    names = FittedTo(reading.n_classes, rows.class_names, (), None, "that the sets were fitted on")
    check_classes(audited.class_names, names, tested)
    new = read(replace(audited, notes=()), n_bins=15, where=tested, sampled_values=0)
    if new.n_classes != reading.n_classes:
        raise InputError(
            f"Expected {reading.n_classes} classes in {tested}, as in {where}, but it has {new.n_classes}. Use "
            "predictions of the same model."
        )
    for origin, what in ((Origin.of_rows(where, reading), "sets"), (behind, "calibrator")):
        if origin is not None and origin.holds(new):
            raise SplitError(
                f"Expected other rows to measure on than the {what} {'were' if what == 'sets' else 'was'} fitted on, "
                f"but {tested} holds those very rows: coverage would flatter. Pass other predictions."
            )


def _measured_on(in_halves: bool, tested: str, audited: Source, part: Predictions) -> str:
    if in_halves:
        fitted = f"with sets fitted on {len(part.labels):,} rows"
        return f"the other half of {tested}, {fitted}; those to use are fitted on all rows"
    return f"{tested}, {audited.took}"
