"""How a measure is shown, from what its metric declared: the same name, unit and meaning wherever it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Measure:
    """What is known of a quantity that is shown.

    Attributes:
        key: What it is called in records and on the command line.
        label: What people call it.
        unit: ``%`` for fractions that are shown in percent.
        digits: Decimals; on a page percentages get one more.
        lower_is_better: None where neither direction is better.
        meaning: In a sentence.
        log: Whether a logarithmic axis shows it best.
    """

    key: str
    label: str
    unit: str = "%"
    digits: int = 1
    lower_is_better: bool | None = None
    meaning: str = ""
    log: bool = False

    @classmethod
    def of(cls, key: str, record: Mapping[str, Any]) -> Measure:
        """Read what a record says of its metric; of one that says nothing the key has to do."""
        unit = record.get("unit", "")
        digits = record.get("digits", 1 if unit == "%" else 3)
        better, meaning = record.get("lower_is_better"), record.get("meaning", "")
        return cls(key, record.get("label", key), unit, digits, better, meaning)

    @property
    def percent(self) -> bool:
        """Whether fractions are shown in percent."""
        return self.unit == "%"

    @property
    def heading(self) -> str:
        """What stands above a column of numbers."""
        return f"{self.label} %" if self.percent else self.label

    @property
    def title(self) -> str:
        """What stands above a figure."""
        return self.label[:1].upper() + self.label[1:]

    @property
    def better(self) -> str:
        """Which direction is better, in words; empty where neither is."""
        if self.lower_is_better is None:
            return ""
        return "lower is better" if self.lower_is_better else "higher is better"

    def decimals(self, *, fine: bool = False) -> int:
        """Return how many decimals are shown; a page has room for one more in percentages than a terminal."""
        return self.digits + (fine and self.percent)

    def scaled(self, value: float) -> float:
        """Return the number that is shown."""
        return 100 * value if self.percent else value


def show(measure: Measure, value: float | None, *, fine: bool = False) -> str:
    """Write a value with its unit, if that is percent; what JSON could not say is infinite.

    Args:
        measure: What it is a value of.
        value: A fraction, or a plain number.
        fine: Give percentages a second decimal.

    Returns:
        The text.

    Example:
        >>> show(Measure("ece", "ECE"), 0.8342), show(Measure("nll", "NLL", "nats", 3), None)
        ('83.4 %', '∞')
    """
    if value is None:
        return "∞"
    text = f"{measure.scaled(value):.{measure.decimals(fine=fine)}f}".replace("-", "−")
    return f"{text} %" if measure.percent else text


def show_limit(measure: Measure, chance: Mapping[str, Any] | None, *, fine: bool = False) -> str:
    """Write what chance alone seldom exceeds, or nothing where that is no question.

    Args:
        measure: What it is a limit of.
        chance: With ``limit``.
        fine: Give percentages a second decimal.

    Returns:
        The text.

    Example:
        >>> show_limit(Measure("ece", "ECE"), {"expected": 0.01, "limit": 0.0153})
        'up to 1.5 %'
    """
    return f"up to {show(measure, chance['limit'], fine=fine)}" if chance else ""


def show_interval(measure: Measure, interval: Mapping[str, Any], *, fine: bool = False) -> str:
    """Write both ends without unit, or nothing where there are none.

    Args:
        measure: What it is an interval of.
        interval: With ``low`` and ``high``.
        fine: Give percentages a second decimal.

    Returns:
        The text.

    Example:
        >>> show_interval(Measure("confidence_gap", "confidence − accuracy"), {"low": -0.01, "high": 0.025})
        '−1.0…2.5'
    """
    low, high = interval["low"], interval["high"]
    if low is None or high is None:
        return ""
    digits = measure.decimals(fine=fine)
    return "…".join(f"{measure.scaled(end):.{digits}f}" for end in (low, high)).replace("-", "−")
