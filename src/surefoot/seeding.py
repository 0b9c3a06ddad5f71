"""The only place where global random state is set.

Every random function elsewhere takes a ``torch.Generator``. Streams for different purposes are derived from
one seed by name, so adding a new consumer of randomness never shifts the others.
"""

from __future__ import annotations

import hashlib
import random

import numpy as np
import torch


def derive(seed: int, purpose: str) -> int:
    """Give the sub-seed of ``seed`` that belongs to ``purpose``.

    Args:
        seed: The run's seed.
        purpose: A name such as ``"order/3"``.

    Returns:
        An integer in [0, 2^63).

    Example:
        >>> derive(0, "order/0") != derive(0, "order/1")
        True
    """
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(seed: int, purpose: str) -> torch.Generator:
    """Make a CPU generator for one purpose of one seed.

    Args:
        seed: The run's seed.
        purpose: What the numbers are for.

    Returns:
        A generator that nobody else draws from.
    """
    return torch.Generator().manual_seed(derive(seed, purpose))


def seed_everything(seed: int, purpose: str = "global") -> None:
    """Seed the global generators of Python, NumPy and torch (dropout and weight initialisation draw from them).

    Args:
        seed: The run's seed.
        purpose: What the numbers are for.
    """
    derived = derive(seed, purpose)
    random.seed(derived)
    np.random.seed(derived % 2**32)
    torch.manual_seed(derived)
