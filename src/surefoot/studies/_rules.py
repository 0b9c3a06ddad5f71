"""When the rules of the studies were fixed."""

from __future__ import annotations

from surefoot.studies.contract import Fixed

SECOND_ROUND = Fixed(
    "2026-11-17", "73db3f1", "the first round, on seeds 0 to 4 and one division of the data for all of them"
)
NEW = Fixed("2026-11-17", "73db3f1")
