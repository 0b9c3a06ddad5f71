"""Draws with replacement: rows of indices, and what they do to the sums of bins."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from surefoot.errors import OptionError
from surefoot.metrics._binning import bin_index

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
    """

    def __init__(self, confidence: Tensor, correct: Tensor, n_bins: int) -> None:
        sorted_bin, self._order = bin_index(confidence, n_bins).sort()
        c = confidence[self._order].double()
        self._columns = torch.stack([torch.ones_like(c), c, correct[self._order].double()], 1)
        self._sizes = torch.bincount(sorted_bin, minlength=n_bins).tolist()

    def of_anyone(self, drawn: Tensor) -> Tensor:
        """Add up rows of draws where it does not matter which number means which example.

        Args:
            drawn: Numbers below n, shape ``(rows, draws)``; overwritten.

        Returns:
            Shape ``(rows, 3, n_bins)``, float64: count, sum of confidence, sum of correctness.
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

    Args:
        sums: Shape ``(3, n_bins)``, float64.
        n_resamples: How often.
        source: Where the randomness comes from.

    Returns:
        Shape ``(n_resamples, 3, n_bins)``, float64, with every confidence at the mean of its bin.
    """
    count, confidence, correct = sums.unbind()
    cells = torch.cat([correct, count - correct]).clamp(min=0)
    left = count.sum().expand(n_resamples).clone()
    behind = cells.flip(0).cumsum(0).flip(0)
    drawn = []
    for cell, rest in zip(cells, behind, strict=True):
        chance = (cell / rest).clamp(0, 1) if rest > 0 else cell
        drawn.append(torch.binomial(left, chance.expand(n_resamples).contiguous(), generator=source))
        left = left - drawn[-1]
    hits, misses = torch.stack(drawn, 1).chunk(2, 1)
    return torch.stack([hits + misses, (hits + misses) * confidence / count.clamp(min=1), hits], 1)


def hits_by_chance(sums: Tensor, n_resamples: int, source: Generator) -> Tensor:
    """Draw each bin's hits as if its mean confidence were right.

    Args:
        sums: Shape ``(3, n_bins)``.
        n_resamples: How often.
        source: Where the randomness comes from.

    Returns:
        Shape ``(n_resamples, n_bins)``.
    """
    count, confidence, _ = sums.double().unbind()
    odds = (confidence / count.clamp(min=1)).clamp(0, 1)
    shape = (n_resamples, len(count))
    return torch.binomial(count.expand(shape).contiguous(), odds.expand(shape).contiguous(), generator=source)
