"""The tasks on which steering by held-out rows is judged: data, network and training of each.

Every seed divides the data anew. Nothing about the controller was chosen on them: ``benchmarks/steering.py`` has the
tasks on which that was done.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import UNTRACKED, Tracking
from surefoot.studies.compare import make_spec
from surefoot.studies.contract import Arm, Size

N_TASKS = 13  # where all data are found
FASHION = "redivided:of=fashion,seed={seed}"
DIGITS = "redivided:of=digits,seed={seed}"
PICTURES = "redivided:of=cifar10:n_train={n};n_test=4000,seed={{seed}}"
HUNDRED = "redivided:of=cifar100:n_train=5000;n_test=4000,seed={seed}"
NOISY = "noisy:of=redivided:of=fashion;seed={seed},rate=0.2,seed={seed}"
TABLE = "make_classification:rare=0.0476,seed={seed}"
TREC = "redivided:of=text:text/trec;vocabulary=2000;length=24;calibration=0.2;n_train=2000,seed={seed},test=false"
SST2 = "redivided:of=text:text/sst2;vocabulary=2000;length=24;n_train=2000,seed={seed},test=false"


@dataclass(frozen=True)
class Task:
    """What is trained on what.

    Attributes:
        data: As on the command line, with ``{seed}``.
        model: The network.
        epochs: Passes over the training split.
        batch_size: Examples per step.
        augment: What is done to training images.
        base: The optimizer below.
        rivals: Whether other ways to calibrate and cheaper ones are tried here as well.
    """

    data: str
    model: str
    epochs: int
    batch_size: int = 128
    augment: str = "none"
    base: str = "sgd"
    rivals: bool = False

    def arm(self, method: str, *, epochs: int | None = None, watched: bool = False) -> Arm:
        """Return one way to train on it.

        Args:
            method: As on the command line; around the task's base.
            epochs: Others than the task's.
            watched: Whether to follow all test examples along training, as early stopping needs it.

        Returns:
            The arm.
        """
        settings: dict[str, Any] = {"model": self.model, "batch_size": self.batch_size, "augment": self.augment}
        settings |= {"channels_last": "cnn" in self.model or "resnet" in self.model}
        spec = make_spec(
            _around(method, self.base), data=self.data.format(seed=0), epochs=epochs or self.epochs, **settings
        )
        return Arm(spec, Tracking(("quality:examples=5000",)) if watched else UNTRACKED, data=self.data)


def _around(method: str, base: str) -> str:
    """Put a method around the task's base; ``base`` alone stands for that one, and losses stand before a plus."""
    *loss, optimizer = [piece.strip() for piece in method.split("+ ")]
    name, _, options = optimizer.partition(":")
    if name == "base":
        chosen = f"{base}:{options}" if options else base
    else:
        chosen = f"{name}:{options + ',' if options else ''}base={base}"
    return " + ".join([*loss, chosen])


def tasks(size: Size) -> dict[str, Task]:
    """Return the tasks by name, the quick ones first; without those whose data are not on this machine."""
    if size == "smoke":
        return {
            "digits": Task(DIGITS, "mlp:width=16", 2, 500, rivals=True),
            "fashion": Task(FASHION, "mlp:width=16", 1, 500),
        }
    few, many = PICTURES.format(n=5000), PICTURES.format(n=2500)
    found = {
        "fashion, MLP": Task(FASHION, "mlp", 40, rivals=True),
        "fashion, batch 64": Task(FASHION, "mlp", 40, 64),
        "fashion, batch 512": Task(FASHION, "mlp", 40, 512),
        "fashion, 20 % wrong labels": Task(NOISY, "mlp", 40),
        "digits, MLP": Task(DIGITS, "mlp", 40),
        "table 1:20, MLP": Task(TABLE, "mlp", 30),
        "TREC, transformer": Task(TREC, "text_transformer:vocabulary=2000", 10, base="adamw", rivals=True),
        "SST-2, transformer": Task(SST2, "text_transformer:vocabulary=2000", 10, base="adamw"),
        "CIFAR-10, CNN": Task(few, "cnn:width=8", 20, rivals=True),
        "CIFAR-10, CNN, augmented": Task(few, "cnn:width=8", 20, augment="standard"),
        "CIFAR-100, CNN": Task(HUNDRED, "cnn:width=8", 20),
        "CIFAR-10, ResNet-8": Task(many, "resnet8", 10),
        "CIFAR-10, ResNet-8, augmented": Task(many, "resnet8", 10, augment="standard"),
    }
    return {name: task for name, task in found.items() if _is_here(task.data)}


@cache
def _is_here(data: str) -> bool:
    """Return whether data can be loaded: some have to be downloaded, or an extra installed."""
    from surefoot.data import load_splits

    try:
        load_splits(DATA.parse(data.format(seed=0)))
    except InputError:
        return False
    return True
