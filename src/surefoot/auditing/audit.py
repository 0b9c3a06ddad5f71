"""Can these predictions be trusted? Every number with an interval, and what would repair them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

from surefoot.auditing._asked import Asked
from surefoot.auditing._engine import HERE, Engine
from surefoot.auditing._finished import finish_audit
from surefoot.auditing._reading import ALWAYS, OnRows, Reading
from surefoot.auditing._slicing import slicing_of
from surefoot.auditing.audit_labels import audit_labels
from surefoot.auditing.result import Audit
from surefoot.errors import InputError
from surefoot.sources.files import name_of, open_predictions
from surefoot.sources.names import Split
from surefoot.sources.source import Source
from surefoot.sources.told import Told

_WANTED: tuple[Split, ...] = ("test", "", "calibration", "train")  # the first that a model has is audited


def audit(
    source: Any,
    *,
    model: str | None = None,
    positive: str | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    metrics: str | Sequence[str] | None = None,
    risk: str | float | Sequence[float] | None = None,
    on_rows: OnRows | None = None,
    engine: Engine = HERE,
    **told: Unpack[Told],
) -> list[Audit]:
    """Audit a file of predictions, reading it in pieces, or predictions in memory.

    Where a file holds a calibration (or validation) and a test set, the test set is audited and repaired by what
    was fitted on the other. Else the temperature is fitted on one half of the rows and scored on the other half.

    Args:
        source: The file, or what is in memory; see :func:`~surefoot.sources.files.open_predictions`.
        model: Audit this one only, of several in the file.
        positive: Of two classes, the name or number of the one whose probability is the risk.
        n_bins: Number of bins.
        level: Of the intervals.
        metrics: What to show beside the verdict, such as ``"ece,nll,brier"``; else the usual measures.
        risk: Shares of wrong answers that are allowed: finds the confidence above which to act.
        on_rows: Called while reading, with the rows read and their share of the file.
        engine: Who walks through the rows; else this process.
        **told: What names and values do not tell; see :class:`~surefoot.sources.told.Told`.

    Returns:
        One audit per model in the file.
    """
    told["score_of"] = positive
    sources = open_predictions(source, **told)
    name = name_of(source)
    found = choose(sources, model, name)
    if any(pair[0].form == "multilabel" for pair in found):
        check_labels_options(name, told, positive, risk)
        return [audit_labels(*pair, name, n_bins, level, on_rows, metrics, engine) for pair in found]
    return [audit_source(*pair, name, n_bins, level, on_rows, positive, metrics, risk, engine)[0] for pair in found]


def check_labels_options(where: str, told: Told, positive: str | None, risk: Any) -> None:
    """Refuse what has no meaning where rows have several labels.

    Args:
        where: The file, for messages.
        told: What was said about the source.
        positive: A class whose probability is a risk.
        risk: Shares of wrong answers that are allowed.

    Raises:
        InputError: If any of it was asked for.
    """
    if risk is not None:
        raise InputError(
            f"Expected one answer per row with --risk, but {where} has several labels per row, whose errors depend on "
            "each other. Audit one label on its own."
        )
    if told.get("groups") or positive is not None:
        raise InputError(f"Expected no --group or --positive with several labels per row in {where}. Leave it out.")


def choose(sources: Sequence[Source], model: str | None, where: str) -> list[tuple[Source, Source | None]]:
    """Choose for each model what to audit, and a calibration set to fit on if there is one.

    Args:
        sources: All that a file holds.
        model: This one only.
        where: The file, for messages.

    Returns:
        Pairs of the two.

    Raises:
        InputError: If there is no such model.
    """
    names = list(dict.fromkeys(source.model for source in sources))
    if model is not None and model.lower() not in names:
        known = ", ".join(filter(None, names)) or "one without a name"
        raise InputError(f"Expected a model in {where}, but got {model!r}. It holds {known}.")
    pairs = []
    for name in names if model is None else [model.lower()]:
        splits = {source.split: source for source in sources if source.model == name}
        audited = next(splits[split] for split in _WANTED if split in splits)
        held_out = splits.get("calibration") if audited.split in ("test", "") else None
        pairs.append((audited, held_out))
    return pairs


def choose_one(sources: Sequence[Source], model: str | None, where: str) -> tuple[Source, Source | None]:
    """Choose what to audit where it must be one model.

    Args:
        sources: All that a file holds.
        model: This one.
        where: The file, for messages.

    Returns:
        What to audit, and a calibration set if there is one.

    Raises:
        InputError: If there are several and none was chosen.
    """
    pairs = choose(sources, model, where)
    if len(pairs) > 1:
        names = ", ".join(source.model or "one without a name" for source, _ in pairs)
        raise InputError(f"Expected one model, but {where} holds {names}. Say --model NAME.")
    return pairs[0]


def audit_source(
    source: Source,
    held_out: Source | None,
    file: str,
    n_bins: int,
    level: float,
    on_rows: OnRows | None,
    positive: str | None = None,
    metrics: str | Sequence[str] | None = None,
    risk: str | float | Sequence[float] | None = None,
    engine: Engine = HERE,
) -> tuple[Audit, Reading]:
    """Audit one model.

    Args:
        source: What to audit.
        held_out: Its calibration set, if the file has one.
        file: Name of the file.
        n_bins: Number of bins.
        level: Of the intervals.
        on_rows: Called while reading.
        positive: Of two classes, the one whose probability is the risk.
        metrics: What to show; else the usual measures.
        risk: Shares of wrong answers that are allowed.
        engine: Walks through the rows.

    Returns:
        The audit, and what was read.
    """
    asked = Asked(n_bins, level, positive, metrics, risk)
    asked.check(source, file)
    slicing = slicing_of(source, engine)
    reading = engine.walk(source, asked.step(source, file, slicing), on_rows).finish(source)
    fitted = None
    if held_out is not None:
        also = slicing if asked.risks and held_out.groups == source.groups else None
        fitted = engine.walk(held_out, replace(asked, metrics=ALWAYS).step(held_out, file, also)).finish(held_out)
    return finish_audit(source, held_out, reading, fitted, slicing.notes, asked, file, on_rows, engine), reading
