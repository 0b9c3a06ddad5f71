"""Squared kernel calibration error of the whole prediction, in blocks: no n × n matrix is held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from surefoot.errors import OptionError
from surefoot.metrics._input import Values
from surefoot.metrics._weights import as_counts, check_weighted, mean, repeated, whole
from surefoot.metrics.kce import Estimator
from surefoot.registry import METRICS

Distance = Literal["euclidean", "total_variation"]
_BLOCK = 512


def _distances(p: Tensor, q: Tensor, distance: Distance) -> Tensor:
    if distance == "euclidean":
        return torch.cdist(p, q)
    if distance == "total_variation":
        return torch.cdist(p, q, p=1.0) / 2
    raise OptionError(f"Expected distance euclidean or total_variation, but got {distance!r}.")


def _lengths(differences: Tensor, distance: Distance) -> Tensor:
    return differences.norm(dim=1) if distance == "euclidean" else differences.abs().sum(1) / 2


def _blocks(probs: Tensor, distance: Distance) -> Iterator[tuple[int, Tensor]]:
    """Return the distances of each run of rows to itself and to all later rows."""
    for start in range(0, len(probs), _BLOCK):
        yield start, _distances(probs[start : start + _BLOCK], probs[start:], distance)


def median_distance(probs: Tensor, weights: Tensor | None = None, *, distance: Distance = "euclidean") -> float:
    """Return the median of the distances between all pairs of different examples, exactly.

    Two passes over the pairs: the first counts them in fine cells, the second sorts those of the median's cell.

    Args:
        probs: Shape ``(n, classes)``, n ≥ 2.
        weights: How often each row counts, as an example of its own; None where all count alike.
        distance: Which one.

    Returns:
        The median; the mean of the two middle ones where their number is even.

    Example:
        >>> median_distance(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), distance="total_variation")
        0.5
    """
    if weights is not None:
        return _weighted_median(probs.double(), weights, distance)
    n_cells, widest = 1 << 16, 1.5
    pairs = len(probs) * (len(probs) - 1) // 2
    wanted = [(pairs - 1) // 2, pairs // 2]

    def pair_distances() -> Iterator[Tensor]:
        for _, block in _blocks(probs.double(), distance):
            rows = len(block)
            yield block[:, :rows][torch.ones(rows, rows, dtype=torch.bool).triu(1)]
            yield block[:, rows:].flatten()

    def cell(values: Tensor) -> Tensor:
        return (values * (n_cells / widest)).int()

    counts = torch.zeros(n_cells, dtype=torch.int64)
    for values in pair_distances():
        counts += torch.bincount(cell(values), minlength=n_cells)
    ends = counts.cumsum(0)
    low, high = (int(torch.searchsorted(ends, rank, right=True)) for rank in wanted)
    found = []
    for values in pair_distances():
        near = values[(values > (low - 1) * widest / n_cells) & (values < (high + 2) * widest / n_cells)]
        found.append(near[(cell(near) >= low) & (cell(near) <= high)])
    inside = torch.cat(found).sort().values
    before = int(ends[low] - counts[low])
    return float((inside[wanted[0] - before] + inside[wanted[1] - before]) / 2)


def _weighted_median(probs: Tensor, weights: Tensor, distance: Distance) -> float:
    """Return the median over all pairs, in the same two passes; those of a row's copies are at a distance of 0."""
    n_cells, widest = 1 << 16, 1.5
    copies = (weights * (weights - 1)).clamp(min=0).sum() / 2
    pairs = (weights.sum().square() - weights.square().sum()) / 2 + copies
    wanted = ((pairs - 1) // 2, pairs // 2) if whole(weights) else (pairs / 2, pairs / 2)

    def weighted_pairs() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        yield probs.new_zeros(1, dtype=torch.int64), probs.new_zeros(1), copies[None]
        for start, block in _blocks(probs, distance):
            later = torch.ones_like(block, dtype=torch.bool).triu(1)
            apart = block[later]
            weight = (weights[start : start + len(block), None] * weights[start:])[later]
            yield (apart * (n_cells / widest)).long(), apart, weight

    counts = probs.new_zeros(n_cells)
    for cell, _, weight in weighted_pairs():
        counts += torch.bincount(cell, weight, n_cells)
    ends = counts.cumsum(0)
    low, high = (int(torch.searchsorted(ends, rank, right=True).clamp(max=n_cells - 1)) for rank in wanted)
    near = []
    for cell, apart, weight in weighted_pairs():
        here = (cell >= low) & (cell <= high)
        near.append((apart[here], weight[here]))
    inside, order = torch.cat([apart for apart, _ in near]).sort()
    filled = torch.cat([weight for _, weight in near])[order].cumsum(0) + (ends[low] - counts[low])
    places = [int(torch.searchsorted(filled, rank, right=True).clamp(max=len(inside) - 1)) for rank in wanted]
    return float(inside[places].mean())


def _pair_sums(probs: Tensor, residual: Tensor, distance: Distance, width: float) -> tuple[Tensor, Tensor]:
    """Add up k(p_i, p_j) r_i · r_j over i < j, and r_i · r_i over i."""
    total = probs.new_zeros(())
    for start, block in _blocks(probs, distance):
        kernel = block.div_(-width).exp_()
        rows = kernel.shape[0]
        kernel[:, :rows].triu_(1)
        total += ((kernel @ residual[start:]) * residual[start : start + rows]).sum()
    return total, residual.square().sum()


@METRICS.register(
    "skce",
    label="SKCE",
    lower_is_better=True,
    range=(-2.0, 2.0),
    unit="",
    digits=5,
    perfect=0.0,
    reference="Widmann et al. 2019, arXiv:1910.11385",
    whole="its sum goes over pairs of examples",
    interval="none",
    quadratic=True,
)
def skce(
    probs: Values,
    labels: Values,
    weights: Values | None = None,
    *,
    estimator: Estimator = "biased",
    distance: Distance = "euclidean",
    width: float | None = None,
) -> Tensor:
    r"""Squared kernel calibration error of the whole predicted distribution, not only of its top label.

    .. math:: \frac{1}{n^2} \sum_{i,j} (e_{y_i} - p_i)^T (e_{y_j} - p_j) \exp(-d(p_i, p_j) / w)

    Takes O(n²) time and O(n) memory. On two classes with the same kernel of the confidence it is twice
    :func:`~surefoot.metrics.kce.squared_kce`.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike. A row of weight w is w distinct
            examples, whose pairs with each other count too; for ``unbiased`` and the median distance, weights that are
            not all whole numbers are scaled to a mean of 1, and for ``linear`` they weigh the pairs.
        estimator: ``biased``, ``unbiased`` or ``linear``, as for the top label.
        distance: Euclidean, or total variation (half the sum of absolute differences).
        width: Of the kernel; when left out, the median distance of all pairs (1 if that is 0).

    Returns:
        Scalar, float64; lower is better.

    Raises:
        OptionError: If an option is not one of these.

    Example:
        >>> from torch import tensor
        >>> skce(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))  # |(.25, −.25) + (−.75, .75)|² / 4
        tensor(0.1250, dtype=torch.float64)
    """
    p, truth, counts = check_weighted(probs, labels, weights)
    if counts is not None and estimator == "linear" and whole(counts):
        p, truth = repeated(counts, p, truth)
        counts = None
    p = p.double()
    n = len(p)
    if width is None:
        scaled = None if counts is None else as_counts(counts)
        several = n > 1 or (scaled is not None and bool(scaled.sum() > 1))
        width = median_distance(p, scaled, distance=distance) if several else 0.0
        width = width if width > 1e-6 else 1.0  # below, equal rows and rounding
    if not width > 0:
        raise OptionError(f"Expected a kernel width > 0, but got {width}. Leave it out for the median distance.")
    residual = torch.nn.functional.one_hot(truth, p.shape[1]).double() - p
    if estimator == "linear":
        half = n // 2 * 2
        apart = _lengths(p[0:half:2] - p[1:half:2], distance)
        of_pairs = None if counts is None else counts[0:half:2] * counts[1:half:2]
        return mean((-apart / width).exp() * (residual[0:half:2] * residual[1:half:2]).sum(1), of_pairs)
    if estimator not in ("biased", "unbiased"):
        raise OptionError(f"Expected estimator biased, unbiased or linear, but got {estimator!r}.")
    if counts is not None:
        return _weighted(
            p, residual, counts if estimator == "biased" else as_counts(counts), estimator, distance, width
        )
    different, same = _pair_sums(p, residual, distance, width)
    return (2 * different + same) / n**2 if estimator == "biased" else 2 * different / (n * (n - 1.0))


def _weighted(
    p: Tensor, residual: Tensor, weights: Tensor, estimator: Estimator, distance: Distance, width: float
) -> Tensor:
    different, same = _pair_sums(p, weights[:, None] * residual, distance, width)
    n = weights.sum()
    if estimator == "biased":
        return (2 * different + same) / n.square()
    return (2 * different + (weights * (weights - 1) * residual.square().sum(1)).sum()) / (n * (n - 1))
