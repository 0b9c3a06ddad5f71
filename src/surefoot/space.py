"""What a search may choose: ``csam:rho=0.02..0.5 log,gamma=0|1|2`` has a range on a logarithmic scale and a list.

A range of whole numbers, ``every=1..8``, gives whole numbers. What is not a range or a list stays as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from surefoot.errors import InputError

DIGITS = 4  # of a number that is drawn: more would make every name unreadable, and no run any better
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_WORD = r"(?:(?!\+\s*[A-Za-z_])[^,:=|\s])+"  # up to the next option or part; the plus of 1e+3 belongs to it
_RANGE = rf"(?P<low>{_NUMBER})\s*\.\.\s*(?P<high>{_NUMBER})(?P<log>\s+log)?(?=\s*(?:,|$|\+\s*[A-Za-z_]))"
_GAP = re.compile(rf"(?P<name>\w+)\s*=\s*(?:{_RANGE}|(?P<list>{_WORD}(?:\s*\|\s*{_WORD})+))")
_PART = re.compile(r"\+\s*(?=[A-Za-z_])")
HOW = "Write csam:rho=0.02..0.5 log,gamma=0|1|2."


@dataclass(frozen=True)
class Interval:
    """All numbers from ``low`` to ``high``; whole ones if ``is_whole``, on a logarithmic scale if ``is_log``."""

    low: float
    high: float
    is_log: bool = False
    is_whole: bool = False


@dataclass(frozen=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Space:
    """A method with gaps, and what each may become.

    Attributes:
        text: As it was written.
        method: With gaps in braces, ``csam:rho={rho}``.
        gaps: What each may become.

    Example:
        >>> space = read_space("csam:rho=0.02..0.5 log,gamma=0|1|2")
        >>> space.method
        'csam:rho={rho},gamma={gamma}'
        >>> space.gaps["gamma"]
        Choice(words=('0', '1', '2'))
        >>> space.fill({"rho": 0.123456, "gamma": "2"})
        {'rho': 0.1235, 'gamma': '2'}
    """

    text: str
    method: str
    gaps: Mapping[str, Interval | Choice]

    def fill(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """Return what was drawn as it is used: numbers with four digits, within their range."""
        return {name: _rounded(value, self.gaps[name]) for name, value in drawn.items()}

    @property
    def settings(self) -> list[dict[str, Any]] | None:
        """All settings of a space of lists; None where there is a range."""
        lists = [gap.words for gap in self.gaps.values() if isinstance(gap, Choice)]
        if len(lists) < len(self.gaps):
            return None
        return [dict(zip(self.gaps, words, strict=True)) for words in product(*lists)]


def read_space(text: str) -> Space:
    """Read what a search may choose.

    Args:
        text: A method in which values are ranges, ``0.02..0.5`` or ``0.02..0.5 log``, or lists, ``0|1|2``.

    Returns:
        The method with gaps, and what each may become.

    Raises:
        InputError: If there is nothing to search, or a range cannot be drawn from.
    """
    gaps: dict[str, Interval | Choice] = {}

    def take(match: re.Match[str]) -> str:
        name = match["name"]
        if name in gaps:  # of an earlier part: focal:gamma=1|2 + csam:gamma=0|1
            part = _PART.split(text[: match.start()])[-1].partition(":")[0].strip()
            name = f"{re.sub(r'[^A-Za-z0-9]+', '_', part)}_{name}"
        if name in gaps:
            raise InputError(f"Expected one value of {match['name']}, but got two in {text!r}. {HOW}")
        gaps[name] = _gap(match, text)
        return f"{match['name']}={{{name}}}"

    method = _GAP.sub(take, text).strip()
    if not gaps or "|" in method or ".." in method or re.search(r"\s(log)\b", method):
        raise InputError(f"Expected a method with ranges or lists to search in, but got {text!r}. {HOW}")
    return Space(text.strip(), method, gaps)


def _gap(match: re.Match[str], text: str) -> Interval | Choice:
    if match["list"]:
        return Choice(tuple(dict.fromkeys(word.strip() for word in match["list"].split("|"))))
    low, high, is_log = float(match["low"]), float(match["high"]), bool(match["log"])
    if not low < high:
        raise InputError(f"Expected a range from a number to a larger one, but got {match[0]!r} in {text!r}. {HOW}")
    if is_log and low <= 0:
        raise InputError(f"Expected a range above 0 for a logarithmic scale, but got {match[0]!r}. Leave log out.")
    is_whole = all(re.fullmatch(r"[+-]?\d+", match[end]) for end in ("low", "high"))
    return Interval(low, high, is_log, is_whole)


def _rounded(value: Any, gap: Interval | Choice) -> Any:
    if isinstance(gap, Choice):
        return str(value)
    if gap.is_whole:
        return int(value)
    if value == 0 or not math.isfinite(value):
        return float(value)
    return min(max(float(f"{value:.{DIGITS}g}"), gap.low), gap.high)
