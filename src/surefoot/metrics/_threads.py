"""Steps of NumPy, which let others run meanwhile, on several parts of the data at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Part = TypeVar("Part")
Result = TypeVar("Result")


def in_threads(run: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """Run a function on each part, in as many threads as torch would use.

    Args:
        run: Steps of NumPy; those of torch would start threads of their own in each thread.
        parts: Its arguments.

    Returns:
        Its results, in the order of the parts.

    Example:
        >>> in_threads(abs, [1, -2, -3])
        [1, 2, 3]
    """
    threads = min(torch.get_num_threads(), len(parts))
    if threads <= 1:
        return [run(part) for part in parts]
    size = -(-len(parts) // threads)  # one share for each thread: handing over part by part costs as much as it gains
    shares = [parts[start : start + size] for start in range(0, len(parts), size)]
    with ThreadPoolExecutor(threads) as pool:
        return [
            result for results in pool.map(lambda share: [run(part) for part in share], shares) for result in results
        ]
