"""Write the prediction set of every row of a file beside it: with labels it is measured too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from surefoot.auditing._applying import check_classes, layout_of, left_out, names_of, open_labelled, whole
from surefoot.auditing._reading import OnRows
from surefoot.auditing._set_rows import rows_of
from surefoot.auditing._walking import read
from surefoot.auditing.calibrate import Origin
from surefoot.auditing.result import plain
from surefoot.errors import InputError, SplitError
from surefoot.places import place, written
from surefoot.prediction_sets import PredictionSets, SetMeasures, SetSums, load_sets, load_sets_about
from surefoot.records import check_output
from surefoot.sources.files import files_of
from surefoot.sources.labels import Array
from surefoot.sources.names import Kind
from surefoot.sources.others import Others, others_of
from surefoot.sources.readers import TABLES, table_suffix
from surefoot.sources.scores import FittedTo, Scores, find_scores
from surefoot.sources.source import Source
from surefoot.sources.told import Told
from surefoot.sources.writers import check_format, open_sink

ADDED = ("set", "set_size")


@dataclass(frozen=True)
class AppliedSets:
    """What sets of new rows look like."""

    file: str
    took: str
    method: str
    coverage: float
    n: int
    mean_size: float
    singletons: float
    empty: float
    sizes: tuple[tuple[int, float], ...]
    measures: SetMeasures | None
    """How often they hold the true class; None where the file has no labels."""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Write it for machines: fractions, null for what is not defined."""
        found: dict[str, Any] = plain(asdict(self))
        return found


def apply_sets(
    sets: Path | str,
    path: Path | str,
    out: Path | str,
    *,
    model: str | None = None,
    trust: bool = False,
    on_rows: OnRows | None = None,
    **told: Unpack[Told],
) -> AppliedSets:
    """Add a set to every row of a file: columns ``set`` and ``set_size``, and all others as they were.

    Args:
        sets: A ``.json`` file.
        path: The file; of one with a calibration and a test set, the test set.
        out: The file to write; its ending says the format. An ``.npz`` gets an array ``sets``, True for the classes in
            the set, and ``set_size``.
        model: Which one, where the file holds several.
        trust: Import a score of others that the sets name.
        on_rows: Called while reading.
        **told: What names and values do not tell; see :class:`~surefoot.sources.told.Told`.

    Returns:
        How large sets are and, where there are labels, how often they hold the true class.

    Raises:
        SplitError: If the sets were fitted on these very rows.
        InputError: If they are for other classes.
    """
    fitted, about = load_sets(sets, trust=trust), load_sets_about(sets, trust=trust)
    path, out, where = whole(place(path)), place(out), place(path).name
    check_format(out)
    check_output(out, [*files_of(path, told.get("labels")), sets])
    to = FittedTo.of(
        {"n_classes": fitted.n_classes, "class_names": fitted.class_names, **about.get("fitted_to", {})},
        "that the sets were fitted on",
    )
    source = open_labelled(path, model, told)
    if source is None:
        scores = find_scores(path, to, told.get("kind"), model, tuple(told.get("scores", ())))
        n = _checked(scores, fitted, where)
        kind = None if scores.percent else scores.kind
        found = _Found(path, n, scores.columns, "", kind, to.class_names)
        sizes = _write(fitted, found, ((logits, None) for logits in scores.logits(where)), out)
        return _applied(fitted, where, scores.took, sizes, None)
    check_classes(source.class_names, to, where)
    reading = read(source, n_bins=15, where=where, sampled_values=0, on_rows=on_rows)
    _check_number(reading.n_classes, fitted)
    if "fitted_rows" in about and Origin.of(about["fitted_rows"], Path(sets).name).holds(reading):
        raise SplitError(
            f"Expected other rows than the sets were fitted on, but {where} holds those very rows: coverage would "
            "flatter. Apply them to other predictions."
        )
    sums = SetSums(fitted.n_classes)
    kind = None if source.percent else source.kind
    found = _Found(path, reading.n, *source.columns, kind, source.class_names)
    sizes = _write(fitted, found, _measured(fitted, source, where, sums), out)
    return _applied(
        fitted,
        where,
        source.took,
        sizes,
        sums.measures(fitted, weights_are=source.weights_are),
        notes=(*reading.doubts, *source.notes),
    )


