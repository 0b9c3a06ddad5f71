"""When the rules of the studies were fixed, and how small a difference is not what was claimed."""

from __future__ import annotations

from surefoot.studies.contract import Fixed

_FIRST = "the first round, on seeds 0 to 4 and one division of the data for all of them"
_HALF = "A7 to A9, A11 to A13, A15 and C1 of the second"
SECOND_ROUND = Fixed("2026-11-17", "73db3f1", _FIRST)
MIDWAY = Fixed("2026-11-18", "05ec40b", f"{_FIRST}, and {_HALF}")
MORE_SEEDS = Fixed("2026-11-18", "8c69093", f"{_FIRST}, and five seeds of the second")
AGAIN = Fixed("2026-11-19", "111efeb", f"{_FIRST}, and five seeds of the second")
_SHORT = "five seeds of the second with ResNet-8 of 20 epochs, in which SAM did not fit its training set"
LONGER = Fixed("2026-11-19", "657e3f9", f"{_FIRST}, and {_SHORT}")
NEW_LONGER = Fixed("2026-11-19", "657e3f9", f"{_HALF}, and A1, A2, A4 and A10 on {_SHORT}")
OPEN = Fixed("2026-11-19", "1352b30", f"{_HALF}, A1, A2, A4 and A10 on {_SHORT}, and this on five seeds")
SIXTEEN = Fixed("2026-11-19", "2fe51c8", f"{_FIRST}, and five seeds and then ten of the second")
OPEN_ALONG = Fixed("2026-11-19", "640b26a", f"{_FIRST}, and three seeds of the second")
ALONG = Fixed("2026-11-18", "0fb1bb3", "three seeds, with which r was about 0")
MIDWAY_ALONG = Fixed("2026-11-18", "0fb1bb3", f"{_FIRST}, and C3 of the second")
WHOLE = Fixed(
    "2026-11-18",
    "1379cac",
    f"{_FIRST}, and two seeds on which GD's sharpness was that of 1,000 examples and its smallest rate too short",
)

HALF_A_POINT = 0.005  # of ECE: what is certainly less is against a claim without a published difference to go by


def third(points: float) -> float:
    """Return a third of a published difference in percentage points, as a share: what is certainly less is against it.

    Example:
        >>> third(3.0)
        0.01
    """
    return points / 300
