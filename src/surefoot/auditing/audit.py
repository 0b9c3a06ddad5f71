"""Can these predictions be trusted? Every number with an interval, and what would repair them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

import torch

from surefoot.auditing._confidence_counts import ConfidenceCounts
from surefoot.auditing._confidence_repair import of_confidence
from surefoot.auditing._counted import weight_notes
from surefoot.auditing._forms import MOST_CLASSES
from surefoot.auditing._measures import BESIDE_RISK, IN_TABLE, by_chance, measure, wanted
from surefoot.auditing._names import Split
from surefoot.auditing._reading import OnRows, Reading, read
from surefoot.auditing._repair import repair
from surefoot.auditing._slices import judge_slices
from surefoot.auditing._slicing import slicing_of
from surefoot.auditing._source import Source
from surefoot.auditing._told import Told
from surefoot.auditing._two_classes import two_classes
from surefoot.auditing.audit_labels import audit_labels
from surefoot.auditing.files import name_of, open_predictions
from surefoot.auditing.result import Audit
from surefoot.auditing.thresholds import find_thresholds, risks_of
from surefoot.errors import InputError
from surefoot.metrics.aurc import risk_coverage
from surefoot.metrics.verdict import verdict_of_sums

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
    **told: Unpack[Told],
) -> list[Audit]:
    """Audit a file of predictions, reading it in pieces, or predictions in memory.

    Where a file holds a calibration (or validation) and a test set, the test set is audited and repaired by what
    was fitted on the other. Else the temperature is fitted on one half of the rows and scored on the other half.

    Args:
        source: The file, or what is in memory; see :func:`~surefoot.auditing.files.open_predictions`.
        model: Audit this one only, of several in the file.
        positive: Of two classes, the name or number of the one whose probability is the risk.
        n_bins: Number of bins.
        level: Of the intervals.
        metrics: What to show beside the verdict, such as ``"ece,nll,brier"``; else the usual measures.
        risk: Shares of wrong answers that are allowed: finds the confidence above which to act.
        on_rows: Called while reading, with the rows read and their share of the file.
        **told: What names and values do not tell; see :class:`~surefoot.auditing._told.Told`.

    Returns:
        One audit per model in the file.
    """
    told["score_of"] = positive
    sources = open_predictions(source, **told)
    name = name_of(source)
    found = choose(sources, model, name)
    if any(pair[0].form == "multilabel" for pair in found):
        check_labels_options(name, told, positive, risk)
        return [audit_labels(*pair, name, n_bins, level, on_rows, metrics) for pair in found]
    return [audit_source(*pair, name, n_bins, level, on_rows, positive, metrics, risk)[0] for pair in found]


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

    Returns:
        The audit, and what was read.

    Raises:
        InputError: If the options make no sense for these predictions.
    """
    if n_bins < 1 or not 0 < level < 1:
        raise InputError(f"Expected bins ≥ 1 and a level between 0 and 1, but got {n_bins} and {level}.")
    if source.form == "multilabel":
        raise InputError(f"Expected one true class per row to compare, but {file} has several. Audit them one by one.")
    keys, risks = wanted(metrics, source.form, source.n_classes), risks_of(risk)
    slicing = slicing_of(source)
    counts, other = (_counts(each) if risks and each is not None else None for each in (source, held_out))
    reading = read(source, n_bins=n_bins, where=file, metrics=keys, on_rows=on_rows, slicing=slicing, counts=counts)
    also = slicing if risks and held_out is not None and held_out.groups == source.groups else None
    fitted = None if held_out is None else read(held_out, n_bins=n_bins, where=file, slicing=also, counts=other)
    is_two = reading.n_classes == 2 and source.form == "multiclass"
    if positive is not None and not is_two:
        found_classes = f"{reading.n_classes}" if source.form == "multiclass" else source.form
        raise InputError(f"Expected two classes with --positive, but {file} has {found_classes}. Leave it out.")
    two = None
    if is_two:
        names = source.class_names
        two = two_classes(reading, fitted, names, positive=positive, n_bins=n_bins, level=level, where=file)
    found, why = repair(source, reading, fitted, n_bins=n_bins, level=level, where=file, on_rows=on_rows)
    class_sums = reading.class_bins.sums if reading.by_class else None
    verdict = verdict_of_sums(reading.bins.sums, class_sums, level=level)
    if two is not None:
        verdict = replace(verdict, finding=two.finding)
        if two.temperature is None or not two.temperature.repairs:  # it would repair the confidence, not the risk
            found, why = None, two.why_no_repair or f"a temperature does not repair P({two.positive.name})"
    of_sure = None
    if source.form == "confidence":
        of_sure = of_confidence(reading, fitted, verdict, n_bins=n_bins, level=level)
    known = {each.metric: each for each in (verdict.accuracy, verdict.gap, verdict.ece)}
    ranked = len(reading.confidence)
    return Audit(
        file=file,
        model=source.model,
        split=source.split,
        took=source.took + (f"; fitted on {held_out.took}" if held_out is not None else ""),
        kind=source.kind or "logits",
        n=reading.n,
        n_classes=reading.n_classes,
        class_names=source.class_names if reading.by_class else (),
        verdict=verdict,
        measures={**measure(reading, keys, known, level), **(two.measures() if two is not None else {})},
        in_table=keys if metrics else tuple(k for k in IN_TABLE if k in keys) if two is None else BESIDE_RISK,
        chance=by_chance(reading, keys, verdict.consistency),
        sampled=ranked if ranked < reading.n else None,
        repair=found,
        why_no_repair=why,
        slices=judge_slices(reading, level, two),
        risk_coverage=_risk_coverage(reading),
        notes=(*_notes(reading, source), *slicing.notes),
        held_out=held_out is not None,
        two_classes=two,
        doubts=reading.doubts,
        thresholds=() if counts is None else find_thresholds(counts, other, risks, level),
        form=source.form,
        confidence=of_sure,
    ), reading


