"""Repair a file with a saved calibrator: with labels it is scored before and after, without it is repaired only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import numpy as np
import torch

from surefoot.auditing._labels import Array
from surefoot.auditing._names import Kind
from surefoot.auditing._others import Others, others_of
from surefoot.auditing._paths import find_files
from surefoot.auditing._positive import choose_positive
from surefoot.auditing._readers import TABLES, read_table, table_suffix
from surefoot.auditing._reading import OnRows, Reading, read, walk
from surefoot.auditing._scores import FittedTo, Scores, find_scores, has_labels
from surefoot.auditing._source import Source
from surefoot.auditing._told import Told
from surefoot.auditing._writers import Layout, check_format, open_sink
from surefoot.auditing.audit import choose_one
from surefoot.auditing.calibrate import Origin
from surefoot.auditing.files import files_of, open_predictions
from surefoot.calibrators import Calibrator, load, load_about
from surefoot.errors import InputError, SplitError
from surefoot.metrics import Stream
from surefoot.metrics.bootstrap import bootstrap_sums
from surefoot.metrics.interval import Interval
from surefoot.records import check_output


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
        **told: What names and values do not tell; see :class:`~surefoot.auditing._told.Told`.

    Returns:
        ECE and NLL before and after, where there are labels.

    Raises:
        SplitError: If the calibrator was fitted on these very rows.
        InputError: If it is for other classes.
    """
    fitted, about = load(calibrator), load_about(calibrator)
    path, out, where = _whole(Path(path).expanduser()), Path(out), Path(path).name
    check_format(out)
    check_output(out, [*files_of(path, told.get("labels")), calibrator])
    to = FittedTo.of(about.get("fitted_to"))
    source = _labelled(path, model, told)
    if source is None:
        return _apply_unlabelled(
            fitted, find_scores(path, to, told.get("kind"), model, tuple(told.get("scores", ()))), to, path, out
        )
    _check_form(source)
    _check_classes(source.class_names, to, where)
    reading = read(source, n_bins=15, where=where, sampled_values=0, on_rows=on_rows)
    rows = about.get("fitted_rows")
    if rows is not None and Origin.of(rows, Path(calibrator).name).holds(reading):
        raise SplitError(
            f"Expected other rows than the calibrator was fitted on, but {where} holds those very rows: its scores "
            "would flatter. Apply it to other predictions."
        )
    _check_number(fitted, to, reading.logits[:1])
    return _apply_labelled(fitted, source, reading, path, out, on_rows)


def _whole(path: Path) -> Path:
    """Refuse several files of arrays, of which none names rows that others go on with; tables are read as one."""
    found = find_files(path)
    if len(found.paths) > 1 and found.suffix not in TABLES:
        raise InputError(
            f"Expected one file, or tables that are read as one, but got {found.name} of {found.suffix}. Repair each by "
            "itself."
        )
    return path if len(found.paths) > 1 else found.paths[0]


def _labelled(path: Path, model: str | None, told: Told) -> Source | None:
    """Open a file that has labels; None for one that has not."""
    if told.get("labels") is None:
        if path.suffix == ".npy":
            try:
                return choose_one(open_predictions(path, **told), model, path.name)[0]
            except InputError:  # no labels beside it, or those of other rows
                return None
        if (path.suffix == ".npz" or table_suffix(path) in TABLES) and not has_labels(path):
            return None
    return choose_one(open_predictions(path, **told), model, path.name)[0]


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


def _check_classes(class_names: tuple[str, ...], to: FittedTo, where: str) -> None:
    """Refuse classes in another order, where names tell: each would get another one's repair."""
    if class_names and to.class_names and class_names != to.class_names and len(class_names) == len(to.class_names):
        raise InputError(
            f"Expected the classes {', '.join(to.class_names[:6])} in this order, which the calibrator was fitted to, "
            f"but {where} has {', '.join(class_names[:6])}. Bring them into one order."
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
    shape, where = (reading.n, reading.n_classes), path.name
    column, of = _column(source.class_names, shape[1], where)
    bins, losses = Stream("ece" if column is None else "classwise_ece"), 0.0
    columns, labels_name = source.columns
    kind = None if source.percent else source.kind or "logits"
    layout = _layout(path, out, columns, kind, _names(source.class_names, shape[1]))
    others = Others(others_of(path, reading.n, _left_out(out, columns, labels_name, layout)))
    is_table = table_suffix(path) in TABLES
    with open_sink(out, shape, source.class_names, layout) as sink:
        for rows, truth in walk(source, where, on_rows):
            log_p = torch.from_numpy(fitted.logits(rows.numpy())).log_softmax(1)
            bins.update(log_p.exp(), truth)
            losses -= log_p.gather(1, truth[:, None]).sum().item()
            # A table keeps its own label column when it is written as a table.
            kept = None if is_table and out.suffix != ".npz" else truth.numpy()
            sink.add(log_p.numpy(), kept, others.take(len(truth)))
    before = reading.bins.sums if column is None else reading.class_bins.sums[:, column]
    after = bins.sums if column is None else bins.sums[:, column]
    return Applied(
        file=where,
        took=source.took,
        calibrator=fitted.name,
        n=reading.n,
        of=of,
        means=(before[1].sum().item() / reading.n, after[1].sum().item() / reading.n),
        before=CalibrationScores(bootstrap_sums("ece", before), reading.values["nll"].mean),
        after=CalibrationScores(bootstrap_sums("ece", after), losses / reading.n),
        notes=(*reading.doubts, *source.notes),
    )


def _column(class_names: tuple[str, ...], n_classes: int, where: str) -> tuple[int | None, str]:
    """Choose what to look at: of two classes the positive one, whose risk the confidence would hide."""
    if n_classes != 2:
        return None, "confidence"
    positive = choose_positive(class_names, None, where)
    return positive.index, f"P({positive.name})"


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
    layout = _layout(path, out, scores.columns, kind, _names(to.class_names, n_classes))
    others = Others(others_of(path, n, _left_out(out, scores.columns, "", layout)))
    with open_sink(out, (n, n_classes), to.class_names, layout) as sink:
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


def _names(class_names: tuple[str, ...], n_classes: int) -> tuple[str, ...]:
    return class_names or tuple(map(str, range(n_classes)))


def _layout(path: Path, out: Path, columns: tuple[str, ...], kind: Kind | None, names: tuple[str, ...]) -> Layout:
    """Keep the layout of a table that becomes a table, unless it was in percent; else a column of shares per class."""
    plain = Layout(tuple(f"prob_{name}" for name in names), "probs")
    if table_suffix(path) not in TABLES or not columns or kind is None:
        return plain
    if len(columns) > 1:
        return Layout(columns, kind)
    if not _is_list(path, columns[0]):
        return Layout(columns, kind)
    return plain if table_suffix(out) in (".csv", ".tsv") else Layout(columns, kind, lists=True)


def _is_list(path: Path, column: str) -> bool:
    with closing(read_table(path)(1, (column,), ())) as reading:
        first, _ = next(reading)
    return np.ndim(first[column][0]) > 0


def _left_out(out: Path, columns: tuple[str, ...], labels: str, layout: Layout) -> set[str]:
    """Leave out what is written anew: the labels too, where they become numbers in an array."""
    if out.suffix == ".npz":
        return {*columns, labels}
    return set() if layout.names == columns else set(columns)
