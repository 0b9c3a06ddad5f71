"""What sums and samples of all rows tell: the audit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from surefoot.auditing._asked import Asked
from surefoot.auditing._confidence_repair import of_confidence
from surefoot.auditing._counted import weight_notes
from surefoot.auditing._engine import HERE, Engine
from surefoot.auditing._measures import BESIDE_RISK, IN_TABLE, by_chance, measure
from surefoot.auditing._reading import OnRows, Reading
from surefoot.auditing._repair import repair
from surefoot.auditing._slices import judge_slices
from surefoot.auditing._two_classes import two_classes
from surefoot.auditing.result import Audit
from surefoot.auditing.thresholds import find_thresholds
from surefoot.errors import InputError
from surefoot.metrics.aurc import risk_coverage
from surefoot.metrics.verdict import verdict_of_sums
from surefoot.sources.forms import MOST_CLASSES
from surefoot.sources.source import Source


def finish_audit(
    source: Source,
    held_out: Source | None,
    reading: Reading,
    fitted: Reading | None,
    notes: Sequence[str],
    asked: Asked,
    file: str,
    on_rows: OnRows | None = None,
    engine: Engine = HERE,
) -> Audit:
    """Say what all rows together tell.

    Args:
        source: What was read.
        held_out: Its calibration set, if there is one.
        reading: What was read of the first.
        fitted: What was read of the second.
        notes: What is to be known about the slices.
        asked: What to find out.
        file: Name of the file.
        on_rows: Called while reading once more.
        engine: Walks through the rows once more, to score a repair.

    Returns:
        The audit.

    Raises:
        InputError: If the options make no sense for these predictions.
    """
    n_bins, level, positive, metrics = asked.n_bins, asked.level, asked.positive, asked.metrics
    keys, risks = asked.keys(source), asked.risks
    is_two = reading.n_classes == 2 and source.form == "multiclass"
    if positive is not None and not is_two:
        found_classes = f"{reading.n_classes}" if source.form == "multiclass" else source.form
        raise InputError(f"Expected two classes with --positive, but {file} has {found_classes}. Leave it out.")
    two = None
    if is_two:
        names = source.class_names
        two = two_classes(reading, fitted, names, positive=positive, n_bins=n_bins, level=level, where=file)
    found, why = repair(
        *(source, reading, fitted), n_bins=n_bins, level=level, where=file, on_rows=on_rows, engine=engine
    )
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
    ranked, counts = len(reading.confidence), reading.counts
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
        notes=(*_notes(reading, source), *notes),
        held_out=held_out is not None,
        two_classes=two,
        doubts=reading.doubts,
        thresholds=() if counts is None else find_thresholds(counts, fitted.counts if fitted else None, risks, level),
        form=source.form,
        confidence=of_sure,
    )


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
