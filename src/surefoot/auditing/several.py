"""Any number of predictions: one is audited, two are compared, more are ranked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from surefoot.auditing._engine import HERE, Engine
from surefoot.auditing._reading import OnRows
from surefoot.auditing.audit import audit_source, check_labels_options, choose, choose_one
from surefoot.auditing.audit_labels import audit_labels
from surefoot.auditing.compare import Read, are_same_examples, check_same_examples, compare_read
from surefoot.auditing.ranking import Ranking, rank_read
from surefoot.auditing.result import Audit, AuditComparison
from surefoot.auditing.told_apart import told_apart
from surefoot.errors import InputError
from surefoot.sources.files import is_path, name_of, open_predictions
from surefoot.sources.told import Told


@dataclass(frozen=True)
class Several:
    """Audits of one or more models, and how they compare where their examples are the same."""

    audits: tuple[Audit, ...]
    comparison: AuditComparison | None = None
    ranking: Ranking | None = None


def audit_several(
    *sources: Any,
    names: Sequence[str] = (),
    model: str | None = None,
    positive: str | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    metrics: str | Sequence[str] | None = None,
    risk: str | float | Sequence[float] | None = None,
    on_rows: OnRows | None = None,
    engine: Engine = HERE,
    **told: Unpack[Told],
) -> Several:
    """Audit files, or predictions in memory, and compare those of the same examples.

    Args:
        *sources: One or more. Of one that holds several models all are audited; of several each holds one, or
            ``model`` says which.
        names: What to call them; else as their files.
        model: This one only, of several in a file.
        positive: Of two classes, the name or number of the one whose probability is the risk.
        n_bins: Number of bins.
        level: Of the intervals.
        metrics: What to show; else the usual measures.
        risk: Shares of wrong answers that are allowed: finds for each the confidence above which to act.
        on_rows: Called while reading.
        engine: Who walks through the rows; else this process.
        **told: What names and values do not tell; see :class:`~surefoot.sources.told.Told`.

    Returns:
        The audits; of two models of the same examples the comparison, of more the ranking.

    Raises:
        InputError: If several sources hold predictions of other examples, or there is not one name for each.
    """
    if names and len(names) != len(sources):
        raise InputError(f"Expected a name for each of {len(sources)} sources, but got {len(names)}. Name them all.")
    if names and len(set(names)) != len(names):
        raise InputError(f"Expected names that differ, but got {', '.join(names)}. Rename one.")
    called = list(names) or _names(sources)
    told["score_of"] = positive
    read: list[Read] = []
    for source, name in zip(sources, called, strict=True):
        found = open_predictions(source, **told)
        pairs = choose(found, model, name) if len(sources) == 1 else [choose_one(found, model, name)]
        if len(sources) == 1 and any(pair[0].form == "multilabel" for pair in pairs):
            check_labels_options(name, told, positive, risk)
            return Several(tuple(audit_labels(*pair, name, n_bins, level, on_rows, metrics, engine) for pair in pairs))
        read += [audit_source(*pair, name, n_bins, level, on_rows, positive, metrics, risk, engine) for pair in pairs]
    audits = tuple(audit for audit, _ in read)
    if len(sources) > 1:
        check_same_examples(read)
    elif not all(are_same_examples(read[0][1], reading) for _, reading in read):
        return Several(audits)
    if len(read) == 2:
        return Several(audits, comparison=compare_read(read[0], read[1], level))
    return Several(audits, ranking=rank_read(read, short_names(audits), level) if len(read) > 2 else None)


def compare_audits(
    source_a: Any,
    source_b: Any,
    *,
    model: str | None = None,
    positive: str | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    metrics: str | Sequence[str] | None = None,
    risk: str | float | Sequence[float] | None = None,
    on_rows: OnRows | None = None,
    **told: Unpack[Told],
) -> AuditComparison:
    """Audit two files, or predictions in memory, and compare them, example by example.

    Args:
        source_a: One of them.
        source_b: The other.
        model: Which one, where a file holds several.
        positive: Of two classes, the name or number of the one whose probability is the risk.
        n_bins: Number of bins.
        level: Of the intervals.
        metrics: What to show of both; else the usual measures.
        risk: Shares of wrong answers that are allowed: finds for each the confidence above which to act.
        on_rows: Called while reading.
        **told: What names and values do not tell; see :class:`~surefoot.sources.told.Told`.

    Returns:
        Both audits, the differences A − B in accuracy, confidence gap, ECE, NLL and Brier score, and which one is
        better calibrated, if that can be told.

    Raises:
        InputError: If the examples are not the same.
    """
    found = audit_several(
        *(source_a, source_b),
        model=model,
        positive=positive,
        n_bins=n_bins,
        level=level,
        metrics=metrics,
        risk=risk,
        on_rows=on_rows,
        **told,
    ).comparison
    assert found is not None  # two sources are compared, or refused
    return found


def _names(sources: Sequence[Any]) -> list[str]:
    """Name files from where they differ; of the same names in memory number those of more than two."""
    if all(map(is_path, sources)):
        return told_apart(sources) if len(sources) > 1 else [name_of(sources[0])]
    found = [name_of(each) for each in sources]
    counts = Counter(found)
    if len(sources) < 3:
        return found
    return [f"{name} {number}" if counts[name] > 1 else name for number, name in enumerate(found, 1)]


def short_names(audits: Sequence[Audit]) -> list[str]:
    """Name audited models as shortly as they can be told apart.

    Args:
        audits: Of one file, or of one file each.

    Returns:
        The names of the models within a file, else those of the files without what says their format.
    """
    if len({audit.file for audit in audits}) == 1:
        found = [audit.model or "without a name" for audit in audits]
    else:
        found = [_stem(audit.file) for audit in audits]
    if len(set(found)) < len(found):
        found = [audit.file for audit in audits]
    counts = Counter(found)
    return [f"{name} ({number})" if counts[name] > 1 else name for number, name in enumerate(found, 1)]


def _stem(name: str) -> str:
    path = Path(name.removesuffix(".gz"))
    known = path.suffix.lower() in (".npz", ".npy", ".csv", ".tsv", ".txt", ".json", ".jsonl", ".parquet")
    return str(path.with_suffix("")) if known and path.stem else name
