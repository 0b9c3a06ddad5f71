"""Intervals: how far an estimate may be off, and whether two sets of predictions really differ.

Each metric declares which ``interval`` holds the truth as often as it says, few errors and many classes included:

- ``exact``: of shares; Clopper and Pearson's (``shares.py``). ``gap``: mean confidence less such a share.
- ``parts``: of mean losses; wrong predictions apart from right ones (``mean_losses.py``).
- ``corrected``: of ECE; calibrated bins apart from others (``ece_interval.py``).
- ``delong``, ``log``: of the areas under the ROC and the risk-coverage curve of confidence (``ranking_interval.py``).
- ``percentile``: examples are drawn anew with replacement ``n_resamples`` times; quantiles of what the metric is then.
- ``none``: no interval is known to cover. The estimate stands alone, with a note; of a calibration error
  :func:`~surefoot.metrics.chance.chance` says what chance alone gives.

Asked for by name, ``percentile`` and ``basic`` (2 · estimate − quantiles) are given for any metric. Of calibration
errors they do not cover. ``python benchmarks/coverage.py`` measures; ``docs/metrics.md`` has the table.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, Literal

import torch
from torch import Generator, Tensor

from surefoot.errors import InputError, OptionError
from surefoot.metrics._input import Values
from surefoot.metrics._resample import multinomial_replicates
from surefoot.metrics._rows import Rows
from surefoot.metrics._weights import WeightsAre, mean, rows_as, sums_as
from surefoot.metrics.describe import range_of
from surefoot.metrics.ece_interval import ece_of_sums
from surefoot.metrics.interval import Interval, check_level, no_interval
from surefoot.metrics.mean_losses import loss
from surefoot.metrics.paired import paired_ece, paired_gap, paired_share
from surefoot.metrics.ranking_interval import area, risk
from surefoot.metrics.shares import accuracy_of_sums, gap, gap_of_sums, share
from surefoot.registry import METRICS, Part
from surefoot.seeding import generator as make_generator

Kind = Literal["percentile", "basic", "auto"]
_MANY = 10**8  # draws; above, moments of the data stand in for the data
WHY_NONE = "no interval of it is known to cover"


def bootstrap(
    name: str,
    probs: Values,
    labels: Values,
    weights: Values | None = None,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    kind: Kind = "auto",
    generator: Generator | None = None,
    weights_are: WeightsAre = "importance",
    **options: Any,
) -> Interval:
    """Return a metric with its interval.

    Args:
        name: A registered metric.
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_resamples: How often examples are drawn anew, where they are.
        level: How often such intervals hold the truth; for a ``kind`` by name, ``docs/metrics.md`` says where not.
        kind: ``auto`` is the one that covers. See the top of this file.
        generator: Where the randomness comes from; the same numbers each time when left out.
        weights_are: How much a row represents, or how many independent rows it stands for.
        **options: The metric's options.

    Returns:
        The interval, within the metric's range and around the estimate. Where ``auto`` has none that covers, its ends
        are infinite and ``note`` says why.

    Example:
        >>> probs = torch.tensor([[0.75, 0.25]]).expand(400, 2)
        >>> labels = (torch.arange(400) % 2)
        >>> interval = bootstrap("accuracy", probs, labels)
        >>> 0.43 < interval.low < 0.47 and 0.53 < interval.high < 0.57
        True
        >>> bootstrap("smooth_ece", probs, labels).note
        'no interval of it is known to cover'
    """
    part, source = METRICS[name], generator or make_generator(0, "bootstrap")
    options = dict(part.spec(options).options)
    chosen = _kind(part, kind, n_resamples, level)
    rows = Rows(part, *rows_as(part, probs, labels, weights, weights_are), options)
    if chosen in ("percentile", "basic"):
        return _drawn(rows, n_resamples, level, chosen, source)
    top, counts = rows.top, rows.weights
    if chosen == "exact":
        return share(name, rows.each(), level, counts)
    if chosen == "gap":
        return gap(*top, level, counts)
    if chosen == "parts":
        return loss(name, rows.each(), top[1], level, range_of(part), counts)
    if chosen == "corrected":
        return ece_of_sums(rows.bins(), level, n_resamples, source)
    if chosen == "delong":
        return area(name, *top, level, counts)
    if chosen == "log":
        return risk(*top, level, min(n_resamples, 200), source, counts)
    return no_interval(name, rows.value(), level, WHY_NONE)


def bootstrap_sums(
    name: str,
    sums: Tensor,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    kind: Kind = "auto",
    generator: Generator | None = None,
    weights_are: WeightsAre = "importance",
) -> Interval:
    """Return a metric of equal-width bins with its interval, from the sums of a stream alone.

    Args:
        name: A metric of equal-width bins, such as ``ece``; or ``confidence_gap`` or ``accuracy``.
        sums: Shape ``(3, n_bins)``, or with weights ``(7, n_bins)``, as ``Stream("ece").sums`` has them.
        n_resamples: How often counts are drawn anew.
        level: How often such intervals hold the truth; for a ``kind`` by name, ``docs/metrics.md`` says where not.
        kind: ``auto`` is the one that covers. ``percentile`` and ``basic`` draw counts of hits and misses per bin
            from their multinomial distribution.
        generator: Where the randomness comes from; the same numbers each time when left out.
        weights_are: How much a row represents, or how many independent rows it stands for.

    Returns:
        The interval.

    Raises:
        InputError: If the metric is not one of bins.

    Example:
        >>> interval = bootstrap_sums("ece", torch.tensor([[1000.0], [900.0], [800.0]]))  # 90 % sure, 80 % right
        >>> round(interval.estimate, 3), round(interval.low, 2), round(interval.high, 2)
        (0.1, 0.08, 0.12)
    """
    part, source, sums = METRICS[name], generator or make_generator(0, "bootstrap"), sums_as(sums, weights_are)
    if kind == "auto" and name in _OF_SUMS:
        return _OF_SUMS[name](sums, level)
    if not part.facts.get("bins"):
        raise InputError(f"Expected a metric of bins, but got {name!r}. Use bootstrap({name!r}, probs, labels).")
    chosen, finish = _kind(part, kind, n_resamples, level), part.facts["finish"]
    if chosen == "corrected":
        return ece_of_sums(sums, level, n_resamples, source)
    if chosen == "none":
        return no_interval(name, finish(sums).item(), level, WHY_NONE)
    values = torch.vmap(finish)(multinomial_replicates(sums, n_resamples, source))
    return _make(part, finish(sums).item(), values, level, chosen)


_OF_SUMS = {"confidence_gap": gap_of_sums, "accuracy": accuracy_of_sums}


def paired_bootstrap(
    name: str,
    probs_a: Values,
    probs_b: Values,
    labels: Values,
    weights: Values | None = None,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    kind: Kind = "auto",
    generator: Generator | None = None,
    weights_are: WeightsAre = "importance",
    **options: Any,
) -> Interval:
    """Return the difference A − B of a metric between two predictions of the same examples, with its interval.

    Both are computed on the same examples, so what is easy or hard for both cancels. Bias does not, where only one of
    them has it: of errors of bins other than ``ece`` there is a difference, but no interval.

    Args:
        name: A registered metric.
        probs_a: Class probabilities, shape ``(n, classes)``.
        probs_b: Other probabilities for the same examples.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_resamples: How often examples are drawn anew, where they are.
        level: How often such intervals hold the truth; for a ``kind`` by name, ``docs/metrics.md`` says where not.
        kind: ``auto`` is the one that covers.
        generator: Where the randomness comes from; the same numbers each time when left out.
        weights_are: How much a row represents, or how many independent rows it stands for.
        **options: The metric's options.

    Returns:
        The interval; where it does not hold 0, the two differ. Where ``auto`` has none that covers, its ends are
        infinite and ``note`` says why.

    Example:
        >>> a, b = torch.tensor([[0.9, 0.1]]).expand(50, 2), torch.tensor([[0.6, 0.4]]).expand(50, 2)
        >>> labels = (torch.arange(50) % 10 == 0).long()
        >>> 0.0 in paired_bootstrap("nll", a, b, labels)  # A is surer, and as often right as it is sure
        False
    """
    part, source = METRICS[name], generator or make_generator(0, "bootstrap")
    options = dict(part.spec(options).options)
    chosen = _kind(part, kind, n_resamples, level)
    both = [Rows(part, *rows_as(part, probs, labels, weights, weights_are), options) for probs in (probs_a, probs_b)]
    a, b, counts = both[0].top, both[1].top, both[0].weights
    if chosen == "gap":
        return paired_gap(a, b, level, counts)
    if chosen == "corrected":
        return paired_ece(a, b, int(options["n_bins"]), level, n_resamples, source, counts)
    if chosen in ("exact", "parts"):
        each = [rows.each().double() for rows in both]
        if chosen == "exact":
            return paired_share(name, each[0], each[1], level, counts)
        return loss(name, each[0] - each[1], a[1] & b[1], level, (-math.inf, math.inf), counts)
    estimate = both[0].value() - both[1].value()
    if chosen in ("none", "delong", "log"):
        return no_interval(name, estimate, level, WHY_NONE)
    state, values = source.get_state(), []
    for rows in both:
        source.set_state(state)  # the same draws for both
        values.append(rows.replicates(n_resamples, source))
    return _make(part, estimate, values[0] - values[1], level, chosen, limits=(-math.inf, math.inf))


def _kind(part: Part, kind: str, n_resamples: int, level: float) -> str:
    check_level(level)
    if n_resamples < 1:
        raise OptionError(f"Expected n_resamples ≥ 1, but got {n_resamples}. 1000 is usual.")
    if kind not in ("percentile", "basic", "auto"):
        raise OptionError(f"Expected kind auto, percentile or basic, but got {kind!r}.")
    # A metric of the user's own: means are safe to draw anew, of others nothing is known.
    return kind if kind != "auto" else str(part.facts.get("interval", "percentile" if "each" in part.facts else "none"))


def _drawn(rows: Rows, n_resamples: int, level: float, kind: str, source: Generator) -> Interval:
    """Draw examples anew; above 10⁸ draws, counts of bins, or a mean's normal distribution, which is the same then."""
    part, many = rows.part, len(rows.labels) * n_resamples > _MANY
    estimate = rows.value()
    if many and "each" in part.facts:
        return _normal(part, rows.each(), level, rows.weights)
    if many and part.facts.get("bins"):
        values = torch.vmap(part.facts["finish"])(multinomial_replicates(rows.bins(), n_resamples, source))
    else:
        values = rows.replicates(n_resamples, source)
    return _make(part, estimate, values, level, kind)


def _make(
    part: Part,
    estimate: float,
    values: Tensor,
    level: float,
    kind: str,
    limits: tuple[float, float] | None = None,
) -> Interval:
    values = values[~values.isnan()]  # a metric may be undefined on some draws, such as AUROC without errors
    if not len(values):
        return no_interval(part.name, estimate, level, "it is not defined on these examples")
    low, high = (values.quantile(q).item() for q in ((1 - level) / 2, (1 + level) / 2))
    if kind == "basic":
        low, high = 2 * estimate - high, 2 * estimate - low
    bottom, top = limits or range_of(part)
    return Interval(
        part.name, estimate, min(max(low, bottom), top), min(max(high, bottom), top), level, kind, len(values)
    )


def _normal(part: Part, each: Tensor, level: float, weights: Tensor | None) -> Interval:
    estimate = mean(each, weights).item()
    z = NormalDist().inv_cdf((1 + level) / 2)
    if weights is None:
        reach = z * each.std().item() / math.sqrt(len(each))
    else:
        reach = z * math.sqrt((weights.square() @ (each - estimate).square()).item()) / weights.sum().item()
    bottom, top = range_of(part)
    return Interval(part.name, estimate, max(estimate - reach, bottom), min(estimate + reach, top), level, "normal")
