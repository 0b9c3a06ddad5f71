"""Draws with replacement: rows of indices, and what they do to the sums of bins."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from surefoot.errors import OptionError
from surefoot.metrics._binning import bin_index
from surefoot.metrics._weights import ratio, sizes

_AT_ONCE = 1 << 16  # draws; their counts then stay in the cache


def resamples(n: int, n_resamples: int, source: Generator) -> Iterator[Tensor]:
    """Draw n of n examples with replacement, again and again.

    Args:
        n: How many examples there are.
        n_resamples: How often.
        source: Where the randomness comes from.

    Yields:
        Indices, shape ``(some, n)``, until ``n_resamples`` rows have been given.

    Raises:
        OptionError: If nothing is to be drawn.
    """
    if n_resamples < 1:
        raise OptionError(f"Expected n_resamples ≥ 1, but got {n_resamples}. 1000 is usual.")
    rows = max(1, _AT_ONCE // n)
    for start in range(0, n_resamples, rows):
        yield torch.randint(n, (min(rows, n_resamples - start), n), generator=source)


class BinnedDraws:
    """Sums of equal-width bins on drawn examples.

    How often each example was drawn is counted first; with examples sorted by bin, a bin's sums are then a small
    matrix product, which is several times faster than looking every draw up.

    Args:
        confidence: Shape ``(n,)``.
        correct: Shape ``(n,)``.
        n_bins: Number of bins.
        weights: How much each row counts; None where all count alike.
    """

    def __init__(self, confidence: Tensor, correct: Tensor, n_bins: int, weights: Tensor | None = None) -> None:
        sorted_bin, self._order = bin_index(confidence, n_bins).sort()
        c = confidence[self._order].double()
        self._columns = torch.stack([torch.ones_like(c), c, correct[self._order].double()], 1)
        if weights is not None:
            w = weights[self._order, None]
            rows = torch.cat([torch.ones_like(w), (w != w.floor()).double()], 1)
            self._columns = torch.cat([w * self._columns, w * w * self._columns[:, [0, 2]], rows], 1)
        self._sizes = torch.bincount(sorted_bin, minlength=n_bins).tolist()

    def of_anyone(self, drawn: Tensor) -> Tensor:
        """Add up rows of draws where it does not matter which number means which example.

        Args:
            drawn: Numbers below n, shape ``(rows, draws)``; overwritten.

        Returns:
            Shape ``(rows, 3, n_bins)``, float64: count, sum of confidence, sum of correctness; 7 with weights.
        """
        rows, n = len(drawn), len(self._columns)
        drawn += torch.arange(rows)[:, None] * n
        times = torch.bincount(drawn.view(-1), minlength=rows * n).view(rows, n).double()
        pairs = zip(times.split(self._sizes, 1), self._columns.split(self._sizes), strict=True)
        return torch.stack([t @ x for t, x in pairs], 2)

    def of_these(self, drawn: Tensor) -> Tensor:
        """Add up rows of draws of the very examples they name.

        Args:
            drawn: Indices of examples, shape ``(rows, draws)``.

        Returns:
            Shape ``(rows, 3, n_bins)``, float64.
        """
        return self.of_anyone(self._order.argsort()[drawn])


def multinomial_replicates(sums: Tensor, n_resamples: int, source: Generator) -> Tensor:
    """Draw hits and misses of every bin from their joint multinomial distribution.

    With weights, each counts as many as its effective number, and weighs as much as it did.

    Args:
        sums: Shape ``(3, n_bins)``, float64; with weights ``(7, n_bins)``.
        n_resamples: How often.
        source: Where the randomness comes from.

    Returns:
        Shape ``(n_resamples, 3, n_bins)``, float64, with every confidence at the mean of its bin.
    """
    count, confidence, correct = sums[:3].unbind()
    cells = torch.cat([correct, count - correct]).clamp(min=0)
    usual = torch.ones_like(cells)
    if len(sums) > 3:
        usual = ratio(torch.cat([sums[4], sums[3] - sums[4]]).clamp(min=0), cells)
        cells = ratio(cells, usual)
    left = (cells.sum() + 1e-6).floor().expand(n_resamples).clone()
    behind = cells.flip(0).cumsum(0).flip(0)
    drawn = []
    for cell, rest in zip(cells, behind, strict=True):
        chance = (cell / rest).clamp(0, 1) if rest > 0 else cell
        drawn.append(torch.binomial(left, chance.expand(n_resamples).contiguous(), generator=source))
        left = left - drawn[-1]
    hits, misses = (torch.stack(drawn, 1) * usual).chunk(2, 1)
    found = torch.stack([hits + misses, (hits + misses) * ratio(confidence, count), hits], 1)
    return found if len(sums) == 3 else _with_rest(sums, found)


def _with_rest(sums: Tensor, first: Tensor) -> Tensor:
    """Put the other rows of weighted sums behind the three that were drawn."""
    return torch.cat([first, sums[3:].expand(len(first), *sums[3:].shape)], 1)


def replicates_of_hits(sums: Tensor, hits: Tensor) -> Tensor:
    """Return sums of bins with other hits.

    Args:
        sums: Shape ``(3, n_bins)`` or ``(7, n_bins)``.
        hits: Shape ``(n_resamples, n_bins)``.

    Returns:
        Shape ``(n_resamples, 3, n_bins)`` or ``(n_resamples, 7, n_bins)``.
    """
    found = torch.stack([*sums[:2, None].expand(2, len(hits), -1), hits], 1)
    return found if len(sums) == 3 else _with_rest(sums, found)


def hits_by_chance(sums: Tensor, n_resamples: int, source: Generator) -> Tensor:
    """Draw each bin's hits as if its mean confidence were right.

    Args:
        sums: Shape ``(3, n_bins)``; with weights ``(7, n_bins)``.
        n_resamples: How often.
        source: Where the randomness comes from.

    Returns:
        Shape ``(n_resamples, n_bins)``.
    """
    sums = sums.double()
    return drawn_hits(sums, ratio(sums[1], sums[0]).clamp(0, 1), n_resamples, source)


def drawn_hits(sums: Tensor, odds: Tensor, n_resamples: int, source: Generator) -> Tensor:
    """Draw each bin's hits: of its examples, or with weights of as many equal rows as it is worth.

    Args:
        sums: Shape ``(3, n_bins)``; with weights ``(7, n_bins)``.
        odds: Of a hit, shape ``(n_bins,)``.
        n_resamples: How often.
        source: Where the randomness comes from.

    Returns:
        Shape ``(n_resamples, n_bins)``, in units of the bins' counts.
    """
    size, shape = sizes(sums), (n_resamples, sums.shape[1])
    hits = torch.binomial(size.expand(shape).contiguous(), odds.expand(shape).contiguous(), generator=source)
    return hits if len(sums) == 3 else hits * ratio(sums[0], size)
