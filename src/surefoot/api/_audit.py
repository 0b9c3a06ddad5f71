"""Can these predictions be trusted?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from surefoot.api._audit_report import AuditReport
from surefoot.errors import InputError

LOGITS = "The scores are logits, where names and values do not tell."
PROBS = "The scores are probabilities, where names and values do not tell."
PERCENT = "The scores are probabilities in percent."
SCORES = "Array or column with the scores; again for a column per class. Default: by their names."
LABELS = "Column or array with the true classes, or a file of their own. Default: by its name."
WEIGHTS = "Column or array that says how much a row counts. Default: the only one called weight or sample_weight."
WEIGHTS_ARE = (
    "What weights are: importance (default), how much a row represents; or counts, for how many rows it stands."
)
SKIP_MISSING = "Leave rows with a gap in a score, the label or the weight out, and say how many."
HEADER = "The first line of a .csv holds names, or does not. Default: by its cells."
LABELS_ARE = (
    "What labels mean, where it could be two things: class numbers from-0 or from-1, or names. Says also that the file "
    "is right as it is."
)
RISK = "Share of wrong answers that is allowed, such as 0.02: finds the confidence above which to act. Or 0.01,0.05."
FORM = (
    "What rows are: multiclass, multilabel, choices (of their own in every row) or confidence (and whether it was "
    "right). Default: by names and values."
)
NORMALISE = "Of lm-evaluation-harness: log-likelihoods as they are (none), or by length or bytes of the choice."
IGNORE_INDEX = "Label of tokens or pixels that do not count. Default: -100."
CLASS_AXIS = "Which axis is that of the classes, where shapes do not tell: 1 of (B, C, H, W), -1 of (B, T, V)."
SCORE_OF = "Of two classes with one score per row, the name of the one whose score it is. Default: by names."
ENGINE = "Who reads: local, this process; or ray, a cluster, in parts of the files, with the same answer."
ADDRESS = "Of the Ray cluster: auto, host:6379, ray://host:10001; local for a new one. Default: RAY_ADDRESS, else here."
MODEL = "Which model, where a file holds several."


def audit(
    source: Any = None,
    *others: Any,
    logits: Annotated[bool | Any, LOGITS] = False,
    probs: Annotated[bool | Any, PROBS] = False,
    percent: Annotated[bool, PERCENT] = False,
    scores: Annotated[str | Sequence[str], SCORES] = (),
    labels: Annotated[str | Any | None, LABELS] = None,
    labels_are: Annotated[str | None, LABELS_ARE] = None,
    group: Annotated[
        str | Sequence[str] | Mapping[str, Any],
        "Column that divides the rows into slices; can be given again. age:4 in four parts, sex*age crossed.",
    ] = (),
    form: Annotated[str | None, FORM] = None,
    normalise: Annotated[str | None, NORMALISE] = None,
    ignore_index: Annotated[int | None, IGNORE_INDEX] = None,
    class_axis: Annotated[int | None, CLASS_AXIS] = None,
    weights: Annotated[str | Any | None, WEIGHTS] = None,
    weights_are: Annotated[str | None, WEIGHTS_ARE] = None,
    skip_missing: Annotated[bool, SKIP_MISSING] = False,
    header: Annotated[bool | None, HEADER] = None,
    model: Annotated[str | None, MODEL] = None,
    positive: Annotated[
        str | int | None, "Of two classes, the one whose probability is the risk. Default: by name, else 1."
    ] = None,
    bins: Annotated[int, "Bins of confidence."] = 15,
    level: Annotated[float, "Level of the intervals."] = 0.95,
    metrics: Annotated[
        str | Sequence[str] | None, "What to show: ece,nll,brier; ece:n_bins=30; your own as module:function."
    ] = None,
    risk: Annotated[str | float | Sequence[float] | None, RISK] = None,
    engine: Annotated[str, ENGINE] = "local",
    address: Annotated[str | None, ADDRESS] = None,
    jobs: Annotated[int | None, "With --engine ray: how many parts are read at once. Default: all cores."] = None,
    class_names: Sequence[str] = (),
    names: Sequence[str] = (),
    on_rows: Callable[[int, float | None], None] | None = None,
) -> AuditReport:
    """Return whether predictions can be trusted, with error bars, and what would repair them.

    Args:
        source: The path of a file; a folder, a pattern or a list of files that are read as one; a DataFrame, or arrays
            by name; batches, which are pairs of logits and labels; or left out, with ``probs`` or ``logits`` as arrays.
            Or a model, which is run once over a loader.
        *others: More with predictions for the same examples: two are compared, more are ranked. Beside a model, the
            loader.
        logits: Logits, one row per example; or True: the scores in the source are logits.
        probs: Likewise probabilities.
        percent: The scores are probabilities in percent.
        scores: The array or columns with the scores, where their names do not tell.
        labels: The true classes, beside ``probs`` or ``logits``; or the name of their column.
        labels_are: ``from-0``, ``from-1`` or ``names``, where labels could be two things.
        group: Columns that divide the rows into slices, ``"age:4"`` in parts, ``"sex*age"`` crossed; or, for what is in
            memory, arrays by name: ``{"sex": sex, "sex*age": (sex, age)}``.
        weights: How much each row counts, beside ``probs`` or ``logits``; or the name of the column. False: all count
            alike, whatever columns there are.
        weights_are: ``importance``, how much a row represents, or ``counts``, for how many independent rows it stands.
        skip_missing: Leave rows with a gap in a score, the label or the weight out, instead of refusing them.
        header: Whether the first line of a ``.csv`` holds names; None: its cells tell.
        form: ``multiclass``, ``multilabel``, ``choices`` or ``confidence``, where names and values do not tell.
        normalise: Of files of lm-evaluation-harness ``none``, ``length`` or ``bytes``.
        ignore_index: The label of tokens or pixels that do not count; −100 where nothing is said.
        class_axis: Of arrays with more than two axes that of the classes, where shapes do not tell.
        model: Audit this one only, of several in a file.
        positive: Of two classes, the name or number of the one whose probability is the risk.
        bins: Bins of confidence.
        level: Level of the intervals.
        metrics: What to show beside the verdict; else the usual measures.
        risk: Shares of wrong answers that are allowed: the report's ``threshold`` is the confidence above which to act.
        engine: ``local``, this process; or ``ray``: a cluster reads files in parts, and the answer is the same.
        address: Of the Ray cluster: ``auto``, ``host:6379``, ``ray://host:10001``, or ``local`` for a new one on this
            machine alone. Left out: ``RAY_ADDRESS``, else one that runs here, else a new one.
        jobs: With ``ray``, how many parts are read at once; else as many as there are cores.
        class_names: One per class, beside ``probs`` or ``logits``.
        names: What to call several sources; else as their files.
        on_rows: Called while reading, with the rows read and their share of all.

    Returns:
        The report: ``print`` it, show it in a notebook, or take ``verdict``, ``measures``, ``to_frame()``,
        ``groups_frame()``, ``to_json()`` and ``save(path)``.

    Raises:
        InputError: If the predictions cannot be read or do not tell what they are.

    Example:
        >>> import surefoot as sf
        >>> report = sf.audit(probs=[[0.9, 0.1], [0.8, 0.2]] * 50, labels=[0, 1] * 50)
        >>> report.verdict.accuracy.estimate, round(report.verdict.gap.estimate, 4)
        (0.5, 0.35)
    """
    from surefoot.auditing import audit_several, open_engine
    from surefoot.sources import is_path

    if is_model(source):
        from surefoot.sources import hold_outputs

        if len(others) != 1:
            raise InputError(
                f"Expected one loader beside the model, but got {len(others)}. Pass sf.audit(model, loader)."
            )
        source, others = hold_outputs(source, others[0], class_names, on_rows), ()
    source, told = read_source(
        *(source, logits, probs, percent, scores, labels, labels_are, group, class_names),
        weights=weights,
        weights_are=weights_are,
        skip_missing=skip_missing,
        header=header,
    )
    told |= read_form(form, normalise, ignore_index, class_axis)
    options: dict[str, Any] = {**told, "model": model, "positive": None if positive is None else str(positive)}
    options |= {"n_bins": bins, "level": level, "metrics": metrics, "risk": risk, "on_rows": on_rows}
    sources = [source, *map(in_memory, others)]
    if engine != "local" and not all(map(is_path, sources)):
        raise InputError(
            f"Expected files that all machines reach with engine={engine!r}, but got predictions in memory. Pass paths "
            "or addresses, or leave the engine out."
        )
    with open_engine(engine, address, jobs) as walker:
        found = audit_several(*sources, names=names, engine=walker, **options)
    return AuditReport(found.audits, found.comparison, found.ranking)


def read_source(
    source: Any,
    logits: Any,
    probs: Any,
    percent: bool,
    scores: str | Sequence[str],
    labels: Any,
    labels_are: str | None,
    group: Any = (),
    class_names: Sequence[str] = (),
    *,
    weights: Any = None,
    weights_are: str | None = None,
    skip_missing: bool = False,
    header: bool | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Return the predictions, and what was said about them as the auditing room takes it.

    Raises:
        InputError: If there are none, or several things are said at once.
    """
    from surefoot.sources import check_counting, check_meaning

    arrays = {name: value for name, value in (("logits", logits), ("probs", probs)) if not isinstance(value, bool)}
    said = [name for name, value in (("logits", logits), ("probs", probs), ("percent", percent)) if value is True]
    kinds = {"probs" if kind == "percent" and "probs" in arrays else kind for kind in (*arrays, *said)}
    if len(kinds) > 1 or len(said) > 1:
        raise InputError("Expected one of --logits, --probs and --percent, but got two. Leave one out.")
    meaning = None if labels_are is None else check_meaning(labels_are, "--labels-are")
    names = (scores,) if isinstance(scores, str) else tuple(scores)
    groups = (group,) if isinstance(group, str) else tuple(group)
    told = {"kind": said[0] if said else None, "scores": names, "labels": labels, "labels_are": meaning}
    told |= {"groups": groups} if groups else {}
    if weights_are is not None:
        told["weights_are"] = check_counting(weights_are, "--weights-are")
    told |= {"skip_missing": True} if skip_missing else {}
    told |= {"header": header} if header is not None else {}
    given = weights is not None and not isinstance(weights, str | bool)
    if weights is not None and not given:
        told["weights"] = weights
    if not arrays:
        if given:
            raise InputError("Expected weights= as an array beside probs= or logits=. Else name their column.")
        if source is None:
            raise InputError("Expected predictions, but got none. Pass a file, a DataFrame, or probs= and labels=.")
        return with_arrays(in_memory(source), group), told
    if source is not None or labels is None:
        raise InputError(
            "Expected probs= or logits= with labels= and nothing else, or a file or DataFrame. Pass one of these."
        )
    (name,) = arrays
    told |= {"kind": said[0] if said else name, "scores": (name,), "labels": "labels"}
    held = {name: arrays[name], "labels": labels}
    if given:
        held, told = {**held, "weights": weights}, {**told, "weights": "weights"}
    return with_arrays(hold_arrays(held, class_names), group), told


