"""Bootstrap intervals: how far an estimate may be off, and whether two sets of predictions really differ.

Examples are drawn anew with replacement and the metric is computed again, ``n_resamples`` times. Three ways to turn
these replicates into an interval:

- ``percentile``: their quantiles. Right for means and ranks.
- ``basic``: 2 · estimate − quantiles. Calibration errors are biased upward and resampling adds the same bias once
  more; this takes it off again, in part.
- ``corrected``: for metrics of equal-width bins. The error of |gap| behaves differently at a gap of 0, where it only
  goes up, and far from it. The lower end takes each bin whose gap is within 2.5 standard errors of 0 to be calibrated;
  the upper end takes none to be. So it covers 0 at its level when the predictions are calibrated, which neither
  of the others does, and is on the safe side in between (after Fang and Santos 2019, arXiv:1404.3763).

Each metric has the one to use as its default. Coverage is measured in the tests; ``docs/metrics.md`` has a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from scipy.stats import norm
from torch import Generator, Tensor

from surefoot.errors import InputError, OptionError
from surefoot.metrics._binning import bin_sums
from surefoot.metrics._resample import BinnedDraws, multinomial_replicates, resamples
from surefoot.metrics._sums import check
from surefoot.metrics._top import checked_top_label
from surefoot.registry import METRICS, Part
from surefoot.seeding import generator as make_generator

Kind = Literal["percentile", "basic", "corrected", "auto"]
_MANY = 10**8  # draws; above, moments of the data stand in for the data
_NEAR = 2.5  # standard errors from 0 within which a bin may be calibrated


@dataclass(frozen=True)
class Interval:
    """An estimate and where the truth is with probability ``level``. All in the metric's unit."""

    metric: str
    estimate: float
    low: float
    high: float
    level: float
    kind: str
    n_resamples: int

    def __contains__(self, value: float) -> bool:
        """Say whether a value is within the interval."""
        return self.low <= value <= self.high


def bootstrap(
    name: str,
    probs: Tensor,
    labels: Tensor,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    kind: Kind = "auto",
    generator: Generator | None = None,
    **options: Any,
) -> Interval:
    """Give a metric with its interval.

    Above 10⁸ draws, metrics of bins resample the bins' counts and means of values use the normal distribution, both
    indistinguishable from the bootstrap at such numbers.

    Args:
        name: A registered metric.
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        n_resamples: How often examples are drawn anew.
        level: How often such intervals are meant to hold the truth; ``docs/metrics.md`` says where they do not.
        kind: See the top of this file; ``auto`` is the one that suits the metric.
        generator: Where the randomness comes from; the same numbers each time when left out.
        **options: The metric's options.

    Returns:
        The interval, within the metric's range.

    Example:
        >>> probs = torch.tensor([[0.75, 0.25]]).expand(400, 2)
        >>> labels = (torch.arange(400) % 2)
        >>> interval = bootstrap("accuracy", probs, labels)
        >>> 0.43 < interval.low < 0.47 and 0.53 < interval.high < 0.57
        True
    """
    part, source = METRICS[name], generator or make_generator(0, "bootstrap")
    options = dict(part.spec(options).options)
    chosen = _kind(part, kind)
    if part.facts.get("bins"):
        confidence, correct = checked_top_label(probs, labels)
        sums = bin_sums(confidence, correct, int(options["n_bins"]))
        if len(labels) * n_resamples > _MANY:
            replicates = multinomial_replicates(sums, n_resamples, source)
        else:
            draws = BinnedDraws(confidence, correct, sums.shape[1])
            replicates = torch.cat([draws.of_anyone(drawn) for drawn in resamples(len(labels), n_resamples, source)])
        return _from_bins(part, sums, replicates, level, chosen)
    check(probs, labels)
    if "each" in part.facts and len(labels) * n_resamples > _MANY:
        return _normal(part, part.facts["each"](probs, labels, **options), level, n_resamples)
    values = _replicates(part, probs, labels, n_resamples, source, options)
    return _make(part, part.build(probs, labels, **options).item(), values, level, chosen)


