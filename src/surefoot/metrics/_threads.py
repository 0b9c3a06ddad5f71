"""Steps of NumPy, which let others run meanwhile, on several shares of the data at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Part = TypeVar("Part")


def in_threads(run: Callable[[Sequence[Part]], None], parts: Sequence[Part]) -> None:
    """Run a function on one share of the parts in each of as many threads as torch would use.

    Args:
        run: Steps of NumPy for the parts that it is given, one after the other; those of torch would start threads
            of their own in each thread. Handing over part by part would cost as much as it gains.
        parts: All of them.

    Example:
        >>> doubled = [0, 0, 0]
        >>> def run(share):
        ...     for i in share:
        ...         doubled[i] = 2 * i
        >>> in_threads(run, range(3))
        >>> doubled
        [0, 2, 4]
    """
    threads = min(torch.get_num_threads(), len(parts))
    if threads <= 1:
        run(parts)
        return
    size = -(-len(parts) // threads)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, [parts[start : start + size] for start in range(0, len(parts), size)]))
