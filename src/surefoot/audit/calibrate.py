"""Fit a calibrator on a file of predictions, say which one and why, and apply a saved one to another file."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from surefoot.audit._kind import Said
from surefoot.audit._labels import Array, Meaning
from surefoot.audit._reading import OnRows, Reading, read, walk
from surefoot.audit._source import Source
from surefoot.audit.audit import choose_one
from surefoot.audit.files import files_of, open_predictions
from surefoot.audit.result import plain
from surefoot.calibrators import Calibrator, load, load_about
from surefoot.calibrators.compare import Comparison, compare_calibrators
from surefoot.errors import InputError, SplitError
from surefoot.metrics import Stream
from surefoot.metrics.bootstrap import Interval, bootstrap_sums
from surefoot.records import check_output
from surefoot.registry import CALIBRATORS
from surefoot.schema import LABELS_ARE, Predictions

COMPARED_VALUES = 4_000_000  # rows × classes on which all calibrators are compared
FITTED_VALUES = 20_000_000  # on which the chosen one is fitted


@dataclass(frozen=True)
class Origin:
    """The rows that a calibrator was fitted on, so that it is not scored on them."""

    file: str
    rows: int
    labels: str
    nll: float

    @staticmethod
    def of(values: Any, where: str) -> Origin:
        """Read it back."""
        try:
            return Origin(str(values["file"]), int(values["rows"]), str(values["labels"]), float(values["nll"]))
        except (TypeError, KeyError, ValueError) as error:
            raise InputError(
                f"Expected file, rows, labels and nll under about.fitted_rows, but got {values!r} in {where}. "
                "Fit it again."
            ) from error

    def holds(self, reading: Reading) -> bool:
        """Say whether these are the same rows, whatever the file's format."""
        same = (self.rows, self.labels) == (reading.n, reading.labels_digest)
        return same and math.isclose(self.nll, _finite_mean(reading), rel_tol=1e-4, abs_tol=1e-9)


@dataclass(frozen=True)
class Fitted:
    """All calibrators compared, and the chosen one, fitted."""

    file: str
    took: str
    comparison: Comparison
    calibrator: Calibrator | None
    n: int
    compared_on: int
    origin: Origin
    notes: tuple[str, ...] = ()

    def use(self) -> str:
        """Say in one line which calibrator to use and why."""
        best, reason = self.comparison.best, self.comparison.reason.rstrip(".")
        if self.calibrator is None:
            return f"use none: {reason}"
        if self.calibrator.name == best:
            return f"use {best}: {reason}"
        return f"{self.calibrator.name} as you said, but {reason}"

    def to_json(self) -> dict[str, Any]:
        """Write the comparison for machines."""
        values: dict[str, Any] = plain({
            "use": self.use(),
            "file": self.file,
            "took": self.took,
            "n": self.n,
            "compared_on": self.compared_on,
            "n_folds": self.comparison.n_folds,
            "best": self.comparison.best,
            "calibrator": self.calibrator.name if self.calibrator else None,
            "candidates": [asdict(each) for each in self.comparison.candidates],
            "left_out": list(self.comparison.left_out),
            "notes": list(self.notes),
        })
        return values

    def save(self, path: Path) -> None:
        """Write the calibrator, and with it a fingerprint of the rows that it was fitted on."""
        if self.calibrator is None:
            raise InputError("Expected a calibrator to save, but nothing is to be repaired. Choose one with --method.")
        path.parent.mkdir(parents=True, exist_ok=True)
        self.calibrator.save(path, about={"fitted_rows": asdict(self.origin)})


@dataclass(frozen=True)
class Scores:
    """How far off some predictions are: ECE as a fraction, NLL in nats."""

    ece: Interval
    nll: float


@dataclass(frozen=True)
class Applied:
    """What a saved calibrator did to rows that it was not fitted on."""

    file: str
    took: str
    calibrator: str
    n: int
    before: Scores
    after: Scores
    notes: tuple[str, ...] = ()


def check_saving(path: Path) -> None:
    """Refuse a name that no calibrator can be saved under, before the long work starts."""
    if path.suffix not in (".json", ".safetensors"):
        raise InputError(f"Expected --out to end in .json or .safetensors, but got {path.name!r}. Choose one.")


