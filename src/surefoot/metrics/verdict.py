"""What to say about predictions: over-confident, under-confident, both, or as right as the examples can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Generator, Tensor

from surefoot.metrics._binning import bin_sums
from surefoot.metrics._class_bins import class_bin_sums
from surefoot.metrics._input import Values
from surefoot.metrics._top import top_label
from surefoot.metrics._weights import ROWS, WeightsAre, check_weighted, rows_of, sums_as
from surefoot.metrics.classwise_ece import ece_of_classes
from surefoot.metrics.ece_interval import ece_of_sums
from surefoot.metrics.interval import Interval
from surefoot.metrics.reliability import Consistency, Reliability, consistency, reliability_of_sums
from surefoot.metrics.shares import accuracy_of_sums, gap_of_sums
from surefoot.seeding import generator as make_generator

_DRAWS = 1000
# The risk of one of two classes can also be overstated or understated; see ``surefoot.metrics.risk``.
Finding = Literal["over-confident", "under-confident", "mixed", "calibrated", "overstated", "understated"]


@dataclass(frozen=True)
class ClassVerdict:
    """Calibration of one class's probability. Fractions."""

    label: int
    count: int
    ece: float
    gap: float
    """Mean probability of the class less its frequency: positive when predicted too often."""


@dataclass(frozen=True)
class CalibrationVerdict:
    """The numbers behind a sentence about calibration. Fractions, with intervals."""

    n: int
    """How many rows there are, of whatever weight."""
    finding: Finding
    accuracy: Interval
    gap: Interval
    """Mean confidence less accuracy."""
    ece: Interval
    overconfidence: float
    underconfidence: float
    consistency: Consistency
    reliability: Reliability
    classes: tuple[ClassVerdict, ...]
    """From the worst calibrated class to the best; empty when not asked for."""


def verdict(
    probs: Values,
    labels: Values,
    weights: Values | None = None,
    *,
    n_bins: int = 15,
    level: float = 0.95,
    generator: Generator | None = None,
    weights_are: WeightsAre = "importance",
) -> CalibrationVerdict:
    """Judge predictions.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_bins: Number of bins (a, b].
        level: Of intervals, bars and the test of calibration.
        generator: Where the randomness comes from; the same numbers each time when left out.
        weights_are: How much a row represents, or how many independent rows it stands for.

    Returns:
        The verdict.

    Example:
        >>> from torch import arange, tensor
        >>> verdict(tensor([[0.9, 0.1]]).expand(1000, 2), (arange(1000) % 2)).finding  # 90 % sure, 50 % right
        'over-confident'
    """
    probs, labels, counts = check_weighted(probs, labels, weights)
    bins = bin_sums(*top_label(probs, labels), n_bins, counts)
    class_bins = class_bin_sums(probs, labels, n_bins, counts)
    return verdict_of_sums(bins, class_bins, level=level, generator=generator, weights_are=weights_are)


def verdict_of_sums(
    bins: Tensor,
    class_bins: Tensor | None = None,
    *,
    level: float = 0.95,
    generator: Generator | None = None,
    weights_are: WeightsAre = "importance",
) -> CalibrationVerdict:
    """Judge predictions from the sums of streams, without any example at hand.

    Where the interval of the confidence gap is on one side of 0, that side decides. Where it holds 0, ``calibrated``
    means that chance alone gives such an ECE more often than 1 − level, and ``mixed`` that it does not: too sure in
    some bins and too unsure in others.

    Args:
        bins: Shape ``(3, n_bins)``, as ``Stream("ece").sums`` has them.
        class_bins: Shape ``(3, classes, n_bins)``, as ``Stream("classwise_ece").sums`` has them.
        level: Of intervals, bars and the test of calibration.
        generator: Where the randomness comes from; the same numbers each time when left out.
        weights_are: How much a row represents, or how many independent rows it stands for.

    Returns:
        The verdict.

    Example:
        >>> from torch import tensor
        >>> verdict_of_sums(tensor([[1000.0], [600.0], [700.0]])).finding
        'under-confident'
    """
    bins = sums_as(bins, weights_are)
    class_bins = None if class_bins is None else sums_as(class_bins, weights_are)
    source = generator or make_generator(0, "verdict")
    chance = consistency(bins, level=level, generator=source)
    gap = gap_of_sums(bins, level)
    n, less = bins[0].sum(), bins[1] - bins[2]
    return CalibrationVerdict(
        n=int(rows_of(bins)),
        finding=finding_of(chance, gap),
        accuracy=accuracy_of_sums(bins, level),
        gap=gap,
        ece=ece_of_sums(bins, level, _DRAWS, source, chance),
        overconfidence=(less.clamp(min=0).sum() / n).item(),
        underconfidence=(-less.clamp(max=0).sum() / n).item(),
        consistency=chance,
        reliability=reliability_of_sums(bins, level=level),
        classes=_classes(class_bins) if class_bins is not None else (),
    )


def finding_of(chance: Consistency, gap: Interval) -> Finding:
    """Put a word to the numbers: the one that the interval of the gap shows, where it shows one.

    Args:
        chance: What ECE chance alone makes.
        gap: Mean confidence less accuracy.

    Returns:
        The finding; ``calibrated`` and ``mixed`` only where the interval holds 0.
    """
    if 0.0 not in gap:
        return "over-confident" if gap.estimate > 0 else "under-confident"
    return "mixed" if chance.miscalibrated else "calibrated"


def _classes(class_bins: Tensor) -> tuple[ClassVerdict, ...]:
    count, confidence, correct = class_bins[:3].sum(2).unbind()
    gap = (confidence - correct) / count
    if len(class_bins) > 3:  # rows in proportion to their weight
        correct = (correct * class_bins[ROWS].sum(1) / count).round()
    found = [
        ClassVerdict(label, int(correct[label]), error, gap[label].item())
        for label, error in enumerate(ece_of_classes(class_bins).tolist())
    ]
    # Of two classes both are off by the same, but for the rounding of sums.
    return tuple(sorted(found, key=lambda each: (-round(each.ece, 12), each.label)))
