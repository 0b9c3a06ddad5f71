"""Fit a calibrator on a file of predictions, and say which one and why."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

from surefoot.auditing._reading import OnRows, Reading
from surefoot.auditing._walking import read
from surefoot.auditing.audit import choose_one
from surefoot.auditing.result import plain
from surefoot.calibrators import Calibrator, fit
from surefoot.calibrators.compare import NONE, CalibratorComparison, OnStep, compare_calibrators, show_gain
from surefoot.calibrators.none import Unchanged
from surefoot.errors import InputError, SplitError
from surefoot.places import written
from surefoot.registry import CALIBRATORS
from surefoot.sources.files import name_of, open_predictions
from surefoot.sources.forms import CALIBRATORS_OF, check_calibrator
from surefoot.sources.told import Told

COMPARED_VALUES = 200_000  # rows × classes on which all calibrators are compared
LEAST_COMPARED = 2_000  # rows, where there are more classes
MOST_COMPARED_VALUES = 1_000_000  # but of very many classes no more rows × classes than this
FEWEST_COMPARED = 100  # rows, however many classes there are
FITTED_VALUES = 4_000_000  # rows × classes on which the chosen one is fitted


@dataclass(frozen=True)
class Origin:
    """The rows that a calibrator, or a prediction set, was fitted on, so that it is not scored on them."""

    file: str
    rows: int
    labels: str
    nll: float

    @staticmethod
    def of(values: Any, where: str) -> Origin:
        """Read it back."""
        try:
            return Origin(str(values["file"]), int(values["rows"]), str(values["labels"]), float(values["nll"]))
        except (TypeError, KeyError, ValueError, OverflowError) as error:
            raise InputError(
                f"Expected file, rows, labels and nll under about.fitted_rows, but got {values!r} in {where}. "
                "Fit it again."
            ) from error

    @staticmethod
    def of_rows(file: str, reading: Reading) -> Origin:
        """Take the fingerprint of rows that were read."""
        return Origin(file, reading.n, reading.labels_digest, _finite_mean(reading))

    def holds(self, reading: Reading) -> bool:
        """Return whether these are the same rows, whatever the file's format."""
        # A fingerprint of another length was taken by an earlier version: then rows and NLL tell.
        known = len(self.labels) == len(reading.labels_digest)
        same = self.rows == reading.n and (self.labels == reading.labels_digest or not known)
        return same and math.isclose(self.nll, _finite_mean(reading), rel_tol=1e-4, abs_tol=1e-9)


@dataclass(frozen=True)
class Fitted:
    """All calibrators compared, and the chosen one, fitted."""

    file: str
    took: str
    comparison: CalibratorComparison
    chosen: str
    calibrator: Calibrator
    """The one to use; where nothing is to be repaired, one that changes nothing."""
    n: int
    n_classes: int
    compared_on: int
    origin: Origin
    fitted_to: dict[str, Any]
    """Names and kind of the scores, so that others without labels can be recognised."""
    notes: tuple[str, ...] = ()

    def use(self) -> str:
        """Say in one line which calibrator to use and why."""
        best, name = self.comparison.best, self.chosen
        if name == best:
            return f"use {best}: {self.comparison.reason.rstrip('.')}"
        found = {each.name: each for each in self.comparison.candidates}
        if name == NONE:
            return f"none as you said, but {self.comparison.reason.rstrip('.')}"
        if name not in found:
            return f"{name} as you said, though it has more parameters than there are rows to judge it by"
        says = (
            f"{name} as you said, but on rows that it was not fitted on it brings the NLL from "
            f"{found[NONE].nll:.4f} to {found[name].nll:.4f}"
        )
        if found[name].change < 0:
            return f"{says}, a gain of {show_gain(found[name])}: that may be chance, so better leave them as they are"
        return f"{says}: better leave the predictions as they are"

    def to_json(self) -> dict[str, Any]:
        """Write the comparison for machines."""
        values: dict[str, Any] = plain({
            "use": self.use(),
            "file": self.file,
            "took": self.took,
            "n": self.n,
            "n_classes": self.n_classes,
            "compared_on": self.compared_on,
            "n_folds": self.comparison.n_folds,
            "best": self.comparison.best,
            "calibrator": self.calibrator.name,
            "candidates": [asdict(each) for each in self.comparison.candidates],
            "left_out": dict(self.comparison.left_out),
            "notes": list(self.notes),
        })
        return values

    def save(self, path: Path | str) -> None:
        """Write the calibrator, and with it a fingerprint of the rows that it was fitted on."""
        with written(path) as here:
            here.parent.mkdir(parents=True, exist_ok=True)
            self.calibrator.save(here, about={"fitted_rows": asdict(self.origin), "fitted_to": self.fitted_to})


