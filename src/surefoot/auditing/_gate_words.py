"""Which measures a gate can hold, and how they are named."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from surefoot.auditing._summary import OF_BINS, OF_RISK, RANKS, Summary
from surefoot.errors import InputError
from surefoot.metric_keys import read_metric, read_metrics
from surefoot.metrics.describe import describe, range_of

if TYPE_CHECKING:
    from surefoot.auditing.checked import Check

Side = Literal["max", "min"]
_SHORT = {"gap": "confidence_gap"}
_RISKS = {"ece": "risk_ece", "confidence_gap": "risk_gap"}
_HAVE_INTERVALS = ("exact", "gap", "parts", "corrected", "delong", "log")


@dataclass(frozen=True)
class Shown:
    """How a measure is shown."""

    label: str
    unit: str = "%"
    digits: int = 1
    lower_is_better: bool | None = True

    def write(self, value: float) -> str:
        """Write a value with its unit, if that is percent."""
        if not math.isfinite(value):
            return "–" if math.isnan(value) else "∞"
        return f"{self._number(value)} %" if self.unit == "%" else self._number(value)

    def ends(self, low: float, high: float) -> str:
        """Write both ends of an interval."""
        return f"{self._number(low)}…{self._number(high)}"

    def _number(self, value: float) -> str:
        return f"{100 * value if self.unit == '%' else value:.{self.digits}f}".replace("-", "−")


def usual(two: bool) -> tuple[str, ...]:
    """List by what predictions are compared with a baseline unless one says otherwise."""
    return ("accuracy", "risk_ece" if two else "ece", "nll")


def canonical(name: str) -> str:
    """Find the measure that a name stands for.

    Args:
        name: As people type it.

    Returns:
        Its key.

    Raises:
        InputError: If there is none, or none with an interval.

    Example:
        >>> canonical("gap"), canonical("top_k_accuracy:k=3")
        ('confidence_gap', 'top_k_accuracy:k=3')
    """
    name = _SHORT.get(name, name)
    if name in (*OF_RISK, *RANKS):
        return name
    (key,) = read_metrics([name])
    part, options = read_metric(key) if "@" not in key else (None, {})
    if part is None:
        raise InputError(f"Expected a metric of the file as it is, but got {key!r}. Check the repaired file instead.")
    if part.name in OF_BINS and key != part.name:
        raise InputError(f"Expected {part.name} without options, but got {key!r}. Say --bins {options['n_bins']}.")
    if part.facts.get("interval") not in _HAVE_INTERVALS:
        raise InputError(
            f"Expected a metric with an interval, such as accuracy, ece, gap, nll or brier, but no interval of "
            f"{part.name} is known to cover: noise could break the gate. Check ece or nll."
        )
    return key


def risk_key(key: str, two: bool, where: str) -> str:
    """Take the risk's measure for the confidence's where there are two classes, as the audit does."""
    if not two and key in (*OF_RISK, *RANKS):
        raise InputError(f"Expected two classes with {key}, but {where} has more. Check {_of_more(key)} instead.")
    return _RISKS.get(key, key) if two else key


def _of_more(key: str) -> str:
    return {"risk_ece": "ece", "risk_gap": "gap"}.get(key, "misclassification_auroc")


def shown_of(key: str, positive: str | None) -> Shown:
    """Say how a measure is shown."""
    if key == "risk_ece":
        return Shown(f"ECE of the risk P({positive})")
    if key == "risk_gap":
        return Shown(f"|mean risk P({positive}) − event rate|")
    if key in RANKS:
        return Shown(f"AUROC of {positive}" if key == "risk_auroc" else "average precision", lower_is_better=False)
    if key == "confidence_gap":
        return Shown("|confidence − accuracy|")
    found: dict[str, Any] = describe(*read_metric(key))
    return Shown(found["label"], found["unit"], found["digits"], found["lower_is_better"])


def check_limit(key: str, side: Side, limit: float) -> None:
    """Refuse a limit that no value could meet or break."""
    share = key in (*OF_RISK, *RANKS, "confidence_gap")
    low, high = (0.0, 1.0) if share else range_of(read_metric(key)[0])
    if not low <= limit <= high or math.isinf(limit):
        there = f"from {low:g} to {high:g}" if math.isfinite(high) else f"of {low:g} or more"
        percent = f"Write {limit / 100:g} for {limit:g} %." if high == 1 and 1 < limit <= 100 else "Change the limit."
        raise InputError(f"Expected --{side} {key} {there}, but got {limit:g}. {percent}")


def check_comparable(key: str, baseline: Summary) -> None:
    """Refuse what cannot be compared with this baseline."""
    if key in (*OF_BINS, *OF_RISK):
        return
    if key in baseline.values:
        if shown_of(key, None).lower_is_better is None:
            raise InputError(f"Expected a metric that has a better direction, but {key} has none. Set a limit instead.")
        return
    if key in RANKS or read_metric(key)[0].facts.get("interval") in ("delong", "log"):
        raise InputError(
            f"Expected a metric whose difference has an interval, but that of {key} has none. Set a limit instead."
        )
    holds = ", ".join((*OF_BINS, *baseline.values))
    raise InputError(
        f"Expected {key} in the baseline, but it holds {holds}. Save it again with a limit on {key}, such as --max."
    )


def show_broken(check: Check) -> str:
    """Say what broke a check."""
    shown, value = check.shown, check.value
    if check.change is None:
        side, limit = ("above" if check.side == "max" else "below"), shown.write(check.limit or 0.0)
        interval = f" ({shown.ends(value.low, value.high)})" if value.known else ""
        return f"{shown.label} is {shown.write(value.estimate)}{interval}, {side} {limit}"
    was = shown.write(check.was.estimate) if check.was is not None else ""
    change = check.change
    moved = f", worse by {_by(shown, change.low, change.high)}" if math.isfinite(change.estimate) else ""
    return f"{shown.label} is {shown.write(value.estimate)}, was {was}{moved}"


def _by(shown: Shown, low: float, high: float) -> str:
    ends = sorted((abs(low), abs(high)))
    return shown.ends(*ends) + (" points" if shown.unit == "%" else "")


def read_limits(side: Side, limits: Mapping[str, float] | Sequence[str] | str) -> list[tuple[Side, str, float]]:
    """Read limits as people type them.

    Args:
        side: ``max`` or ``min``.
        limits: By metric; or texts ``NAME=VALUE``.

    Returns:
        Side, metric and value of each.

    Raises:
        InputError: If a text is something else.

    Example:
        >>> read_limits("max", ["nll=0.5", "top_k_accuracy:k=3=0.9"])
        [('max', 'nll', 0.5), ('max', 'top_k_accuracy:k=3', 0.9)]
    """
    if isinstance(limits, Mapping):
        return [(side, str(key), float(value)) for key, value in limits.items()]
    found = []
    for text in [limits] if isinstance(limits, str) else limits:
        key, _, value = text.rpartition("=")
        try:
            found.append((side, key.strip(), float(value)))
        except ValueError:
            key = ""
        if not key.strip():
            raise InputError(f"Expected --{side} NAME=VALUE, but got {text!r}. Write --{side} nll=0.5.")
    return found
