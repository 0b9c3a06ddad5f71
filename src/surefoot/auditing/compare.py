"""Two files with predictions for the same examples: which one can be trusted more?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from surefoot.auditing._reading import ALWAYS, MOST_RANKED, Reading
from surefoot.auditing.better import PairedRows, better_calibrated, scaled
from surefoot.auditing.result import Audit, AuditComparison
from surefoot.errors import InputError
from surefoot.metrics.ece_interval import ece_difference
from surefoot.metrics.interval import Interval, no_interval

Read = tuple[Audit, Reading]


def compare_read(one: Read, other: Read, level: float) -> AuditComparison:
    """Compare two audits of the same examples.

    Args:
        one: The audit A, and what was read for it.
        other: The same of B.
        level: Of the intervals.

    Returns:
        The comparison.
    """
    (audit_a, a), (audit_b, b) = one, other
    few = rows_paired(a)
    pair = PairedRows.of(a, b, few)
    eces = audit_a.verdict.ece, audit_b.verdict.ece
    better = better_calibrated(audit_a.verdict, audit_b.verdict, (a.bins.sums, b.bins.sums), pair, few / a.n)
    differences = differences_of(pair, a, b, ece_difference(*eces), level)
    return AuditComparison(audit_a, audit_b, differences, few if few < a.n else None, better)


def rows_paired(reading: Reading) -> int:
    """Return on how many rows differences are computed."""
    return min(len(reading.labels), MOST_RANKED)


def differences_of(pair: PairedRows, a: Reading, b: Reading, ece: Interval, level: float) -> dict[str, Interval]:
    """Return the differences A − B of the measures that files are compared by.

    Args:
        pair: Rows of both.
        a: One.
        b: The other.
        ece: The difference of ECE.
        level: Of the intervals.

    Returns:
        Intervals by measure.
    """
    share = len(pair.labels) / a.n
    return {
        "accuracy": scaled(pair.share(level), _accuracy(a) - _accuracy(b), share),
        "confidence_gap": scaled(pair.gap(level), _gap(a) - _gap(b), share),
        "ece": ece,
        **{name: loss_difference(name, pair, a, b, level) for name in ALWAYS},
    }


def check_same_examples(read: Sequence[Read]) -> None:
    """Refuse predictions of other examples than the first's.

    Args:
        read: Audits, and what was read for them.

    Raises:
        InputError: If there are other rows, classes or labels.
    """
    (first, a), *rest = read
    for other, b in rest:
        _check_same_examples(first, a, other, b)


def are_same_examples(a: Reading, b: Reading) -> bool:
    """Return whether two sources have the same rows of labels."""
    return (a.n, a.n_classes, a.labels_digest) == (b.n, b.n_classes, b.labels_digest)


def _check_same_examples(audit_a: Audit, a: Reading, audit_b: Audit, b: Reading) -> None:
    if (a.n, a.n_classes) != (b.n, b.n_classes):
        raise InputError(
            f"Expected predictions for the same examples, but {audit_a.file} has {a.n} rows of {a.n_classes} classes "
            f"and {audit_b.file} {b.n} of {b.n_classes}. Audit them one by one."
        )
    if a.rows_digest != b.rows_digest:
        _refuse_other_rows(audit_a.file, audit_b.file)
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
    if a.weighing.digest != b.weighing.digest:
        raise InputError(
            f"Expected the same weights for the same examples, but those of {audit_a.file} and {audit_b.file} differ. "
            "Give each example one weight, or let all count alike with --no-weights."
        )


def _refuse_other_rows(one: str, other: str) -> None:
    if one or other:
        raise InputError(
            f"Expected the same questions, but {one} and {other} have other tasks or doc_ids. Run both models on "
            "the same ones, or audit them one by one."
        )


def _accuracy(reading: Reading) -> float:
    n, _, hits = reading.bins.sums[:3].sum(1).tolist()
    return float(hits / n)


def _gap(reading: Reading) -> float:
    n, confidence, hits = reading.bins.sums[:3].sum(1).tolist()
    return float((confidence - hits) / n)


def loss_difference(name: str, pair: PairedRows, a: Reading, b: Reading, level: float) -> Interval:
    """Return the difference A − B of a mean loss over all rows, with the spread of some."""
    estimate = a.values[name].mean - b.values[name].mean
    if not math.isfinite(estimate):
        return no_interval(name, estimate, level, "it is infinite for one of them")
    return scaled(pair.loss(name, level), estimate, len(pair.labels) / a.n)
