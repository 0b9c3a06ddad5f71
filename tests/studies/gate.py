"""A loss that stops a run at a known place, where a test finds it: cross-entropy with a gate before its 14th step.

The gate is a folder. A run that comes to it takes one of the tickets that the test has put there, leaves the number of
its process under the same name, and stays until the process is ended. Where no ticket is left, it passes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.losses._base import Batch, Loss, Scene
from surefoot.schema import LossTerms
from surefoot.statistics import difference
from surefoot.studies import Analysis, Arm, Column, Drawing, Study, above, make_spec, metrics_table
from tests.patience import PATIENCE

STEP = 13  # made before a run stops


class Waiting(Loss):
    """Cross-entropy; counts its steps."""

    steps: Tensor

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        return LossTerms(F.cross_entropy(logits, labels, reduction="none"))

    def prepare(self, model: nn.Module, batch: Batch, scene: Scene) -> Batch:
        if int(self.steps) == STEP:
            wait_at(self.folder)
        return batch

    def observe(self, batch: Batch, outputs: Tensor) -> None:
        self.steps += 1


def waiting(*, folder: str) -> Loss:
    """Cross-entropy that stops where there is a ticket."""
    return Waiting(Path(folder))


def put_tickets(folder: Path, n: int) -> None:
    """Let the next n runs stop."""
    folder.mkdir()
    for number in range(n):
        (folder / f"ticket-{number}").touch()


def wait_at(folder: Path) -> None:
    """Take a ticket, say who is there, and stay; go on at once where there is none."""
    for ticket in sorted(folder.glob("ticket-*")):
        aside = folder / f".{ticket.name}.{os.getpid()}"
        try:
            ticket.rename(aside)
        except FileNotFoundError:  # another run was quicker
            continue
        aside.write_text(str(os.getpid()))
        aside.rename(folder / ticket.name.replace("ticket", "here"))
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            time.sleep(0.01)
        raise TimeoutError("Nobody has ended this process.")


def who_is_there(folder: Path, n: int, is_over: Callable[[], bool] = lambda: False) -> list[int]:
    """Wait until n runs have stopped, and give their processes; none where it is all over before."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if is_over():
            return []
        here = sorted(folder.glob("here-*"))
        if len(here) == n:
            return [int(path.read_text()) for path in here]
        time.sleep(0.01)
    raise TimeoutError(f"Expected {n} runs to come to {folder}, but they did not.")


def gated() -> Study:
    """A study in the present folder: a run, then one that comes to the gate."""
    return Study(
        question="Does a run that waited end as one that did not?",
        published={"sgd": {"ece": 1.0}},
        source="this test",
        rule="Held if the paired difference is above 0 with its interval.",
        grid=lambda size: {"sgd": _arm("sgd"), "waiting": _arm(f"{__name__}:waiting:folder=gate + sgd")},
        analyse=lambda runs: Analysis(
            metrics_table(runs, (Column("ece", "ECE %", percent=True),), {}, {"sgd": "sgd", "waiting": "waiting"}),
            {"difference": difference(runs.measure("sgd", "ece"), runs.measure("waiting", "ece"))},
        ),
        judge=lambda numbers: above(numbers["difference"], 0, "the difference"),
        seeds={"smoke": 1, "laptop": 1, "paper": 1},
        drawings=(Drawing("ece_bars"),),
    )


def _arm(method: str) -> Arm:
    return Arm(make_spec(method, data="npz:small.npz", model="mlp:width=8", epochs=3, batch_size=16))
