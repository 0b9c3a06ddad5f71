"""Tiny commands that write each kind of file, and what they need."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SETTINGS = "--data npz:small.npz --model mlp:width=4 --epochs 1 --batch-size 45"


@dataclass(frozen=True)
class Command:
    """Words that are typed, after what has to be there.

    Attributes:
        words: Of the command line.
        before: Commands that make what it reads.
        old: Commands that leave older results in the place of its own; what they wrote must be there until the new
            one is whole.
    """

    words: str
    before: tuple[str, ...] = ()
    old: tuple[str, ...] = ()


_TRAIN = f"train --out run {SETTINGS}"
COMMANDS = {
    "train": Command(f"train --out run --method sam --checkpoint-every 0 {SETTINGS}"),
    "train, deep": Command(f"train --out run --method deep:members=2 --checkpoint-every 0 {SETTINGS}"),
    "train, keeping": Command(f"train --out run --keep-checkpoints 1 --track cheap {SETTINGS} --epochs 2"),
    "train, fresh": Command(f"{_TRAIN} --fresh", before=(f"{_TRAIN} --seed 1",)),
    "compare": Command(f"compare --out runs --methods sgd,sam --seeds 1 --jobs 1 {SETTINGS}"),
    "study": Command("study tests.studies.gate:gated --jobs 1 --out runs"),
    "report": Command("report runs --metrics accuracy,smooth_ece", (_TRAIN.replace("run ", "runs/a "),)),
    "measure": Command("measure run --track gn_sharpness", (_TRAIN,)),
    "audit": Command("audit preds.npz --out page.html", old=("audit other.npz --out page.html",)),
    "calibrate": Command(
        "calibrate preds.npz --method temperature --out c.json",
        old=("calibrate other.npz --method temperature --out c.json",),
    ),
    "calibrate, tensors": Command(
        "calibrate preds.npz --method vector --out c.safetensors",
        old=("calibrate other.npz --method vector --out c.safetensors",),
    ),
    **{
        f"repair {kind}": Command(
            f"calibrate preds.npz --apply c.json --out repaired.{kind}",
            before=("calibrate other.npz --method temperature --out c.json",),
            old=(f"calibrate third.npz --apply c.json --out repaired.{kind}",),
        )
        for kind in ("npz", "csv", "json", "jsonl", "csv.gz")
    },
    "conformal": Command(
        "conformal preds.npz --method lac --out sets.json",
        old=("conformal other.npz --method lac --out sets.json",),
    ),
    "check": Command(
        "check preds.npz --max-ece 0.9 --save-baseline b.json --markdown b.md",
        old=("check other.npz --max-ece 0.9 --save-baseline b.json --markdown b.md",),
    ),
}


def prepare(folder: Path, small: Path) -> None:
    """Lay out the files that commands read."""
    folder.mkdir(parents=True)
    shutil.copyfile(small, folder / "small.npz")
    draws = np.random.default_rng(0)
    for name in ("preds", "other", "third"):
        logits = 2 * draws.normal(size=(200, 3))
        labels = (logits + 2 * draws.normal(size=logits.shape)).argmax(1)
        np.savez(folder / f"{name}.npz", logits=logits, labels=labels)
