"""Every registered score: sets that cover, the same for the same row, saved and read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from surefoot.prediction_sets import fit_sets, load_sets
from surefoot.registry import SETS
from surefoot.schema import Predictions


def rows(n: int, seed: int, split: str) -> Predictions:
    """Logits from whose softmax labels are drawn."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((n, 5))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (probs.cumsum(1) > rng.random((n, 1))).argmax(1)
    return Predictions(logits, labels, split)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [part.name for part in SETS])
def test_covers_what_was_asked_for_and_survives_saving(name: str, tmp_path: Path) -> None:
    sets, test = fit_sets(rows(2000, 0, "calibration"), name, coverage=0.8), rows(4000, 1, "test")
    found = sets.sets(logits=test.logits)
    covered = found[np.arange(len(test.labels)), test.labels].mean()
    assert abs(covered - 0.8) < 0.035  # three standard deviations of both draws; more where scores are not continuous
    np.testing.assert_array_equal(sets.sets(logits=test.logits[:7]), found[:7])  # whatever other rows there are
    larger = fit_sets(rows(2000, 0, "calibration"), name, coverage=0.95).sets(logits=test.logits)
    assert larger.sum() > found.sum()
    sets.save(tmp_path / "sets.json")
    np.testing.assert_array_equal(load_sets(tmp_path / "sets.json").sets(logits=test.logits), found)
