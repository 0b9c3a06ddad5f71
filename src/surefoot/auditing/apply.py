"""Repair a file with a saved calibrator: with labels it is scored before and after, without it is repaired only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import torch
from torch import Tensor

from surefoot.auditing._applying import check_classes, layout_of, left_out, names_of, open_labelled, whole
from surefoot.auditing._counted import ValueSums
from surefoot.auditing._reading import OnRows, Reading
from surefoot.auditing._walking import read, walk
from surefoot.auditing.calibrate import Origin
from surefoot.calibrators import Calibrator, load, load_about
from surefoot.errors import InputError, SplitError
from surefoot.metrics import Stream
from surefoot.metrics._weights import sums_as
from surefoot.metrics.bootstrap import bootstrap_sums
from surefoot.metrics.interval import Interval
from surefoot.places import place, written
from surefoot.records import check_output
from surefoot.sources.files import files_of
from surefoot.sources.labels import Array
from surefoot.sources.others import Others, others_of
from surefoot.sources.positive import choose_positive
from surefoot.sources.readers import TABLES, table_suffix
from surefoot.sources.scores import FittedTo, Scores, find_scores
from surefoot.sources.source import Source
from surefoot.sources.told import Told
from surefoot.sources.writers import check_format, open_sink


@dataclass(frozen=True)
class CalibrationScores:
    """How far off some predictions are: ECE of what ``Applied.of`` names as a fraction, NLL in nats."""

    ece: Interval
    nll: float


@dataclass(frozen=True)
class Applied:
    """What a saved calibrator did to rows that it was not fitted on."""

    file: str
    took: str
    calibrator: str
    n: int
    of: str
    """Whose probability is looked at: the confidence, or of two classes that of the positive one."""
    means: tuple[float, float]
    """Its mean before and after."""
    before: CalibrationScores | None
    """None, as ``after``, where the file has no labels to score by."""
    after: CalibrationScores | None
    notes: tuple[str, ...] = ()
    """What a reader must know about the file."""


def apply(
    calibrator: Path | str,
    path: Path | str,
    out: Path | str,
    *,
    model: str | None = None,
    on_rows: OnRows | None = None,
    **told: Unpack[Told],
) -> Applied:
    """Repair another file with a saved calibrator, row by row, and score it where it has labels.

    Args:
        calibrator: A ``.json`` or ``.safetensors`` file.
        path: The file to repair; of a file with a calibration and a test set, the test set.
        out: The file to write; its ending says the format. What else the file has, such as ids, is kept.
        model: Which one, where the file holds several.
        on_rows: Called while reading.
        **told: What names and values do not tell; see :class:`~surefoot.sources.told.Told`.

    Returns:
        ECE and NLL before and after, where there are labels.

    Raises:
        SplitError: If the calibrator was fitted on these very rows.
        InputError: If it is for other classes.
    """
    fitted, about = load(calibrator), load_about(calibrator)
    path, out, where = whole(place(path)), place(out), place(path).name
    check_format(out)
    check_output(out, [*files_of(path, told.get("labels")), calibrator])
    to = FittedTo.of(about.get("fitted_to"))
    source = open_labelled(path, model, told)
    if source is None:
        return _apply_unlabelled(
            fitted, find_scores(path, to, told.get("kind"), model, tuple(told.get("scores", ()))), to, path, out
        )
    _check_form(source)
    check_classes(source.class_names, to, where)
    reading = read(source, n_bins=15, where=where, sampled_values=0, on_rows=on_rows)
    rows = about.get("fitted_rows")
    if rows is not None and Origin.of(rows, Path(calibrator).name).holds(reading):
        raise SplitError(
            f"Expected other rows than the calibrator was fitted on, but {where} holds those very rows: its scores "
            "would flatter. Apply it to other predictions."
        )
    _check_number(fitted, to, reading.logits[:1])
    return _apply_labelled(fitted, source, reading, path, out, on_rows)


def _check_form(source: Source) -> None:
    """Refuse what has no place for repaired scores of classes."""
    if source.tokens:
        raise InputError(
            f"Expected scores (n, classes) to repair, but those in {source.where} have more axes. Repair arrays in "
            "Python: load_calibrator(path).logits(logits)."
        )
    if source.form != "multiclass":
        raise InputError(
            f"Expected scores of classes to repair, but {source.where} holds {source.form}. Repair arrays in Python: "
            "load_calibrator(path).logits(logits)."
        )


def _check_number(fitted: Calibrator, to: FittedTo, row: Array) -> None:
    n = row.shape[1]
    wrong = to.n_classes is not None and to.n_classes != n
    try:
        fitted.logits(row)
    except (RuntimeError, ValueError, IndexError):
        wrong = True
    if wrong:
        raise InputError(
            f"Expected a calibrator for {n} classes, but this one was fitted on "
            f"{to.n_classes or 'another number of them'}. Fit one on predictions of the same model."
        )


def _apply_labelled(
    fitted: Calibrator, source: Source, reading: Reading, path: Path, out: Path, on_rows: OnRows | None
) -> Applied:
    shape, where = (reading.stored, reading.n_classes), path.name
    column, of = _column(source.class_names, shape[1], where)
    bins, losses = Stream("ece" if column is None else "classwise_ece"), ValueSums()
    columns, labels_name = source.columns
    kind = None if source.percent else source.kind or "logits"
    layout = layout_of(path, out, columns, kind, names_of(source.class_names, shape[1]))
    others = Others(others_of(path, shape[0], left_out(out, columns, labels_name, layout)))
    is_table = table_suffix(path) in TABLES
    with written(out) as here, open_sink(here, shape, source.class_names, layout) as sink:
        for rows, truth, weights, _ in walk(source, where, on_rows, as_stored=True):
            log_p = torch.from_numpy(fitted.logits(rows.numpy())).log_softmax(1)
            bins.update(log_p.exp(), truth, weights)
            losses.add(-log_p.gather(1, truth[:, None]).squeeze(1), weights)
            # A table keeps its own label column when it is written as a table.
            kept = None if is_table and out.suffix != ".npz" else truth.numpy()
            sink.add(log_p.numpy(), kept, others.take(len(truth)))
    before = reading.bins.sums if column is None else reading.class_bins.sums[:, column]
    after = sums_as(bins.sums if column is None else bins.sums[:, column], source.weights_are)
    return Applied(
        file=where,
        took=source.took,
        calibrator=fitted.name,
        n=reading.stored,
        of=of,
        means=(_mean(before), _mean(after)),
        before=CalibrationScores(bootstrap_sums("ece", before), reading.values["nll"].mean),
        after=CalibrationScores(bootstrap_sums("ece", after), losses.mean),
        notes=(*reading.doubts, *source.notes),
    )


def _column(class_names: tuple[str, ...], n_classes: int, where: str) -> tuple[int | None, str]:
    """Choose what to look at: of two classes the positive one, whose risk the confidence would hide."""
    if n_classes != 2:
        return None, "confidence"
    positive = choose_positive(class_names, None, where)
    return positive.index, f"P({positive.name})"


def _mean(sums: Tensor) -> float:
    """Return the mean of what was added up in bins."""
    return (sums[1].sum() / sums[0].sum()).item()


def _apply_unlabelled(fitted: Calibrator, scores: Scores, to: FittedTo, path: Path, out: Path) -> Applied:
    where = path.name
    n, before, n_classes = 0, 0.0, 0
    for logits in scores.logits(where):  # all rows are looked at before one is written
        if not n:
            _check_number(fitted, to, logits[:1])
        n, n_classes = n + len(logits), logits.shape[1]
        column, of = _column(to.class_names, n_classes, where)
        before += _total(logits, column)
    if not n:
        raise InputError(f"Expected at least one row, but {where} has none. Check the file.")
    after = 0.0
    kind = None if scores.percent else scores.kind
    layout = layout_of(path, out, scores.columns, kind, names_of(to.class_names, n_classes))
    others = Others(others_of(path, n, left_out(out, scores.columns, "", layout)))
    with written(out) as here, open_sink(here, (n, n_classes), to.class_names, layout) as sink:
        for repaired in _repaired(fitted, scores, where):
            after += _total(repaired, column)
            sink.add(repaired, None, others.take(len(repaired)))
    return Applied(where, scores.took, fitted.name, n, of, (before / n, after / n), None, None)


def _repaired(fitted: Calibrator, scores: Scores, where: str) -> Iterator[Array]:
    for logits in scores.logits(where):
        log_p: Array = torch.from_numpy(fitted.logits(logits)).log_softmax(1).numpy()
        yield log_p


def _total(logits: Array, column: int | None) -> float:
    probs = torch.from_numpy(logits).softmax(1)
    return (probs.amax(1) if column is None else probs[:, column]).sum().item()
