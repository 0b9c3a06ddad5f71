"""All rows of a source at once, for tests that are about reading."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.sources import open_predictions
from surefoot.sources.source import Source


def one(source: Any, **told: Any) -> Source:
    """Open the only set of predictions."""
    (found,) = open_predictions(source, **told)
    return found


def scores(source: Source) -> np.ndarray:
    """Read all scores."""
    return np.concatenate([chunk.scores for chunk in source.chunks()])


def labels(source: Source) -> np.ndarray:
    """Read all labels."""
    return np.concatenate([chunk.labels for chunk in source.chunks()])


def weights(source: Source) -> np.ndarray:
    """Read all weights."""
    found = [chunk.weights for chunk in source.chunks()]
    return np.concatenate([each for each in found if each is not None])
