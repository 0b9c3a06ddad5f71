"""What was found about several labels per row, in a line that a person can act on."""

from __future__ import annotations

from dataclasses import dataclass

from surefoot.metrics.interval import Interval
from surefoot.metrics.multilabel import LabelVerdict
from surefoot.metrics.verdict import CalibrationVerdict


@dataclass(frozen=True)
class LabelFound:
    """One label: its name, its calibration, and how well its probability tells rows apart."""

    name: str
    verdict: LabelVerdict
    auroc: Interval | None


@dataclass(frozen=True)
class LabelRepair:
    """What a calibrator makes of all labels, on rows that it was not fitted on. Fractions; NLL in nats."""

    name: str
    temperature: float | None
    gap: Interval
    ece: Interval
    nll: float
    repairs: bool


@dataclass(frozen=True)
class Labels:
    """Every label, the worst first, and what would repair all of them."""

    each: tuple[LabelFound, ...]
    repairs: tuple[LabelRepair, ...]
    fitted_on: str
    why_no_repair: str

    @property
    def wrong(self) -> tuple[LabelFound, ...]:
        """Those that are miscalibrated, corrected for how many labels there are."""
        return tuple(one for one in self.each if one.verdict.finding != "calibrated")


def label_words(labels: Labels, verdict: CalibrationVerdict, n: int) -> str:
    """Say how the labels are calibrated together, which of them are not, and what repairs them.

    Args:
        labels: What was found of each.
        verdict: On all of them together.
        n: How many rows there are.

    Returns:
        The sentence.
    """
    k, gap, ece = len(labels.each), verdict.gap, verdict.ece.estimate
    limit = f"{100 * verdict.consistency.limit:.1f} %"
    if verdict.finding in ("overstated", "understated"):
        low, high = sorted(100 * abs(end) for end in (gap.low, gap.high))
        said = f"over {k} labels probabilities are {verdict.finding} by {100 * abs(gap.estimate):.1f} points"
        found = f"{said}, {100 * gap.level:.0f} % interval {low:.1f}–{high:.1f}"
    elif verdict.finding == "mixed":
        found = (
            f"over {k} labels probabilities are too high in some places and too low in others: ECE {100 * ece:.1f} %"
        )
        found += f", where chance alone seldom gives more than {limit}"
    else:
        found = (
            f"over {k} labels calibrated as far as {n:,} rows can tell: ECE {100 * ece:.1f} %, and chance alone would "
        )
        found += f"give up to {limit}"
    return "; ".join([found, _worst(labels), _repair(labels, ece, verdict.finding)])


def _worst(labels: Labels) -> str:
    wrong = labels.wrong
    if not wrong:
        return "no single label is miscalibrated by more than chance"
    shown = [f"{one.name} ({one.verdict.finding}, ECE {100 * one.verdict.ece.estimate:.1f} %)" for one in wrong[:3]]
    verb = "is" if len(wrong) == 1 else "are"
    return f"{len(wrong)} of {len(labels.each)} labels {verb} miscalibrated, the worst {', '.join(shown)}"


def _repair(labels: Labels, ece: float, finding: str) -> str:
    if finding == "calibrated" and not labels.wrong:
        return "nothing to repair"
    if not labels.repairs:
        return labels.why_no_repair
    one, platt = labels.repairs
    after = {each.name: f"{100 * each.ece.estimate:.1f} %" for each in labels.repairs}
    if one.repairs and finding != "calibrated":
        return f"temperature {one.temperature:.2f} brings ECE from {100 * ece:.1f} % to {after['temperature']}"
    if platt.repairs:
        less = f"one temperature does not ({after['temperature']})"
        return f"platt for every label brings ECE from {100 * ece:.1f} % to {after['platt']}, {less}"
    return (
        f"neither one temperature ({after['temperature']}) nor platt for every label ({after['platt']}) repairs the ECE"
    )
