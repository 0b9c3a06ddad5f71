"""What a calibration error would be by chance alone: draw the labels anew from the predictions themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from surefoot.metrics._binning import bin_index, bin_sums
from surefoot.metrics._input import Values
from surefoot.metrics._resample import hits_by_chance, replicates_of_hits
from surefoot.metrics._top import top_label
from surefoot.metrics._weights import WeightsAre, kish, rows_as
from surefoot.metrics.interval import check_level
from surefoot.registry import METRICS
from surefoot.seeding import generator as make_generator


@dataclass(frozen=True)
class Chance:
    """A metric beside what it would be if every probability were right."""

    metric: str
    estimate: float
    expected: float
    """Its mean if calibrated."""
    limit: float
    """What it stays below with probability ``level`` if calibrated."""
    p_value: float
    """How often chance alone gives at least as much."""
    level: float


def chance(
    name: str,
    probs: Values,
    labels: Values,
    weights: Values | None = None,
    *,
    n_resamples: int = 200,
    level: float = 0.95,
    generator: Generator | None = None,
    weights_are: WeightsAre = "importance",
    **options: Any,
) -> Chance:
    """Say what chance alone makes of a calibration error, which has no interval that covers.

    Args:
        name: A registered metric that is larger the worse the calibration.
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_resamples: How often labels are drawn.
        level: Of the limit.
        generator: Where the randomness comes from; the same numbers each time when left out.
        weights_are: How much a row represents, or how many independent rows it stands for.
        **options: The metric's options.

    Returns:
        The value, and its distribution under calibration.

    Example:
        >>> probs = torch.tensor([[0.75, 0.25]]).expand(400, 2)
        >>> found = chance("smooth_ece", probs, (torch.arange(400) % 2))  # 75 % sure, 50 % right
        >>> round(found.estimate, 2), found.limit < 0.06
        (0.25, True)
    """
    part, source = METRICS[name], generator or make_generator(0, "chance")
    options = dict(part.spec(options).options)
    probs, labels, counts = rows_as(part, probs, labels, weights, weights_are)
    more = {} if counts is None else {"weights": counts}
    if part.facts.get("bins"):
        sums = bin_sums(*top_label(probs, labels), int(options["n_bins"]), counts)
        return chance_of_sums(name, sums, n_resamples=n_resamples, level=level, generator=source)
    if "top" in part.facts:
        top = top_label(probs, labels)
        return chance_of_top(name, *top, counts, n_resamples=n_resamples, level=level, generator=source, **options)
    drawn = torch.multinomial(probs.double(), n_resamples, replacement=True, generator=source)
    values = torch.stack([part.build(probs, column, **more, **options) for column in drawn.T.contiguous()])
    return _beside(name, part.build(probs, labels, **more, **options).item(), values, level)


def chance_of_sums(
    name: str, sums: Tensor, *, n_resamples: int = 1000, level: float = 0.95, generator: Generator | None = None
) -> Chance:
    """Do the same for a metric of equal-width bins, from the sums of a stream.

    Args:
        name: A metric of bins, such as ``mce``.
        sums: Shape ``(3, n_bins)``, or with weights ``(7, n_bins)``, as ``Stream("ece").sums`` has them.
        n_resamples: How often hits are drawn.
        level: Of the limit.
        generator: Where the randomness comes from; the same numbers each time when left out.

    Returns:
        The value, and its distribution under calibration.
    """
    finish: Callable[[Tensor], Tensor] = METRICS[name].facts["finish"]
    sums, source = sums.double(), generator or make_generator(0, "chance")
    hits = hits_by_chance(sums, n_resamples, source)
    values = torch.vmap(finish)(replicates_of_hits(sums, hits))
    return _beside(name, finish(sums).item(), values, level)


def chance_of_top(
    name: str,
    confidence: Tensor,
    correct: Tensor,
    weights: Tensor | None = None,
    *,
    n_resamples: int = 200,
    level: float = 0.95,
    generator: Generator | None = None,
    **options: Any,
) -> Chance:
    """Do the same for a metric of confidence and correctness alone.

    Args:
        name: The metric.
        confidence: Shape ``(n,)``.
        correct: Shape ``(n,)``.
        weights: How much each row counts; they are taken to say nothing about what is right.
        n_resamples: How often correctness is drawn.
        level: Of the limit.
        generator: Where the randomness comes from; the same numbers each time when left out.
        **options: The metric's options.

    Returns:
        The value, and its distribution under calibration.
    """
    top: Callable[..., Tensor] = METRICS[name].facts["top"]
    source = generator or make_generator(0, "chance")
    odds = confidence.double().clamp(0, 1)
    drawn = (torch.bernoulli(odds, generator=source) for _ in range(n_resamples))
    more = {} if weights is None else {"weights": weights}
    values = torch.stack([top(confidence, hits, **more, **options) for hits in drawn])
    return _beside(name, top(confidence, correct, **more, **options).item(), values, level)


def classwise_chance(
    probs: Tensor,
    estimate: float,
    n: float,
    n_bins: int,
    weights: Tensor | None = None,
    *,
    n_resamples: int = 200,
    level: float = 0.95,
    generator: Generator | None = None,
) -> Chance:
    """Do the same for the classwise ECE of n examples, some of which are at hand.

    A drawn label takes one from one cell, so each probability's bin is looked up once for all draws. Noise falls with
    the root of n, which scales what the ones at hand show.

    Args:
        probs: Of some examples, shape ``(some, classes)``.
        estimate: Classwise ECE of all examples.
        n: How many these are; with weights their effective number.
        n_bins: Number of bins.
        weights: How much each of the examples at hand counts; None where all count alike.
        n_resamples: How often labels are drawn.
        level: Of the limit.
        generator: Where the randomness comes from; the same numbers each time when left out.

    Returns:
        The value, and its distribution under calibration.
    """
    some, n_classes = probs.shape
    cells = bin_index(probs, n_bins) + n_bins * torch.arange(n_classes)
    size = n_classes * n_bins
    mass = None if weights is None else weights * (some / weights.sum())
    each = probs.double() if mass is None else mass[:, None] * probs.double()
    sums = torch.bincount(cells.flatten(), each.flatten(), size)
    source = generator or make_generator(0, "chance")
    drawn = torch.multinomial(probs.double(), n_resamples, replacement=True, generator=source)
    hit = cells.gather(1, drawn).T.contiguous()
    errors = [(sums - torch.bincount(each, mass, minlength=size)).abs().sum() for each in hit]
    scale = ((some if weights is None else kish(weights)) / n) ** 0.5 / (some * n_classes)
    return _beside("classwise_ece", estimate, scale * torch.stack(errors), level)


def _beside(name: str, estimate: float, values: Tensor, level: float) -> Chance:
    check_level(level)
    values = values.double()
    # One more on both sides: the observed one is a draw too, so that a p-value is never 0.
    p_value = (1 + int((values >= estimate - 1e-12).sum())) / (1 + len(values))
    return Chance(name, estimate, values.mean().item(), values.quantile(level).item(), p_value, level)
