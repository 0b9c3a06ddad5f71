"""Trackers, one file each: what is measured while a network trains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from surefoot.errors import InputError
from surefoot.method import split_methods
from surefoot.registry import TRACKERS
from surefoot.training.tracker import Horizon, Tracker

if TYPE_CHECKING:
    from surefoot.trackers._watch import Watch

__all__ = ["PRESETS", "Watch", "build_trackers", "read_track"]

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


def build_trackers(texts: Sequence[str], horizon: Horizon) -> list[Tracker]:
    """Make trackers as people name them.

    Args:
        texts: For example ``["quality"]``.
        horizon: How long the run is.

    Returns:
        One tracker per text.
    """
    return [TRACKERS.build(TRACKERS.parse(text), horizon) for text in texts]


def __getattr__(name: str) -> Any:
    """Return ``Watch``, which needs this module, when it is first asked for."""
    if name == "Watch":
        from surefoot.trackers._watch import Watch

        return Watch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
