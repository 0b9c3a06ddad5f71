"""Trackers, one file each: what is measured while a network trains."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.registry import TRACKERS
from surefoot.train.tracker import Horizon, Tracker


def build_trackers(texts: Sequence[str], horizon: Horizon) -> list[Tracker]:
    """Make trackers as people name them.

    Args:
        texts: For example ``["quality"]``.
        horizon: How long the run is.

    Returns:
        One tracker per text.
    """
    return [TRACKERS.build(TRACKERS.parse(text), horizon) for text in texts]