def read_form(
    form: str | None, normalise: str | None = None, ignore_index: int | None = None, class_axis: int | None = None
) -> dict[str, Any]:
    """Return what was said about the form of predictions, as the auditing room takes it.

    Raises:
        InputError: If there is no such form, or no such way to normalise.
    """
    from surefoot.sources import check_form, check_normalise

    said = {
        "form": None if form is None else check_form(form, "--form"),
        "normalise": None if normalise is None else check_normalise(normalise),
        "ignore_index": ignore_index,
        "class_axis": class_axis,
    }
    return {key: value for key, value in said.items() if value is not None}


def in_memory(source: Any) -> Any:
    """Read what is in memory once; a path stays a path, and so do several that are read as one."""
    from surefoot.sources import hold, is_batches, is_path

    return source if is_path(source) or is_batches(source) else hold(source)


def is_model(source: Any) -> bool:
    """Return whether predictions are to be made: by a module of torch, which nobody has who has not imported it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, torch.nn.Module)


def with_arrays(source: Any, group: Any) -> Any:
    """Put arrays that divide the rows beside predictions in memory.

    Raises:
        InputError: If the predictions are in a file, or there is not one array for each name.
    """
    from surefoot.sources import is_path, with_columns

    if not isinstance(group, Mapping) or not group:
        return source
    if is_path(source):
        raise InputError(
            "Expected names of columns as group= beside a file, but got arrays. Name columns of the file, or pass the "
            "predictions as arrays too."
        )
    columns: dict[str, Any] = {}
    for name, values in group.items():
        crossed = name.split("*") if "*" in name and isinstance(values, tuple) else [name]
        parts = values if len(crossed) > 1 else (values,)
        if len(crossed) != len(parts):
            raise InputError(f"Expected {len(crossed)} arrays for the group {name!r}, but got {len(parts)}.")
        columns |= {each.strip().partition(":")[0]: part for each, part in zip(crossed, parts, strict=True)}
    return with_columns(source, columns)


def hold_arrays(arrays: Mapping[str, Any], class_names: Sequence[str]) -> Any:
    """Read arrays by name, with the names of the classes."""
    from surefoot.sources import hold

    return hold({**arrays, "class_names": list(class_names)} if class_names else arrays)
