"""The only place where global random state is set.

Every random function elsewhere takes a ``torch.Generator``. Streams for different purposes are derived from
one seed by name, so adding a new consumer of randomness never shifts the others.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class RngState(NamedTuple):
    """Where the global generators are.

    Attributes:
        torch: The CPU's, which dropout draws from.
        cuda: One per GPU in use.
        numpy: NumPy's, which many a mixup draws from.
        python: That of :mod:`random`.
    """

    torch: Tensor
    cuda: list[Tensor]
    numpy: Any
    python: Any


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
    """Give the state of all global generators: what a model or a closure draws may come from any of them."""
    on_gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return RngState(torch.get_rng_state(), on_gpu, np.random.get_state(legacy=False), random.getstate())


def set_rng_state(state: RngState) -> None:
    """Set all global generators to an earlier state."""
    torch.set_rng_state(state.torch)
    if state.cuda:
        torch.cuda.set_rng_state_all(state.cuda)
    np.random.set_state(state.numpy)
    random.setstate(state.python)


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
    """Draw the numbers of one purpose of one seed for a while, then go on as if nothing had been drawn.

    Args:
        seed: The run's seed.
        purpose: What the numbers are for.
    """
    now = rng_state()
    seed_everything(seed, purpose)
    try:
        yield
    finally:
        set_rng_state(now)


def random_state() -> dict[str, Any]:
    """Give the state of all global generators, as tensors and plain values."""
    on_cpu, on_gpu, numpy, python = rng_state()
    return {
        "torch": on_cpu,
        "cuda": on_gpu,
        "numpy": [numpy["state"]["key"].tolist(), numpy["state"]["pos"], numpy["has_gauss"], numpy["gauss"]],
        "python": python,
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Set all global generators to an earlier state."""
    keys, position, has_gauss, gauss = state["numpy"]
    numpy = ("MT19937", np.array(keys, np.uint32), position, has_gauss, gauss)
    set_rng_state(RngState(state["torch"], state["cuda"], numpy, state["python"]))
