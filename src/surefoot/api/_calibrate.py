"""Calibrators: chosen by cross-validation, put behind a model or saved for files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, overload

from surefoot.api._audit import (
    CLASS_AXIS,
    FORM,
    HEADER,
    IGNORE_INDEX,
    LABELS,
    LABELS_ARE,
    LOGITS,
    MODEL,
    NORMALISE,
    PERCENT,
    PROBS,
    SCORE_OF,
    SCORES,
    SKIP_MISSING,
    WEIGHTS,
    WEIGHTS_ARE,
    read_form,
    read_source,
)
from surefoot.errors import InputError
from surefoot.places import place

if TYPE_CHECKING:
    from torch import nn

    from surefoot.auditing import Applied, Fitted
    from surefoot.calibrated import CalibratedModel
    from surefoot.calibrators import Calibrator

    OnRows = Callable[[int, float | None], None]
    OnStep = Callable[[int, int, str], None]


@overload
def calibrate(
    source: nn.Module,
    loader: Iterable[Any],
    *,
    method: str | None = None,
    folds: int = 5,
    on_step: OnStep | None = None,
) -> CalibratedModel: ...


@overload
def calibrate(
    source: Any = None,
    *,
    method: str | None = None,
    folds: int = 5,
    logits: Any = False,
    probs: Any = False,
    percent: bool = False,
    scores: str | Sequence[str] = (),
    labels: Any = None,
    labels_are: str | None = None,
    form: str | None = None,
    normalise: str | None = None,
    ignore_index: int | None = None,
    class_axis: int | None = None,
    weights: Any = None,
    weights_are: str | None = None,
    skip_missing: bool = False,
    header: bool | None = None,
    model: str | None = None,
    positive: str | None = None,
    on_rows: OnRows | None = None,
    on_step: OnStep | None = None,
) -> Fitted: ...


def calibrate(
    source: Any = None,
    loader: Iterable[Any] | None = None,
    *,
    method: Annotated[str | None, "Fit this calibrator, whatever the others do."] = None,
    folds: Annotated[int, "Parts of the rows, each scored by what was fitted on the others."] = 5,
    logits: Annotated[bool | Any, LOGITS] = False,
    probs: Annotated[bool | Any, PROBS] = False,
    percent: Annotated[bool, PERCENT] = False,
    scores: Annotated[str | Sequence[str], SCORES] = (),
    labels: Annotated[str | Any | None, LABELS] = None,
    labels_are: Annotated[str | None, LABELS_ARE] = None,
    form: Annotated[str | None, FORM] = None,
    normalise: Annotated[str | None, NORMALISE] = None,
    ignore_index: Annotated[int | None, IGNORE_INDEX] = None,
    class_axis: Annotated[int | None, CLASS_AXIS] = None,
    weights: Annotated[str | Any | None, WEIGHTS] = None,
    weights_are: Annotated[str | None, WEIGHTS_ARE] = None,
    skip_missing: Annotated[bool, SKIP_MISSING] = False,
    header: Annotated[bool | None, HEADER] = None,
    model: Annotated[str | None, MODEL] = None,
    positive: Annotated[str | None, SCORE_OF] = None,
    on_rows: OnRows | None = None,
    on_step: OnStep | None = None,
) -> CalibratedModel | Fitted:
    """Compare all calibrators by cross-validation and fit the one to use.

    Args:
        source: A model; or predictions to fit on: a file, a DataFrame, arrays by name.
        loader: Pairs of inputs and labels that the model was not trained on; not the test split.
        method: Fit this calibrator, whatever the others do.
        folds: Parts of the rows, each scored by what was fitted on the others.
        logits: Logits to fit on, one row per example; or True: the scores in the source are logits.
        probs: Likewise probabilities.
        percent: The scores are probabilities in percent.
        scores: The array or columns with the scores, where their names do not tell.
        labels: The true classes, beside ``probs`` or ``logits``; or the name of their column.
        labels_are: ``from-0``, ``from-1`` or ``names``, where labels could be two things.
        form: ``multiclass``, ``multilabel``, ``choices`` or ``confidence``, where names and values do not tell.
        normalise: Of files of lm-evaluation-harness ``none``, ``length`` or ``bytes``.
        ignore_index: The label of tokens or pixels that do not count; −100 where nothing is said.
        class_axis: Of arrays with more than two axes that of the classes, where shapes do not tell.
        weights: How much each row counts, as an array or the name of a column; False: all count alike.
        weights_are: ``importance``, how much a row represents, or ``counts``, for how many independent rows it stands.
        skip_missing: Leave rows with a gap out, instead of refusing them.
        header: Whether the first line of a ``.csv`` holds names; None: its cells tell.
        model: Which one, where a file holds several.
        positive: Of two classes with one score per row, the name of the one whose score it is.
        on_rows: Called while reading.
        on_step: Called before every fit: how many are done, of how many, and the calibrator that comes next.

    Returns:
        Of a model, one that takes its place: the same inputs, calibrated logits, with ``calibrator`` and ``report``.
        Of predictions, the report: which calibrator to use and why; ``save(path)`` keeps it.

    Raises:
        SplitError: If the rows are those of a test split.
        InputError: If there is nothing to fit on.
    """
    from torch import nn

    from surefoot.auditing import calibrate as fit
    from surefoot.calibrated import CalibratedModel
    from surefoot.outputs import collect_logits

    if isinstance(source, nn.Module):
        if loader is None:
            raise InputError("Expected a loader of held-out pairs beside the model, but got none. Pass one.")
        report = fit(collect_logits(source, loader), method=method, n_folds=folds, on_rows=on_rows, on_step=on_step)
        return CalibratedModel(source, report)
    if loader is not None:
        raise InputError(
            f"Expected a model beside the loader, but got a {type(source).__name__}. Pass a torch.nn.Module."
        )
    source, told = read_source(
        *(source, logits, probs, percent, scores, labels, labels_are),
        weights=weights,
        weights_are=weights_are,
        skip_missing=skip_missing,
        header=header,
    )
    told |= {**read_form(form, normalise, ignore_index, class_axis), "score_of": positive}
    return fit(source, method=method, n_folds=folds, model=model, on_rows=on_rows, on_step=on_step, **told)


def repair(
    source: Path | str,
    calibrator: Path | str,
    out: Path | str,
    *,
    logits: bool = False,
    probs: bool = False,
    percent: bool = False,
    scores: str | Sequence[str] = (),
    labels: str | None = None,
    labels_are: str | None = None,
    form: str | None = None,
    normalise: str | None = None,
    ignore_index: int | None = None,
    class_axis: int | None = None,
    weights: str | bool | None = None,
    weights_are: str | None = None,
    skip_missing: bool = False,
    header: bool | None = None,
    model: str | None = None,
    positive: str | None = None,
    on_rows: OnRows | None = None,
) -> Applied:
    """Repair a file of predictions with a saved calibrator; never the rows that it was fitted on.

    Args:
        source: The file.
        calibrator: As ``calibrate(...).save(path)`` wrote it.
        out: The file to write.
        logits: The scores are logits, where names and values do not tell.
        probs: Likewise probabilities.
        percent: The scores are probabilities in percent.
        scores: The array or columns with the scores, where their names do not tell.
        labels: The array or column of labels, where its name does not tell.
        labels_are: ``from-0``, ``from-1`` or ``names``, where labels could be two things.
        form: ``multiclass``, ``multilabel``, ``choices`` or ``confidence``, where names and values do not tell.
        normalise: Of files of lm-evaluation-harness ``none``, ``length`` or ``bytes``.
        ignore_index: The label of tokens or pixels that do not count; −100 where nothing is said.
        class_axis: Of arrays with more than two axes that of the classes, where shapes do not tell.
        weights: How much each row counts, by the name of a column; False: all count alike.
        weights_are: ``importance``, how much a row represents, or ``counts``, for how many independent rows it stands.
        skip_missing: Leave rows with a gap out, instead of refusing them.
        header: Whether the first line of a ``.csv`` holds names; None: its cells tell.
        model: Which one, where a file holds several.
        positive: Of two classes with one score per row, the name of the one whose score it is.
        on_rows: Called while reading.

    Returns:
        What it did to the probabilities, scored where there are labels.
    """
    from surefoot.auditing import apply

    source, told = read_source(
        *(source, logits, probs, percent, scores, labels, labels_are),
        weights=weights,
        weights_are=weights_are,
        skip_missing=skip_missing,
        header=header,
    )
    told |= {**read_form(form, normalise, ignore_index, class_axis), "score_of": positive}
    return apply(place(calibrator), source, place(out), model=model, on_rows=on_rows, **told)


def load_calibrator(path: Path | str) -> Calibrator:
    """Read a calibrator that was saved.

    Args:
        path: A ``.json`` or ``.safetensors`` file.

    Returns:
        The calibrator: ``logits(array)`` and ``probs(array)`` repair, ``module()`` goes behind a network.
    """
    from surefoot.calibrators import load

    return load(path)
