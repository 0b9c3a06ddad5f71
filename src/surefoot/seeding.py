"""The only place where global random state is set.

Every random function elsewhere takes a ``torch.Generator``. Streams for different purposes are derived from
one seed by name, so adding a new consumer of randomness never shifts the others.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.random.mtrand import get_bit_generator
from torch import Tensor

from surefoot.errors import InputError


class RngState(NamedTuple):
    """Where the global generators are.

    Attributes:
        torch: The CPU's, which dropout draws from.
        cuda: One per GPU in use.
        numpy: NumPy's, which many a mixup draws from.
        python: That of :mod:`random`.
        words: NumPy's state as it lies in memory, but for a normal number that waits to be drawn.
    """

    torch: Tensor
    cuda: list[Tensor]
    numpy: Any
    python: Any
    words: bytes = b""


def derive(seed: int, purpose: str) -> int:
    """Return the sub-seed of ``seed`` that belongs to ``purpose``.

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


_last: RngState | None = None  # so that NumPy, which takes long to ask, is asked only when it has moved


def rng_state() -> RngState:
    """Return the state of all global generators: what a model or a closure draws may come from any of them."""
    global _last
    on_gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    words = _words()
    # A normal number that waits to be drawn could have been drawn without a trace in the words.
    rests = _last is not None and words and _last.words == words and not _last.numpy["has_gauss"]
    numpy = _last.numpy if _last is not None and rests else np.random.get_state(legacy=False)
    _last = RngState(torch.get_rng_state(), on_gpu, numpy, random.getstate(), words)
    return _last


def _words() -> bytes:
    """Read NumPy's global generator where it lies: to ask for its state takes as long as a small layer takes to run."""
    source = get_bit_generator()
    is_known = type(source) is np.random.MT19937
    return ctypes.string_at(source.ctypes.state_address, 625 * 4) if is_known else b""  # 624 numbers and a place


def set_rng_state(state: RngState, *, numpy: bool = True) -> None:
    """Set all global generators to an earlier state.

    Args:
        state: What :func:`rng_state` gave.
        numpy: Whether NumPy's is among those that have moved.
    """
    global _last
    torch.set_rng_state(state.torch)
    if state.cuda:
        torch.cuda.set_rng_state_all(state.cuda)
    if numpy:
        np.random.set_state(state.numpy)
        _last = None
    random.setstate(state.python)


@contextmanager
def replaying(state: RngState | None) -> Iterator[None]:
    """Draw the numbers that were drawn since ``state`` once more, then go on as if nothing had been drawn.

    Args:
        state: Where to start; None for drawing new numbers.
    """
    if state is None:
        yield
        return
    now = rng_state()
    is_still = now.numpy is state.numpy
    set_rng_state(state, numpy=not is_still)
    try:
        yield
    finally:
        set_rng_state(now, numpy=not (is_still and _words() == state.words))


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
    """Return the state of all global generators, as tensors and plain values."""
    now = rng_state()
    numpy = now.numpy
    return {
        "torch": now.torch,
        "cuda": now.cuda,
        "numpy": [numpy["state"]["key"].tolist(), numpy["state"]["pos"], numpy["has_gauss"], numpy["gauss"]],
        "python": now.python,
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Set all global generators to an earlier state."""
    keys, position, has_gauss, gauss = state["numpy"]
    numpy = ("MT19937", np.array(keys, np.uint32), position, has_gauss, gauss)
    set_rng_state(RngState(state["torch"], state["cuda"], numpy, state["python"]))


def set_threads(n: int) -> None:
    """Say how many threads torch uses.

    Args:
        n: At least 1; results depend on it in the last bits.

    Raises:
        InputError: If it is none, or more than any machine makes use of.
    """
    most = max(256, 4 * (os.cpu_count() or 1))
    if not 1 <= n <= most:
        raise InputError(f"Expected from 1 to {most} threads, but got {n}. Write --threads 1, say.")
    torch.set_num_threads(n)
