"""Which data a study uses at which size: the one place that knows."""

from __future__ import annotations

from surefoot.registry import DATA
from surefoot.studies._cifar10 import find_cifar10
from surefoot.studies.contract import Size

SMALL = "surefoot.studies._cifar10:small_cifar10"


def pictures(size: Size) -> str:
    """Data for questions about finished networks: the embedded pictures; CIFAR-10 as published at paper size."""
    return "cifar10" if size == "paper" else "fashion"


def hundred_classes(size: Size) -> str:
    """Data for what was published on CIFAR-100: the embedded pictures, but for paper size."""
    return "cifar100" if size == "paper" else "fashion"


def dynamics(size: Size) -> str:
    """Data for questions about curvature along training: 5,000 + 5,000 of CIFAR-10 where it is found."""
    if size == "smoke" or find_cifar10() is None:
        return "fashion"
    return "cifar10:n_train=5000,n_test=5000" if "cifar10" in DATA else SMALL
