"""Which data a study uses at which size: the one place that knows."""

from __future__ import annotations

from surefoot.registry import DATA
from surefoot.studies.contract import Size


def pictures(size: Size) -> str:
    """Data for questions about finished networks: the embedded pictures; CIFAR-10 as published at paper size."""
    return "cifar10" if size == "paper" else "fashion"


def hundred_classes(size: Size) -> str:
    """Data for what was published on CIFAR-100: the embedded pictures, but for paper size."""
    return "cifar100" if size == "paper" else "fashion"


def dynamics(size: Size, classes: int = 10) -> str:
    """Data for questions about curvature along training: 5,000 + 5,000 of CIFAR, of CIFAR-10 where it is found."""
    from surefoot.data._places import find  # imports torch, which reading results does not need

    missing = classes == 10 and find(DATA["cifar10"].facts["marks"]) is None
    if size == "smoke" or missing:
        return "fashion"
    return f"cifar{classes}:n_train=5000,n_test=5000"
