"""How numbers are written: the same way in the terminal and on the page.

Fractions are shown in percent and their differences in percentage points; the unit stands in the column's heading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surefoot.report.measures import Measure
from surefoot.statistics import Estimate, Spread


def show_spread(spread: Spread, column: Measure, *, fine: bool = False) -> str:
    """Write a mean with its standard deviation, or alone where one seed gives none.

    Args:
        spread: Mean and standard deviation over seeds.
        column: What it is a mean of.
        fine: Give percentages a second decimal.

    Returns:
        The text, without unit.

    Example:
        >>> ece = Measure("ece", "ECE")
        >>> show_spread(Spread(0.0365, 0.0043, 3), ece), show_spread(Spread(0.0365, None, 1), ece, fine=True)
        ('3.6 ± 0.4', '3.65')
    """
    digits = column.decimals(fine=fine)
    text = f"{column.scaled(spread.mean):.{digits}f}"
    return text if spread.sd is None else f"{text} ± {column.scaled(spread.sd):.{digits}f}"


def show_difference(difference: Estimate, column: Measure, *, fine: bool = False) -> str:
    """Write a paired difference and, in brackets, its 95 % interval where there is one.

    The only blank is the one before the bracket, so that a narrow column breaks there.

    Args:
        difference: Mean and interval.
        column: What it is a difference of.
        fine: Give percentages a second decimal.

    Returns:
        The text, without unit.

    Example:
        >>> ece = Measure("ece", "ECE")
        >>> show_difference(Estimate(-0.072, -0.088, -0.057, 3), ece)
        '−7.2 (−8.8…−5.7)'
    """
    digits = column.decimals(fine=fine)
    text = signed(column.scaled(difference.value), digits)
    if difference.low is None or difference.high is None:
        return text
    low, high = (signed(column.scaled(end), digits) for end in (difference.low, difference.high))
    return f"{text} ({low}…{high})"


def show_gap(measure: Measure, gap: Mapping[str, Any]) -> str:
    """Write a difference with its interval, if it has one; ● marks one that excludes zero.

    Args:
        measure: What it is a difference of.
        gap: With ``estimate``, ``low`` and ``high``, null for what JSON cannot say.

    Returns:
        The text, without unit.

    Example:
        >>> show_gap(Measure("nll", "NLL", "nats", 3), {"estimate": 0.2, "low": 0.1, "high": 0.3})
        '+0.200 (+0.100…+0.300) ●'
    """
    if gap["estimate"] is None:
        return "–  "
    if gap["low"] is None:
        return f"{signed(measure.scaled(gap['estimate']), measure.digits)}  "
    texts = [signed(measure.scaled(gap[key]), measure.digits) for key in ("estimate", "low", "high")]
    clear = gap["low"] > 0 or gap["high"] < 0
    return f"{texts[0]} ({texts[1]}…{texts[2]}) {'●' if clear else ' '}"


def signed(value: float, digits: int) -> str:
    """Write a number with its sign, a real minus, and no sign at a rounded zero.

    Args:
        value: The number.
        digits: How many decimals.

    Returns:
        The text.

    Example:
        >>> signed(-1.25, 1), signed(0.3, 1), signed(-0.01, 1)
        ('−1.2', '+0.3', '0.0')
    """
    text = f"{abs(value):.{digits}f}"
    if not float(text):
        return text
    return ("−" if value < 0 else "+") + text


def show_percent(fraction: float) -> str:
    """Write a fraction in percent, for sentences; number and unit stay on one line."""
    return f"{100 * fraction:.1f}\u00a0%"


def show_count(number: float) -> str:
    """Write a count with commas between thousands, as every sentence and figure does.

    Args:
        number: Rounded to a whole one.

    Returns:
        The text.

    Example:
        >>> show_count(19200.0), show_count(640)
        ('19,200', '640')
    """
    return f"{number:,.0f}"


def show_seconds(seconds: float) -> str:
    """Write a duration: tenths of seconds while they matter, minutes once they are easier to read.

    Args:
        seconds: The duration.

    Returns:
        The text with its unit.

    Example:
        >>> show_seconds(12.33), show_seconds(204.0), show_seconds(7000)
        ('12.3 s', '3 min 24 s', '1 h 56 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def join(words: list[str]) -> str:
    """Join words as in a sentence.

    Args:
        words: Any number of them.

    Returns:
        One text.

    Example:
        >>> join(["sgd", "sam", "csam"]), join(["sgd"])
        ('sgd, sam and csam', 'sgd')
    """
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)
