"""Which data a study uses at which size: the one place that knows.

Wherever it is not the published data as they are, every seed divides them anew: ``{seed}`` stands for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.studies.contract import Size

PLAY = "text/tinyshakespeare.txt"


def pictures(size: Size) -> str:
    """Data for questions about finished networks: the embedded pictures; CIFAR-10 as published at paper size."""
    return "cifar10" if size == "paper" else "redivided:of=fashion,seed={seed}"


def coloured(size: Size, classes: int = 10, *, n_test: int | None = None, keep_test: bool = False) -> str:
    """Data for what was published on CIFAR and hangs on it: 5,000 of it to train on, where it is found.

    Args:
        size: At ``paper``, all of it.
        classes: 10 or 100.
        n_test: At ``laptop``, how many to test on; else all that there are.
        keep_test: Whether all seeds test on the published test images, in their order.

    Returns:
        The data; the embedded pictures at ``smoke`` size and where there are no others.
    """
    if size == "paper":
        return f"cifar{classes}"
    if size == "smoke" or not _is_here(f"cifar{classes}"):
        return pictures(size)
    few = "" if n_test is None else f";n_test={n_test}"
    kept = ",test=false" if keep_test else ""
    share = 0.201 if keep_test else 0.2  # a fifth of 20,000, class by class, is 3,999, and C2 fits on 4,000
    return f"redivided:of=cifar{classes}:n_train=5000;calibration={share}{few},seed={{seed}}{kept}"


def dynamics(size: Size, classes: int = 10) -> str:
    """Data for questions about curvature along training: 5,000 + 5,000 of CIFAR, at paper size too."""
    if size == "paper":
        return f"cifar{classes}:n_train=5000,n_test=5000"
    return coloured(size, classes, n_test=5000)


def _is_here(name: str) -> bool:
    from surefoot.data._places import find  # imports torch, which reading results does not need

    return find(DATA[name].facts["marks"]) is not None


def characters() -> str:
    """Data for a language model: 5,000 stretches of 16 characters to train on, as many to test on."""
    return f"redivided:of=characters:{PLAY};length=16;n_train=5000;n_test=5000,seed={{seed}}"


def has_characters() -> bool:
    """Return whether that text is there."""
    return _file(PLAY) is not None


def votes() -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Read how people name CIFAR-10's test images, as distributions over the classes; None where no file is there."""
    from surefoot.data.people import read_votes  # imports torch, which reading results does not need

    try:
        counts = read_votes().astype(np.float64)
    except InputError:
        return None
    shares: np.ndarray[Any, np.dtype[np.float64]] = counts / counts.sum(1, keepdims=True)
    return shares


def _file(name: str) -> Path | None:
    from surefoot.data._places import candidates  # imports torch, which reading results does not need

    return next(filter(Path.is_file, candidates(name)), None)
