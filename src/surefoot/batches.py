"""How examples are divided into batches: one rule for every training step, part of a step and statistic.

A remainder is never a batch of its own. Eight examples left over from 5,000 would make a step at the full learning
rate in a direction that is mostly noise, and whatever is measured right behind it shows that step and not the
training. So an epoch has ⌈n / size⌉ batches, and their sizes differ by at most one.
"""

from __future__ import annotations

from collections.abc import Iterator

from surefoot.errors import InputError


def count_batches(n_examples: int, size: int) -> int:
    """Return how many batches there are: ⌈n / size⌉, but none of a single example unless one is what was asked for.

    BatchNorm cannot use a single example. It is only in question in batches of two, where an odd one joins two others.

    Args:
        n_examples: How many there are to divide.
        size: How many make a batch.

    Returns:
        The number of batches, at least 1.

    Raises:
        InputError: If there is nothing to divide.

    Example:
        >>> count_batches(5000, 128), count_batches(5, 2), count_batches(5, 1)
        (40, 2, 5)
    """
    if n_examples < 1 or size < 1:
        raise InputError(f"Expected examples ≥ 1 and batch size ≥ 1, but got {n_examples} and {size}. Raise them.")
    wanted = -(-n_examples // size)
    return wanted if size == 1 else max(1, min(wanted, n_examples // 2))


def nth_batch(index: int, n_examples: int, n_batches: int) -> slice:
    """Return which examples make one of the batches; where one more is needed, it goes to evenly spread ones.

    Args:
        index: Which batch, from 0.
        n_examples: How many there are to divide.
        n_batches: Among how many batches.

    Returns:
        The examples, by their place in the order.

    Example:
        >>> [nth_batch(index, 10, 4) for index in range(4)]
        [slice(0, 2, None), slice(2, 5, None), slice(5, 7, None), slice(7, 10, None)]
    """
    return slice(index * n_examples // n_batches, (index + 1) * n_examples // n_batches)


def batches(n_examples: int, size: int) -> Iterator[slice]:
    """Go through all batches.

    Args:
        n_examples: How many there are to divide.
        size: How many make a batch.

    Yields:
        The examples of one batch, by their place in the order.

    Example:
        >>> [part.stop - part.start for part in batches(100, 32)]
        [25, 25, 25, 25]
    """
    n_batches = count_batches(n_examples, size)
    for index in range(n_batches):
        yield nth_batch(index, n_examples, n_batches)