def _counts(source: Source) -> ConfidenceCounts:
    return ConfidenceCounts(are_counts=source.weights_are == "counts")


def _risk_coverage(reading: Reading, points: int = 100) -> tuple[tuple[float, float], ...]:
    risk = risk_coverage(reading.confidence, reading.correct, reading.top_weights)
    n = len(risk)
    if reading.top_weights is not None:  # the surest first, as the curve goes
        filled = reading.top_weights[(-reading.confidence.double()).argsort(stable=True)].cumsum(0)
        places = torch.searchsorted(filled, filled[-1] * torch.arange(1, points + 1) / points).clamp(max=n - 1).unique()
        return tuple(zip((filled[places] / filled[-1]).tolist(), risk[places].tolist(), strict=True))
    counts = sorted({math.ceil(n * (i + 1) / points) for i in range(points)})
    return tuple((k / n, risk[k - 1].item()) for k in counts)


def _notes(reading: Reading, source: Source) -> list[str]:
    notes = [*source.notes, *weight_notes(reading.weighing, reading.n, source)]
    seen = int((reading.class_bins.sums[2].sum(1) > 0).sum()) if reading.by_class else reading.n_classes
    if reading.impossible:
        rows = "1 row gives" if reading.impossible == 1 else f"{reading.impossible:,} rows give"
        if source.form == "confidence":
            wrong = "1 prediction has" if reading.impossible == 1 else f"{reading.impossible:,} predictions have"
            notes.append(
                f"{wrong} a confidence of 100 % and was wrong, or of 0 % and was right, so the NLL is infinite. For "
                "repairs 0 and 100 % count as 0.1 and 99.9 %."
            )
        else:
            notes.append(f"{rows} the true class a probability of 0, so the NLL is infinite.")
    if seen == 1:
        notes.append("All labels are of one class; nothing can be said about the others.")
    elif seen < reading.n_classes:
        notes.append(f"{reading.n_classes - seen:,} of {reading.n_classes:,} classes have no example.")
    if reading.n_classes > MOST_CLASSES:
        notes.append(f"Nothing is said about single classes: there are more than {MOST_CLASSES:,}.")
    if source.ignored is not None:
        notes += source.ignored.note()
    if source.split == "train":
        notes.append("These are predictions for training data, which look better than they are.")
    if len(reading.confidence) < reading.n:
        notes.append(
            f"Measures that rank examples against each other are computed on {len(reading.confidence):,} rows drawn at "
            "random, all others on every row."
        )
    return notes