def check_saving(path: Path) -> None:
    """Refuse a name that no calibrator can be saved under, before the long work starts."""
    if path.suffix not in (".json", ".safetensors"):
        raise InputError(f"Expected --out to end in .json or .safetensors, but got {path.name!r}. Choose one.")


def calibrate(
    source: Any,
    *,
    method: str | None = None,
    model: str | None = None,
    n_folds: int = 5,
    on_rows: OnRows | None = None,
    on_step: OnStep | None = None,
    **told: Unpack[Told],
) -> Fitted:
    """Compare calibrators by cross-validation and fit the one to use.

    Args:
        source: The file, or predictions in memory. Of a calibration and a test set, the calibration set is used.
        method: Fit this one, whatever the others do.
        model: Which one, where the file holds several.
        n_folds: Into how many parts the rows are divided to compare.
        on_rows: Called while reading.
        on_step: Called before every fit.
        **told: What names and values do not tell; see :class:`~surefoot.sources.told.Told`.

    Returns:
        The comparison and the calibrator.

    Raises:
        SplitError: If the file holds test rows only.
    """
    wanted = method
    if method not in (None, NONE):
        CALIBRATORS.parse(method)  # raises where there is none, before the file is read
    where = name_of(source)
    found = open_predictions(source, **told)
    audited, held_out = choose_one(found, model, where)
    rows = held_out or audited
    if rows.split == "test":
        raise SplitError(
            f"Expected rows to fit on, but {where} holds a test set only ({rows.took}). Fit on the calibration set, "
            "or rename the arrays to logits and labels if no test depends on them."
        )
    if rows.form == "multilabel":
        raise InputError(
            f"Expected one true class per row to fit on, but {where} has several. Fit every label by itself: its "
            "scores as 'prob' and 1 or 0 as 'label'."
        )
    if method is not None:
        check_calibrator(method, rows.form)
    reading = read(rows, n_bins=15, where=where, sampled_values=FITTED_VALUES, on_rows=on_rows)
    if len(reading.labels) < 2 * n_folds:
        raise InputError(f"Expected at least {2 * n_folds} rows to compare on, but {where} has {reading.n}. Give more.")
    every = reading.predictions()
    compared = every.rows(slice(_rows_compared(every.logits.shape[1])))
    names = [wanted] if wanted is not None and wanted != NONE else CALIBRATORS_OF.get(rows.form)
    comparison = compare_calibrators(compared, names, n_folds=n_folds, on_step=on_step)
    chosen, calibrator = wanted or comparison.best, comparison.calibrator
    if chosen == NONE:
        calibrator = Unchanged("calibration")
    elif calibrator is None or chosen != comparison.best or len(compared.labels) < len(reading.labels):
        calibrator = fit(chosen, every)
    return Fitted(
        file=where,
        took=rows.took,
        comparison=comparison,
        chosen=chosen,
        calibrator=calibrator,
        n=reading.n,
        n_classes=reading.n_classes,
        compared_on=len(compared.labels),
        origin=Origin.of_rows(where, reading),
        fitted_to={
            "n_classes": reading.n_classes,
            "class_names": list(rows.class_names),
            "scores": list(rows.columns[0]),
            "kind": rows.kind,
        },
        notes=(*reading.doubts, *rows.notes),
    )


def _rows_compared(n_classes: int) -> int:
    """Return on how many rows calibrators are compared, so that it takes seconds.

    Example:
        >>> [_rows_compared(n) for n in (10, 100, 1_000, 20_000)]
        [20000, 2000, 1000, 100]
    """
    wide = max(FEWEST_COMPARED, MOST_COMPARED_VALUES // n_classes)
    return min(max(LEAST_COMPARED, COMPARED_VALUES // n_classes), wide)


def _finite_mean(reading: Reading) -> float:
    mean = reading.values["nll"].mean
    return mean if math.isfinite(mean) else -1.0