def calibrate(
    path: Path | str,
    *,
    method: str | None = None,
    kind: Said | None = None,
    labels: str | None = None,
    scores: Sequence[str] = (),
    labels_are: Meaning | None = None,
    model: str | None = None,
    n_folds: int = 5,
    on_rows: OnRows | None = None,
) -> Fitted:
    """Compare calibrators by cross-validation and fit the one to use.

    Args:
        path: The file. Of a file with a calibration and a test set, the calibration set is used.
        method: Fit this one, whatever the others do.
        kind: Logits, probabilities or percent, where names and values do not tell.
        labels: The labels' file, array or column, where names do not tell.
        scores: The scores' array or columns, where names do not tell.
        labels_are: Class numbers ``from-0`` or ``from-1``, or ``names``, where labels could be two things.
        model: Which one, where the file holds several.
        n_folds: Into how many parts the rows are divided to compare.
        on_rows: Called while reading.

    Returns:
        The comparison and the calibrator.

    Raises:
        SplitError: If the file holds test rows only.
    """
    wanted = CALIBRATORS[method].name if method is not None else None
    where = Path(path).name
    found = open_predictions(path, kind=kind, labels=labels, scores=scores, labels_are=labels_are)
    audited, held_out = choose_one(found, model, where)
    source = held_out or audited
    if source.split == "test":
        raise SplitError(
            f"Expected rows to fit on, but {where} holds a test set only ({source.took}). Fit on the calibration set, "
            "or rename the arrays to logits and labels if no test depends on them."
        )
    reading = read(source, n_bins=15, where=where, sampled_values=FITTED_VALUES, on_rows=on_rows)
    if len(reading.labels) < 2 * n_folds:
        raise InputError(f"Expected at least {2 * n_folds} rows to compare on, but {where} has {reading.n}. Give more.")
    few = max(2 * n_folds, COMPARED_VALUES // reading.n_classes)
    compared = Predictions(reading.logits[:few], reading.labels[:few], "calibration")
    comparison = compare_calibrators(compared, [wanted] if wanted else None, n_folds=n_folds)
    chosen = wanted or comparison.best
    calibrator = comparison.calibrator
    if chosen != comparison.best or len(compared.labels) < len(reading.labels):
        whole = Predictions(reading.logits, reading.labels, "calibration")
        calibrator = CALIBRATORS[chosen].build(whole) if chosen in CALIBRATORS else None
    origin = Origin(where, reading.n, reading.labels_digest, _finite_mean(reading))
    notes = (*reading.doubts, *source.notes)
    return Fitted(where, source.took, comparison, calibrator, reading.n, len(compared.labels), origin, notes)


def apply(
    calibrator: Path | str,
    path: Path | str,
    out: Path | str,
    *,
    kind: Said | None = None,
    labels: str | None = None,
    scores: Sequence[str] = (),
    labels_are: Meaning | None = None,
    model: str | None = None,
    on_rows: OnRows | None = None,
) -> Applied:
    """Repair another file with a saved calibrator, row by row, and score it.

    Args:
        calibrator: A ``.json`` or ``.safetensors`` file.
        path: The file to repair; of a file with a calibration and a test set, the test set.
        out: The ``.npz`` file to write: logits, labels and class names.
        kind: Logits, probabilities or percent, where names and values do not tell.
        labels: The labels' file, array or column, where names do not tell.
        scores: The scores' array or columns, where names do not tell.
        labels_are: Class numbers ``from-0`` or ``from-1``, or ``names``, where labels could be two things.
        model: Which one, where the file holds several.
        on_rows: Called while reading.

    Returns:
        ECE and NLL before and after.

    Raises:
        SplitError: If the calibrator was fitted on these very rows.
        InputError: If it is for another number of classes.
    """
    fitted, out, where = load(calibrator), Path(out), Path(path).name
    if out.suffix != ".npz":
        raise InputError(
            f"Expected --out to end in .npz, but got {out.name!r}. Repaired predictions are saved as .npz."
        )
    check_output(out, [*files_of(path, labels), calibrator])
    found = open_predictions(path, kind=kind, labels=labels, scores=scores, labels_are=labels_are)
    source, _ = choose_one(found, model, where)
    reading = read(source, n_bins=15, where=where, sampled_values=0, on_rows=on_rows)
    rows = load_about(calibrator).get("fitted_rows")
    if rows is not None and Origin.of(rows, Path(calibrator).name).holds(reading):
        raise SplitError(
            f"Expected other rows than the calibrator was fitted on, but {where} holds those very rows: its scores "
            "would flatter. Apply it to other predictions."
        )
    try:
        fitted.logits(reading.logits[:1])
    except (RuntimeError, ValueError, IndexError) as error:
        raise InputError(
            f"Expected a calibrator for {reading.n_classes} classes, but {Path(calibrator).name} was fitted on another "
            f"number of them. Fit one on predictions of the same model."
        ) from error
    bins, nll = _write(out, source, reading, fitted, where, on_rows)
    before = Scores(bootstrap_sums("ece", reading.bins.sums), reading.moments["nll"].mean)
    after = Scores(bootstrap_sums("ece", bins.sums), nll)
    notes = (*reading.doubts, *source.notes)
    return Applied(where, source.took, fitted.name, reading.n, before, after, notes)


def _write(
    out: Path, source: Source, reading: Reading, fitted: Calibrator, where: str, on_rows: OnRows | None
) -> tuple[Stream, float]:
    """Write repaired rows one chunk after the other, aside first, and score them on the way."""
    bins, losses, labels = Stream("ece"), 0.0, []
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        with zipfile.ZipFile(aside, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            shape = (reading.n, reading.n_classes)
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            with archive.open("logits.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array_header_1_0(file, header)
                for rows, truth in walk(source, where, on_rows):
                    repaired = fitted.logits(rows.numpy())
                    log_p = torch.from_numpy(repaired).log_softmax(1)
                    bins.update(log_p.exp(), truth)
                    losses -= log_p.gather(1, truth[:, None]).sum().item()
                    labels.append(truth.numpy())
                    file.write(np.ascontiguousarray(log_p.numpy(), "<f4").tobytes())
            for name, values in _rest(labels, source):
                with archive.open(f"{name}.npy", "w") as file:
                    np.lib.format.write_array(file, values, allow_pickle=False)
        aside.replace(out)
    finally:
        aside.unlink(missing_ok=True)
    return bins, losses / reading.n


def _rest(labels: list[Array], source: Source) -> Iterator[tuple[str, Array]]:
    yield "labels", np.concatenate(labels)
    yield LABELS_ARE, np.array("from-0")  # whatever the classes are called
    if source.class_names:
        yield "class_names", np.array(source.class_names)


def _finite_mean(reading: Reading) -> float:
    mean = reading.moments["nll"].mean
    return mean if math.isfinite(mean) else -1.0
