"""Two files with predictions for the same examples: which one can be trusted more?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Unpack

from surefoot.auditing._reading import ALWAYS, MOST_RANKED, OnRows, Reading
from surefoot.auditing._told import Told
from surefoot.auditing.audit import audit_source, choose_one
from surefoot.auditing.better import PairedRows, better_calibrated, scaled
from surefoot.auditing.files import is_path, name_of, open_predictions
from surefoot.auditing.result import Audit, AuditComparison
from surefoot.auditing.told_apart import told_apart
from surefoot.errors import InputError
from surefoot.metrics.ece_interval import ece_difference
from surefoot.metrics.interval import Interval, no_interval


def compare_audits(
    source_a: Any,
    source_b: Any,
    *,
    model: str | None = None,
    positive: str | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    metrics: str | Sequence[str] | None = None,
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
        on_rows: Called while reading.
        **told: What names and values do not tell; see :class:`~surefoot.auditing._told.Told`.

    Returns:
        Both audits, the differences A − B in accuracy, confidence gap, ECE, NLL and Brier score, and which one is
        better calibrated, if that can be told.

    Raises:
        InputError: If the examples are not the same.
    """
    read, digests = [], []
    both = (source_a, source_b)
    names = told_apart(both) if all(map(is_path, both)) else [name_of(each) for each in both]
    for source, name in zip(both, names, strict=True):
        chosen = choose_one(open_predictions(source, **told), model, name)
        if chosen[0].form == "multilabel":
            raise InputError(
                f"Expected one true class per row to compare, but {name} has several. Audit them one by one."
            )
        digests.append(chosen[0].rows_digest)
        read.append(audit_source(*chosen, name, n_bins, level, on_rows, positive, metrics))
    (audit_a, a), (audit_b, b) = read
    _check_same_examples(audit_a, a, audit_b, b)
    _check_same_rows(names, digests)
    few = min(len(a.labels), MOST_RANKED)
    pair = PairedRows.of(a, b, few)
    differences = {
        "accuracy": scaled(pair.share(level), _accuracy(a) - _accuracy(b), few / a.n),
        "confidence_gap": scaled(pair.gap(level), _gap(a) - _gap(b), few / a.n),
        "ece": ece_difference(audit_a.verdict.ece, audit_b.verdict.ece),
        **{name: _loss(name, pair, a, b, level) for name in ALWAYS},
    }
    better = better_calibrated(audit_a.verdict, audit_b.verdict, (a.bins.sums, b.bins.sums), pair, few / a.n)
    return AuditComparison(audit_a, audit_b, differences, few if few < a.n else None, better)


def _check_same_examples(audit_a: Audit, a: Reading, audit_b: Audit, b: Reading) -> None:
    if (a.n, a.n_classes) != (b.n, b.n_classes):
        raise InputError(
            f"Expected predictions for the same examples, but {audit_a.file} has {a.n} rows of {a.n_classes} classes "
            f"and {audit_b.file} {b.n} of {b.n_classes}. Audit them one by one."
        )
    if a.form != b.form:
        raise InputError(f"Expected two of one form, but got {a.form} and {b.form}. Audit them one by one.")
    if a.form == "confidence" and a.labels_digest != b.labels_digest:
        raise InputError(
            f"Expected two confidences of the same predictions, but {audit_a.file} and {audit_b.file} were right on "
            "other rows. Audit them one by one."
        )
    if a.labels_digest != b.labels_digest:
        raise InputError(
            f"Expected predictions for the same examples, but {audit_a.file} and {audit_b.file} have other labels. "
            "Bring the rows into one order, or audit them one by one."
        )


def _check_same_rows(names: Sequence[str], digests: Sequence[str]) -> None:
    if len(set(digests)) > 1:
        raise InputError(
            f"Expected the same questions, but {' and '.join(names)} have other tasks or doc_ids. Run both models on "
            "the same ones, or audit them one by one."
        )


def _accuracy(reading: Reading) -> float:
    n, _, hits = reading.bins.sums.sum(1).tolist()
    return float(hits / n)


def _gap(reading: Reading) -> float:
    n, confidence, hits = reading.bins.sums.sum(1).tolist()
    return float((confidence - hits) / n)


def _loss(name: str, pair: PairedRows, a: Reading, b: Reading, level: float) -> Interval:
    estimate = a.values[name].mean - b.values[name].mean
    if not math.isfinite(estimate):
        return no_interval(name, estimate, level, "it is infinite for one of them")
    return scaled(pair.loss(name, level), estimate, len(pair.labels) / a.n)