def _checked(scores: Scores, fitted: PredictionSets, where: str) -> int:
    """Look at all rows before one is written."""
    n = 0
    for logits in scores.logits(where):
        _check_number(logits.shape[1], fitted)
        n += len(logits)
    if not n:
        raise InputError(f"Expected at least one row, but {where} has none. Check the file.")
    return n


def _check_number(n_classes: int, fitted: PredictionSets) -> None:
    if n_classes != fitted.n_classes:
        raise InputError(
            f"Expected sets for {n_classes} classes, but these were fitted on {fitted.n_classes}. Fit sets on "
            "predictions of the same model."
        )


def _measured(
    fitted: PredictionSets, source: Source, where: str, sums: SetSums
) -> Iterator[tuple[Array, Array | None]]:
    for rows in rows_of(source, where):
        sums.add(fitted.sets(logits=rows.logits), rows.labels, rows.weights, rows.groups)
        yield rows.logits, rows.labels


@dataclass(frozen=True)
class _Found:
    """A file to add sets to: its rows, the names of its scores and labels, and of its classes."""

    path: Path
    n: int
    columns: tuple[str, ...]
    labels: str
    kind: Kind | None
    class_names: tuple[str, ...]


def _write(fitted: PredictionSets, found: _Found, rows: Iterable[tuple[Array, Array | None]], out: Path) -> Array:
    """Write all rows, and return how many sets there are of each size."""
    stays = table_suffix(found.path) in TABLES and table_suffix(out) in TABLES  # all columns as they were
    called = names_of(found.class_names or fitted.class_names, fitted.n_classes)
    layout = None if stays else layout_of(found.path, out, found.columns, found.kind, called)
    leave = set() if layout is None else left_out(out, found.columns, found.labels, layout)
    others = Others(others_of(found.path, found.n, leave))
    sizes = np.zeros(fitted.n_classes + 1)
    with written(out) as here, open_sink(here, (found.n, fitted.n_classes), found.class_names, layout) as sink:
        for logits, truth in rows:
            inside = fitted.sets(logits=logits)
            sizes += np.bincount(inside.sum(1), minlength=len(sizes))
            log_p = torch.from_numpy(logits).log_softmax(1).numpy()
            taken = others.take(len(logits))
            _check_free(taken, out)
            sink.add(log_p, None if stays else truth, taken, _more(inside, logits, called, out))
    return sizes


def _more(inside: Array, logits: Array, called: Sequence[str], out: Path) -> Mapping[str, Sequence[Any]]:
    if out.suffix == ".npz":
        return {"sets": inside, "set_size": inside.sum(1)}
    order = np.argsort(-logits, axis=1, kind="stable")
    chosen = np.take_along_axis(inside, order, axis=1)
    named = [[called[k] for k in row[kept]] for row, kept in zip(order, chosen, strict=True)]
    return {"set": named, "set_size": inside.sum(1).tolist()}


def _check_free(columns: Mapping[str, Sequence[Any]], out: Path) -> None:
    added = ("sets", "set_size") if out.suffix == ".npz" else ADDED
    if taken := [name for name in added if name in columns]:
        raise InputError(f"Expected no column {taken[0]!r}, which is added, but the file has one. Rename it.")


def _applied(
    fitted: PredictionSets,
    where: str,
    took: str,
    sizes: Array,
    measures: SetMeasures | None,
    notes: tuple[str, ...] = (),
) -> AppliedSets:
    n = int(sizes.sum())
    return AppliedSets(
        file=where,
        took=took,
        method=fitted.method,
        coverage=fitted.coverage,
        n=n,
        mean_size=float(sizes @ np.arange(len(sizes)) / n),
        singletons=float(sizes[1] / n),
        empty=float(sizes[0] / n),
        sizes=tuple((k, float(count / n)) for k, count in enumerate(sizes) if count),
        measures=measures,
        notes=(*fitted.notes, *notes),
    )
