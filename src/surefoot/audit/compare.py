"""Two files with predictions for the same examples: which one can be trusted more?"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import torch

from surefoot.audit._kind import Said
from surefoot.audit._labels import Meaning
from surefoot.audit._reading import MOST_RANKED, OnRows, Reading
from surefoot.audit.audit import audit_source, choose_one
from surefoot.audit.files import open_predictions
from surefoot.audit.result import Audit, AuditComparison
from surefoot.errors import InputError
from surefoot.metrics.bootstrap import Interval, paired_bootstrap
from surefoot.registry import METRICS


def compare_audits(
    path_a: Path | str,
    path_b: Path | str,
    *,
    kind: Said | None = None,
    labels: str | None = None,
    groups: tuple[str, ...] = (),
    scores: tuple[str, ...] = (),
    labels_are: Meaning | None = None,
    model: str | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    on_rows: OnRows | None = None,
) -> AuditComparison:
    """Audit two files and compare them, example by example.

    Args:
        path_a: One file.
        path_b: The other.
        kind: Logits, probabilities or percent, where names and values do not tell.
        labels: The labels' file, array or column, where names do not tell.
        groups: Arrays or columns that divide the rows into slices.
        scores: The scores' array or columns, where names do not tell.
        labels_are: Class numbers ``from-0`` or ``from-1``, or ``names``, where labels could be two things.
        model: Which one, where a file holds several.
        n_bins: Number of bins.
        level: Of the intervals.
        on_rows: Called while reading.

    Returns:
        Both audits, and the differences A − B in ECE, NLL, Brier score and accuracy.

    Raises:
        InputError: If the examples are not the same.
    """
    read = []
    for path in (path_a, path_b):
        sources = open_predictions(path, kind=kind, labels=labels, groups=groups, scores=scores, labels_are=labels_are)
        chosen = choose_one(sources, model, Path(path).name)
        read.append(audit_source(*chosen, Path(path).name, n_bins, level, on_rows))
    (audit_a, a), (audit_b, b) = read
    _check_same_examples(audit_a, a, audit_b, b)
    few = min(len(a.labels), MOST_RANKED)
    differences = {
        "ece": _ece(a, b, few, n_bins, level),
        **{name: _mean(name, a, b, few, level) for name in ("nll", "brier", "accuracy")},
    }
    return AuditComparison(audit_a, audit_b, differences, few if few < a.n else None)


def _check_same_examples(audit_a: Audit, a: Reading, audit_b: Audit, b: Reading) -> None:
    if (a.n, a.n_classes) != (b.n, b.n_classes):
        raise InputError(
            f"Expected predictions for the same examples, but {audit_a.file} has {a.n} rows of {a.n_classes} classes "
            f"and {audit_b.file} {b.n} of {b.n_classes}. Audit them one by one."
        )
    if a.labels_digest != b.labels_digest:
        raise InputError(
            f"Expected predictions for the same examples, but {audit_a.file} and {audit_b.file} have other labels. "
            "Bring the rows into one order, or audit them one by one."
        )


def _ece(a: Reading, b: Reading, few: int, n_bins: int, level: float) -> Interval:
    """Estimate from all rows; the spread from a sample, scaled to their number."""
    labels = torch.from_numpy(a.labels[:few])
    spread = paired_bootstrap("ece", a.probs(few), b.probs(few), labels, level=level, n_bins=n_bins)
    estimate = (a.bins.compute() - b.bins.compute()).item()
    shrink = math.sqrt(few / a.n)
    low, high = (estimate + shrink * (end - spread.estimate) for end in (spread.low, spread.high))
    return replace(spread, estimate=estimate, low=low, high=high)


def _mean(name: str, a: Reading, b: Reading, few: int, level: float) -> Interval:
    labels = torch.from_numpy(a.labels[:few])
    each = METRICS[name].facts["each"]
    pairs = each(a.probs(few), labels).double() - each(b.probs(few), labels).double()
    if name in a.moments:
        estimate = a.moments[name].mean - b.moments[name].mean
    else:
        estimate = ((a.bins.sums[2] - b.bins.sums[2]).sum() / a.n).item()
    if not math.isfinite(estimate):
        return Interval(name, estimate, math.nan, math.nan, level, "none", 0)
    if few == a.n:
        return paired_bootstrap(name, a.probs(few), b.probs(few), labels, level=level)
    reach = NormalDist().inv_cdf((1 + level) / 2) * pairs.std().item() / math.sqrt(a.n)
    return Interval(name, estimate, estimate - reach, estimate + reach, level, "normal", 0)
