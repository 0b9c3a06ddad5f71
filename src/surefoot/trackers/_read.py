"""Trackers as people name them: presets, names, options."""

from __future__ import annotations

from collections.abc import Sequence

from surefoot.errors import InputError
from surefoot.method import split_methods
from surefoot.moment import Horizon
from surefoot.registry import TRACKERS
from surefoot.training.tracker import Tracker

PRESETS = ("cheap", "standard", "full")  # each holds those before it


def read_track(text: str) -> tuple[str, ...]:
    """Read what people type after ``--track``: presets and trackers, separated by commas.

    Args:
        text: For example ``"standard"`` or ``"cheap,gn_sharpness:every=5"``.

    Returns:
        One text per tracker with all its options, cheapest first; of one that is named twice, the last counts.

    Raises:
        InputError: If one is unknown.

    Example:
        >>> read_track("gn_sharpness:every=5")
        ('gn_sharpness:every=5,examples=256,tol=0.001',)
    """
    found: dict[str, str] = {}
    for piece in split_methods(text):
        if piece in PRESETS:
            within = PRESETS[: PRESETS.index(piece) + 1]
            found.update({part.name: str(part.spec({})) for part in TRACKERS if part.facts.get("preset") in within})
        else:
            spec = TRACKERS.parse(piece)
            found[spec.name] = str(spec)
    if not found:
        raise InputError(f"Expected trackers, but got {text!r}. Write --track {' or --track '.join(PRESETS)}.")
    return tuple(sorted(found.values(), key=_rank))


def _rank(text: str) -> tuple[int, str]:
    preset = TRACKERS.read(text)[0].facts.get("preset")
    return PRESETS.index(preset) if preset in PRESETS else len(PRESETS), text


def build_trackers(texts: Sequence[str], horizon: Horizon) -> dict[str, Tracker]:
    """Make trackers as people name them.

    Args:
        texts: For example ``["quality"]``.
        horizon: How long the run is.

    Returns:
        The trackers by name.
    """
    specs = [TRACKERS.parse(text) for text in texts]
    return {spec.name: TRACKERS.build(spec, horizon) for spec in specs}