def bootstrap_sums(
    name: str,
    sums: Tensor,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    kind: Kind = "auto",
    generator: Generator | None = None,
) -> Interval:
    """Give a metric of equal-width bins with its interval, from the sums of a stream alone.

    Counts of hits and misses per bin are drawn from their multinomial distribution; the confidence within a bin is
    taken to be its mean, which narrows the interval by less than a hundredth.

    Args:
        name: A metric of equal-width bins, such as ``ece``; or ``confidence_gap``.
        sums: Shape ``(3, n_bins)``, as ``Stream("ece").sums`` has them.
        n_resamples: How often counts are drawn anew.
        level: How often such intervals are meant to hold the truth; ``docs/metrics.md`` says where they do not.
        kind: See the top of this file.
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
    part, source = METRICS[name], generator or make_generator(0, "bootstrap")
    replicates = multinomial_replicates(sums.double(), n_resamples, source)
    if part.facts.get("bins"):
        return _from_bins(part, sums.double(), replicates, level, _kind(part, kind))
    if name in _OF_BINS:
        values = torch.stack([_OF_BINS[name](each) for each in replicates])
        return _make(part, _OF_BINS[name](sums.double()).item(), values, level, _kind(part, kind))
    raise InputError(f"Expected a metric of bins, but got {name!r}. Use bootstrap({name!r}, probs, labels).")


_OF_BINS: dict[str, Callable[[Tensor], Tensor]] = {
    "confidence_gap": lambda sums: (sums[1] - sums[2]).sum() / sums[0].sum(),
    "accuracy": lambda sums: sums[2].sum() / sums[0].sum(),
}


def paired_bootstrap(
    name: str,
    probs_a: Tensor,
    probs_b: Tensor,
    labels: Tensor,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    kind: Literal["percentile", "basic", "auto"] = "auto",
    generator: Generator | None = None,
    **options: Any,
) -> Interval:
    """Give the difference A − B of a metric between two predictions of the same examples, with its interval.

    Both are computed on the same drawn examples, so what is easy or hard for both cancels. Bias does not, where only
    one of them has it: of errors of bins (``ece``, ``ada_ece``, ``rms_ce``, ``debiased_ece``) 95 % intervals held the
    truth in as few as 68 % of simulations. Compare ``confidence_gap``, ``kce``, ``nll`` or ``brier`` instead.

    Args:
        name: A registered metric.
        probs_a: Class probabilities, shape ``(n, classes)``.
        probs_b: Other probabilities for the same examples.
        labels: Class indices, shape ``(n,)``.
        n_resamples: How often examples are drawn anew.
        level: How often such intervals are meant to hold the truth; ``docs/metrics.md`` says where they do not.
        kind: ``percentile`` or ``basic``; ``auto`` is basic for metrics that are biased upward.
        generator: Where the randomness comes from; the same numbers each time when left out.
        **options: The metric's options.

    Returns:
        The interval; where it does not hold 0, the two differ.

    Example:
        >>> a, b = torch.tensor([[0.9, 0.1]]).expand(50, 2), torch.tensor([[0.6, 0.4]]).expand(50, 2)
        >>> 0.0 in paired_bootstrap("nll", a, b, torch.zeros(50, dtype=torch.int64))  # A is surer and always right
        False
    """
    part, seed = METRICS[name], (generator or make_generator(0, "bootstrap"))
    options = dict(part.spec(options).options)
    chosen = _kind(part, kind)
    chosen = "basic" if chosen == "corrected" else chosen
    state, values = seed.get_state(), []
    for probs in (probs_a, probs_b):
        seed.set_state(state)  # the same draws for both
        check(probs, labels)
        values.append(_replicates(part, probs, labels, n_resamples, seed, options))
    estimate = (part.build(probs_a, labels, **options) - part.build(probs_b, labels, **options)).item()
    return _make(part, estimate, values[0] - values[1], level, chosen, limits=(-math.inf, math.inf))


def _kind(part: Part, kind: Kind) -> str:
    if kind == "auto":
        return str(part.facts.get("interval", "percentile"))
    if kind == "corrected" and not part.facts.get("bins"):
        raise OptionError(f"Expected kind percentile or basic for {part.name!r}, but got 'corrected'. It has no bins.")
    if kind not in ("percentile", "basic", "corrected"):
        raise OptionError(f"Expected kind percentile, basic or corrected, but got {kind!r}.")
    return kind


def _replicates(
    part: Part, probs: Tensor, labels: Tensor, n_resamples: int, source: Generator, options: dict[str, Any]
) -> Tensor:
    """Compute the metric on drawn examples, from as little as determines it."""
    blocks: Iterator[Tensor] = resamples(len(labels), n_resamples, source)
    if "each" in part.facts:
        each = part.facts["each"](probs, labels, **options)
        return torch.cat([each[block].mean(1) for block in blocks])
    if part.facts.get("bins"):
        draws = BinnedDraws(*checked_top_label(probs, labels), int(options["n_bins"]))
        values = [part.facts["finish"](sums) for block in blocks for sums in draws.of_these(block)]
    elif "top" in part.facts:
        confidence, correct = checked_top_label(probs, labels)
        top = part.facts["top"]
        values = [top(confidence[row], correct[row], **options) for block in blocks for row in block]
    else:
        values = [part.build(probs[row], labels[row], **options) for block in blocks for row in block]
    return torch.stack(values)


def _from_bins(part: Part, sums: Tensor, replicates: Tensor, level: float, kind: str) -> Interval:
    finish = part.facts["finish"]
    if kind != "corrected":
        values = torch.vmap(finish)(replicates)
        return _make(part, finish(sums).item(), values, level, kind)
    gap, settled = _gaps_away_from_zero(sums)
    moved = replicates.clone()
    moved[:, 1] -= replicates[:, 0] * (gap - settled)
    truth = sums.clone()
    truth[1] -= sums[0] * (gap - settled)
    upward = torch.vmap(finish)(moved) - finish(truth)
    slope_at = sums.clone().requires_grad_()
    (slope,) = torch.autograd.grad(finish(slope_at), slope_at)
    sideways = ((replicates - sums) * slope.nan_to_num()).sum((1, 2))
    estimate, tail = finish(sums).item(), (1 - level) / 2
    low, high = estimate - upward.quantile(1 - tail).item(), estimate - sideways.quantile(tail).item()
    bottom, top = part.facts["range"]
    return Interval(
        part.name, estimate, min(max(low, bottom), top), min(max(high, bottom), top), level, kind, len(replicates)
    )


def _gaps_away_from_zero(sums: Tensor) -> tuple[Tensor, Tensor]:
    """Give each bin's gap, and the same with those that may be chance set to 0."""
    count, confidence, correct = sums.unbind()
    size = count.clamp(min=1)
    gap, chance = (confidence - correct) / size, (confidence / size).clamp(0, 1)
    near = gap.abs() < _NEAR * (chance * (1 - chance) / size).sqrt()
    return gap, gap.masked_fill(near, 0.0)


def _make(
    part: Part,
    estimate: float,
    values: Tensor,
    level: float,
    kind: str,
    limits: tuple[float, float] | None = None,
) -> Interval:
    if not 0 < level < 1:
        raise OptionError(f"Expected a level between 0 and 1, but got {level}. 0.95 is usual.")
    values = values[~values.isnan()]  # a metric may be undefined on some draws, such as AUROC without errors
    if not len(values):
        return Interval(part.name, estimate, math.nan, math.nan, level, kind, 0)
    low, high = (values.quantile(q).item() for q in ((1 - level) / 2, (1 + level) / 2))
    if kind == "basic":
        low, high = 2 * estimate - high, 2 * estimate - low
    bottom, top = limits or part.facts["range"]
    return Interval(
        part.name, estimate, min(max(low, bottom), top), min(max(high, bottom), top), level, kind, len(values)
    )


def _normal(part: Part, each: Tensor, level: float, n_resamples: int) -> Interval:
    estimate, reach = each.mean().item(), norm.ppf((1 + level) / 2) * (each.std() / math.sqrt(len(each))).item()
    bottom, top = part.facts["range"]
    return Interval(
        part.name, estimate, max(estimate - reach, bottom), min(estimate + reach, top), level, "normal", n_resamples
    )
