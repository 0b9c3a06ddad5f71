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
from collections.abc import Iterator
from statistics import NormalDist
from typing import Any, Literal

import torch
from torch import Generator, Tensor

from surefoot.errors import InputError, OptionError
from surefoot.metrics._binning import bin_sums
from surefoot.metrics._input import Values, check
from surefoot.metrics._resample import BinnedDraws, multinomial_replicates, resamples
from surefoot.metrics._top import top_label
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
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    kind: Kind = "auto",
    generator: Generator | None = None,
    **options: Any,
) -> Interval:
    """Return a metric with its interval.

    Args:
        name: A registered metric.
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        n_resamples: How often examples are drawn anew, where they are.
        level: How often such intervals hold the truth; for a ``kind`` by name, ``docs/metrics.md`` says where not.
        kind: ``auto`` is the one that covers. See the top of this file.
        generator: Where the randomness comes from; the same numbers each time when left out.
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
    probs, labels = check(probs, labels)
    if chosen in ("percentile", "basic"):
        return _drawn(part, probs, labels, n_resamples, level, chosen, source, options)
    top = top_label(probs, labels)
    if chosen == "exact":
        return share(name, part.facts["each"](probs, labels, **options), level)
    if chosen == "gap":
        return gap(*top, level)
    if chosen == "parts":
        return loss(name, part.facts["each"](probs, labels, **options), top[1], level, range_of(part))
    if chosen == "corrected":
        return ece_of_sums(bin_sums(*top, int(options["n_bins"])), level, n_resamples, source)
    if chosen == "delong":
        return area(name, *top, level)
    if chosen == "log":
        return risk(*top, level, min(n_resamples, 200), source)
    return no_interval(name, part.build(probs, labels, **options).item(), level, WHY_NONE)


def bootstrap_sums(
    name: str,
    sums: Tensor,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    kind: Kind = "auto",
    generator: Generator | None = None,
) -> Interval:
    """Return a metric of equal-width bins with its interval, from the sums of a stream alone.

    Args:
        name: A metric of equal-width bins, such as ``ece``; or ``confidence_gap`` or ``accuracy``.
        sums: Shape ``(3, n_bins)``, as ``Stream("ece").sums`` has them.
        n_resamples: How often counts are drawn anew.
        level: How often such intervals hold the truth; for a ``kind`` by name, ``docs/metrics.md`` says where not.
        kind: ``auto`` is the one that covers. ``percentile`` and ``basic`` draw counts of hits and misses per bin
            from their multinomial distribution.
        generator: Where the randomness comes from; the same numbers each time when left out.

    Returns:
        The interval.

    Raises:
        InputError: If the metric is not one of bins.

    Example:
        >>> interval = bootstrap_sums("ece", torch.tensor([[1000.0], [900.0], [800.0]]))  # 90 % sure, 80 % right
        >>> round(interval.estimate, 3), round(interval.low, 2), round(interval.high, 2)
        (0.1, 0.08, 0.12)
    """
    part, source, sums = METRICS[name], generator or make_generator(0, "bootstrap"), sums.double()
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
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    kind: Kind = "auto",
    generator: Generator | None = None,
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
        n_resamples: How often examples are drawn anew, where they are.
        level: How often such intervals hold the truth; for a ``kind`` by name, ``docs/metrics.md`` says where not.
        kind: ``auto`` is the one that covers.
        generator: Where the randomness comes from; the same numbers each time when left out.
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
    probs_a, labels_a = check(probs_a, labels)
    probs_b, labels = check(probs_b, labels)
    a, b = top_label(probs_a, labels_a), top_label(probs_b, labels)
    if chosen == "gap":
        return paired_gap(a, b, level)
    if chosen == "corrected":
        return paired_ece(a, b, int(options["n_bins"]), level, n_resamples, source)
    if chosen in ("exact", "parts"):
        each = [part.facts["each"](probs, labels, **options).double() for probs in (probs_a, probs_b)]
        if chosen == "exact":
            return paired_share(name, each[0], each[1], level)
        return loss(name, each[0] - each[1], a[1] & b[1], level, (-math.inf, math.inf))
    estimate = (part.build(probs_a, labels, **options) - part.build(probs_b, labels, **options)).item()
    if chosen in ("none", "delong", "log"):
        return no_interval(name, estimate, level, WHY_NONE)
    state, values = source.get_state(), []
    for probs in (probs_a, probs_b):
        source.set_state(state)  # the same draws for both
        values.append(_replicates(part, probs, labels, n_resamples, source, options))
    return _make(part, estimate, values[0] - values[1], level, chosen, limits=(-math.inf, math.inf))


def _kind(part: Part, kind: str, n_resamples: int, level: float) -> str:
    check_level(level)
    if n_resamples < 1:
        raise OptionError(f"Expected n_resamples ≥ 1, but got {n_resamples}. 1000 is usual.")
    if kind not in ("percentile", "basic", "auto"):
        raise OptionError(f"Expected kind auto, percentile or basic, but got {kind!r}.")
    # A metric of the user's own: means are safe to draw anew, of others nothing is known.
    return kind if kind != "auto" else str(part.facts.get("interval", "percentile" if "each" in part.facts else "none"))


def _drawn(
    part: Part,
    probs: Tensor,
    labels: Tensor,
    n_resamples: int,
    level: float,
    kind: str,
    source: Generator,
    options: dict[str, Any],
) -> Interval:
    """Draw examples anew; above 10⁸ draws, counts of bins, or a mean's normal distribution, which is the same then."""
    estimate = part.build(probs, labels, **options).item()
    if len(labels) * n_resamples > _MANY and "each" in part.facts:
        return _normal(part, part.facts["each"](probs, labels, **options), level)
    if len(labels) * n_resamples > _MANY and part.facts.get("bins"):
        sums = bin_sums(*top_label(probs, labels), int(options["n_bins"]))
        values = torch.vmap(part.facts["finish"])(multinomial_replicates(sums, n_resamples, source))
    else:
        values = _replicates(part, probs, labels, n_resamples, source, options)
    return _make(part, estimate, values, level, kind)


def _replicates(
    part: Part, probs: Tensor, labels: Tensor, n_resamples: int, source: Generator, options: dict[str, Any]
) -> Tensor:
    """Compute the metric on drawn examples, from as little as determines it."""
    blocks: Iterator[Tensor] = resamples(len(labels), n_resamples, source)
    if "each" in part.facts:
        each = part.facts["each"](probs, labels, **options)
        return torch.cat([each[block].mean(1) for block in blocks])
    if part.facts.get("bins"):
        draws = BinnedDraws(*top_label(probs, labels), int(options["n_bins"]))
        return torch.cat([torch.vmap(part.facts["finish"])(draws.of_these(block)) for block in blocks])
    if "top" in part.facts:
        confidence, correct = top_label(probs, labels)
        top = part.facts["top"]
        values = [top(confidence[row], correct[row], **options) for block in blocks for row in block]
    else:
        values = [part.build(probs[row], labels[row], **options) for block in blocks for row in block]
    return torch.stack(values)


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


def _normal(part: Part, each: Tensor, level: float) -> Interval:
    estimate = each.mean().item()
    reach = NormalDist().inv_cdf((1 + level) / 2) * each.std().item() / math.sqrt(len(each))
    bottom, top = range_of(part)
    return Interval(part.name, estimate, max(estimate - reach, bottom), min(estimate + reach, top), level, "normal")
