"""The only place where global random state is set.

Every random function elsewhere takes a ``torch.Generator``. Streams for different purposes are derived from
one seed by name, so adding a new consumer of randomness never shifts the others.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

RngState = tuple[Tensor, list[Tensor]]  # of torch's global generators: the CPU's, and one per GPU in use


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


def rng_state() -> RngState:
    """Give the state of torch's global generators, which dropout draws from."""
    on_gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return torch.get_rng_state(), on_gpu


def set_rng_state(state: RngState) -> None:
    """Set torch's global generators to an earlier state."""
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])


@contextmanager
def replaying(state: RngState | None) -> Iterator[None]:
    """Draw the numbers that were drawn since ``state`` once more, then go on as if nothing had been drawn.

    Args:
        state: Where to start; None for drawing new numbers.
    """
    now = rng_state() if state is not None else None
    if state is not None:
        set_rng_state(state)
    try:
        yield
    finally:
        if now is not None:
            set_rng_state(now)


@contextmanager
def seeded(seed: int, purpose: str) -> Iterator[None]:
    """Draw torch's numbers for one purpose of one seed for a while, then go on as if nothing had been drawn.

    Args:
        seed: The run's seed.
        purpose: What the numbers are for.
    """
    now = rng_state()
    torch.manual_seed(derive(seed, purpose))
    try:
        yield
    finally:
        set_rng_state(now)


def random_state() -> dict[str, Any]:
    """Give the state of all global generators, as tensors and plain values."""
    numpy = np.random.get_state(legacy=False)
    on_cpu, on_gpu = rng_state()
    return {
        "torch": on_cpu,
        "cuda": on_gpu,
        "numpy": [numpy["state"]["key"].tolist(), numpy["state"]["pos"], numpy["has_gauss"], numpy["gauss"]],
        "python": random.getstate(),
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Set all global generators to an earlier state."""
    set_rng_state((state["torch"], state["cuda"]))
    keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state(("MT19937", np.array(keys, np.uint32), position, has_gauss, gauss))
    random.setstate(state["python"])
