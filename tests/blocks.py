"""Code blocks of the documents: found, and run in a folder that has what they name.

A block that is not run says why in a comment before it, ``<!-- not run: needs the network -->``; one that a test of
its own runs names that test, ``<!-- run by tests/optim/test_document.py -->``.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import torch

from surefoot.metrics import Stream

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>(?:not run: |run by )[^>]+?) -->\s+)?^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^ *```",
    re.DOTALL | re.MULTILINE,
)
_SHELL = ("surefoot", "make", "pip", "python", "ray", "torchrun", "export", "$ ")
# What is appended where a document trains at full size: the last word counts.
SMALL = {
    "train": "--epochs 1 --checkpoint-every 60",
    "compare": "--epochs 1 --seeds 1 --jobs 1",
    "study": "--size smoke --seeds 1",
}


@dataclass(frozen=True)
class Block:
    """A code block, and why it is not run here, if it is not."""

    page: Path
    line: int
    language: str
    code: str
    mark: str | None

    @property
    def is_shell(self) -> bool:
        """Whether it holds commands; blocks without a language do if they begin with one."""
        return self.language in ("bash", "sh", "console") or (not self.language and self.code.startswith(_SHELL))

    @property
    def is_code(self) -> bool:
        """Whether it is to be run, or marked."""
        return self.language == "python" or self.is_shell

    def commands(self) -> list[list[str]]:
        """List the words of every ``surefoot`` command."""
        lines = self.code.replace("\\\n", " ").splitlines()
        words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
        return [each[1:] for each in words if each and each[0] == "surefoot"]


def blocks_of(page: Path) -> list[Block]:
    """List all blocks of a page in their order."""
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, match.start()) + 1, match["language"], dedent(match["code"]), match["mark"])
        for match in _BLOCK.finditer(text)
    ]


def names_at_hand() -> dict[str, Any]:
    """Return what short examples take for granted: predictions, a model in training, and its data."""
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(120, 6, generator=draw), torch.arange(120) % 3
    x[:, :3] += 2 * torch.nn.functional.one_hot(y, 3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    logits = 3 * torch.randn(120, 3, generator=draw)
    probs, data = logits.softmax(-1), torch.utils.data.TensorDataset(x, y)
    return {
        **{"x": x, "y": y, "x_test": x, "y_test": y, "model": model, "logits": logits, "probs": probs, "labels": y},
        **{"probs_a": probs, "probs_b": (logits / 2).softmax(-1), "batches": [(probs, y)]},
        "loader": torch.utils.data.DataLoader(data, batch_size=60),
        "held_out": torch.utils.data.DataLoader(data, batch_size=60),
        "stream_of_another_rank": Stream("ece"),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
    }


def furnish(folder: Path) -> None:
    """Write the files that the documents name into a folder."""
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(300, 3))
    labels = np.array([rng.choice(3, p=p) for p in np.exp(logits / 2) / np.exp(logits / 2).sum(1, keepdims=True)])
    hospital = rng.choice(["north", "south"], 300)
    for name in ("predictions", "validation", "test"):
        order = rng.permutation(300)
        np.savez(folder / f"{name}.npz", logits=logits[order], labels=labels[order], hospital=hospital[order])
    (folder / "results").symlink_to(ROOT / "results")
