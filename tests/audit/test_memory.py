"""A large file is read in pieces: memory stays below twice its size, measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

SCRIPT = """
import resource, sys
import torch
torch.set_num_threads(1)
from surefoot.audit import audit
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
audit(sys.argv[1])  # everything is imported and has run once
before = peak()
audit(sys.argv[2])
print(peak() - before)
"""


def test_two_million_rows_need_less_than_twice_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((2_000_000, 10), dtype=np.float32)
    labels = rng.integers(0, 10, len(logits))
    np.savez(tmp_path / "large.npz", logits=logits, labels=labels)
    np.savez(tmp_path / "small.npz", logits=logits[:100], labels=labels[:100])
    del logits, labels
    words = [sys.executable, "-c", SCRIPT, str(tmp_path / "small.npz"), str(tmp_path / "large.npz")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2 * (tmp_path / "large.npz").stat().st_size
