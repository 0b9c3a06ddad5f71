"""What an audit found, and the one sentence that a person can act on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surefoot.auditing._confidence_repair import OfConfidence, confidence_words
from surefoot.auditing._label_words import Labels, label_words
from surefoot.auditing._repair import Repair
from surefoot.auditing._risk_words import compare_words, repair_words, risk_words
from surefoot.auditing._slices import FEW, SliceVerdict, slice_words
from surefoot.auditing._two_classes import TwoClasses
from surefoot.auditing.better import Better
from surefoot.auditing.thresholds import Threshold
from surefoot.metric_keys import read_metric
from surefoot.metrics.chance import Chance
from surefoot.metrics.describe import describe
from surefoot.metrics.interval import Interval
from surefoot.metrics.verdict import CalibrationVerdict
from surefoot.schema import Form
from surefoot.sources.names import Kind

if TYPE_CHECKING:
    from surefoot.auditing.parts import AuditPart

HELPS = 0.7  # of the ECE that may be left for a repair to be called one


_CONFIDENCE: dict[str, dict[str, Any]] = {
    "accuracy": {"label": "right", "meaning": "How many predictions were right."},
    "confidence_gap": {"label": "confidence − right", "meaning": "Mean confidence less the share that was right."},
    "brier": {"meaning": "Mean of (confidence − right)², with 1 for right and 0 for wrong.", "range": [0.0, 1.0]},
    "nll": {"meaning": "Mean of −log of the probability given to being right, or to being wrong, as it was."},
}


_LABELS: dict[str, dict[str, Any]] = {
    "accuracy": {
        "label": "labels that are true",
        "meaning": "Share of all labels of all rows.",
        "lower_is_better": None,
    },
    "confidence_gap": {"label": "mean probability − true", "meaning": "Above 0 overstated, below 0 understated."},
    "ece": {"meaning": "How far probability and truth lie apart, over bins of the probability, all labels pooled."},
    "brier": {"meaning": "Mean of (probability − truth)² over all labels.", "range": [0.0, 1.0]},
    "nll": {"meaning": "Mean of −log of the probability given to what is true of each label."},
}
_OWN_WORDS = {"confidence": _CONFIDENCE, "multilabel": _LABELS}


@dataclass(frozen=True)
class Audit:
    """All that was found out about one model's predictions. Fractions."""

    file: str
    model: str
    split: str
    took: str
    kind: Kind
    n: int
    n_classes: int
    class_names: tuple[str, ...]
    verdict: CalibrationVerdict
    measures: dict[str, Interval]
    """By the key of the metric."""
    in_table: tuple[str, ...]
    """Keys of those to show where there is little room."""
    chance: dict[str, Chance]
    """What the calibration errors among the measures would be if every probability were right."""
    sampled: int | None
    """On how many rows the measures that rank examples were computed; None for all."""
    repair: Repair | None
    why_no_repair: str
    slices: tuple[SliceVerdict, ...]
    risk_coverage: tuple[tuple[float, float], ...]
    """Error rate among the surest examples, by their share of all."""
    notes: tuple[str, ...]
    held_out: bool = False
    """Whether the file holds a calibration set too, on which repairs are fitted."""
    two_classes: TwoClasses | None = None
    """Where there are two classes: the probability of the one that matters beside how often it happens."""
    doubts: tuple[str, ...] = ()
    """Why these may not be the predictions that they seem to be; shown before the verdict."""
    thresholds: tuple[Threshold, ...] = ()
    """For each share of wrong answers that was said to be allowed: the confidence above which to act."""
    form: Form = "multiclass"
    """What rows and columns are."""
    confidence: OfConfidence | None = None
    """Where a confidence and whether it was right were read: what would repair it."""
    labels: Labels | None = None
    """Where rows have several labels: each of them, the worst first."""

    @classmethod
    def merge(cls, parts: Sequence[AuditPart], name: str | None = None) -> Audit:
        """Make an audit of its parts, the same as of all rows at once: counts and samples exactly, sums to 1e-12.

        Args:
            parts: What ``audit_part`` found, in any order.
            name: What to call all rows; else as the files.

        Returns:
            The audit. A repair is scored on all rows where they can be read again from here, else on those sampled.
        """
        from surefoot.auditing.parts import merge_parts

        return merge_parts(parts, name)

    def class_name(self, label: int) -> str:
        """Return the name of a class, or its number."""
        return self.class_names[label] if self.class_names else f"class {label}"

    def sentence(self) -> str:
        """Say in one line what a person can act on."""
        finding = self.verdict.finding
        if finding == "calibrated" and self.n < FEW:
            examples = "1 example is" if self.n == 1 else f"{self.n} examples are"
            return f"{examples} too few to judge calibration; accuracy {_percent(self.verdict.accuracy)}"
        if self.labels is not None:
            return label_words(self.labels, self.verdict, self.n)
        if self.two_classes is not None:
            return f"{risk_words(self.two_classes)}; {repair_words(self.two_classes)}"
        pieces = [self._found(), self._repaired()]
        if finding != "calibrated" and self.verdict.classes:
            pieces.append(f"worst class: {self.class_name(self.verdict.classes[0].label)}")
        return "; ".join(piece for piece in pieces if piece)

    def slices_sentence(self) -> str:
        """Say which slices are off, after a correction for how many were looked at; nothing where there are none."""
        return slice_words(self.slices)

    def _found(self) -> str:
        gap, ece, chance = self.verdict.gap, self.verdict.ece, self.verdict.consistency
        level = f"{100 * gap.level:.0f} %"
        if self.verdict.finding in ("over-confident", "under-confident"):
            low, high = sorted(100 * abs(end) for end in (gap.low, gap.high))
            points = f"{100 * abs(gap.estimate):.1f} points"
            found = f"{self.verdict.finding} by {points}, {level} interval {low:.1f}–{high:.1f}"
            return found if self.confidence is None else f"{found}: {self._means(self.confidence)}"
        if self.verdict.finding == "mixed":
            found, limit = _told_apart(ece.estimate, chance.limit)
            return (
                f"too sure in some places and not sure enough in others, ECE {found} %, where chance alone "
                f"seldom gives more than {limit} %"
            )
        return (
            f"calibrated as far as {self.n:,} examples can tell: ECE {100 * ece.estimate:.1f} %, and chance alone "
            f"would give up to {100 * chance.limit:.1f} %"
        )

    def _means(self, found: OfConfidence) -> str:
        return f"mean confidence {100 * found.mean:.1f} % where {100 * found.right.estimate:.1f} % are right"

    @property
    def helps(self) -> bool:
        """Whether one temperature takes away a good part of the error; of two classes, that of the risk."""
        if self.two_classes is not None:
            return [each.name for each in self.two_classes.advised] == ["temperature"]
        if self.confidence is not None:
            return [each.name for each in self.confidence.advised] == ["temperature"]
        return self.repair is not None and self.repair.ece.estimate < HELPS * self.verdict.ece.estimate

    def _repaired(self) -> str:
        if self.verdict.finding == "calibrated":
            return "nothing to repair"
        if self.confidence is not None:
            return confidence_words(self.confidence, self.verdict.ece.estimate)
        if self.repair is None:
            return self.why_no_repair
        temperature = f"temperature {self.repair.temperature:.2f}"
        before, after = self.verdict.ece.estimate, self.repair.ece.estimate
        if self.helps:
            return f"{temperature} brings ECE to {100 * after:.1f} %"
        if after < before:
            return f"{temperature} brings ECE from {100 * before:.1f} % to {100 * after:.1f} % only"
        return f"one temperature does not help (ECE {100 * after:.1f} % after it)"

    def to_json(self) -> dict[str, Any]:
        """Write the audit for machines: fractions, null for what is not defined or infinite."""
        values: dict[str, Any] = plain(dataclasses.asdict(self))
        risks = self.two_classes.measures() if self.two_classes is not None else {}
        for key, each in values["measures"].items():
            if key not in risks:
                each |= describe(*read_metric(key)) | _OWN_WORDS.get(self.form, {}).get(key, {})
        names = [self.class_name(each.label) for each in self.verdict.classes]
        for each, name in zip(values["verdict"]["classes"], names, strict=True):
            each["name"] = name
        if self.confidence is not None:
            values["confidence"]["advised"] = [each.name for each in self.confidence.advised]
        if self.two_classes is not None:
            values["two_classes"] |= {
                "finding": self.two_classes.finding,
                "advised": [each.name for each in self.two_classes.advised],
            }
        values["thresholds"] = [each.to_json() for each in self.thresholds]
        said = {"sentence": self.sentence(), "slices_sentence": self.slices_sentence()}
        return {**said, "temperature_helps": self.helps, **values}


@dataclass(frozen=True)
class AuditComparison:
    """Two sets of predictions for the same examples: differences A − B with paired intervals."""

    a: Audit
    b: Audit
    differences: dict[str, Interval]
    sampled: int | None
    better: Better | None
    """None where it cannot be told."""

    def sentence(self) -> str:
        """Return which of the two is better calibrated, as far as it can be told."""
        if self.a.two_classes is not None and self.b.two_classes is not None:
            return compare_words(self.a.two_classes, self.b.two_classes) + self._by_nll()
        return (self._cannot() if self.better is None else self._better(self.better)) + self._by_nll()

    def _cannot(self) -> str:
        start, ece = "A and B cannot be told apart by calibration", self.differences["ece"]
        if self.a.verdict.finding == self.b.verdict.finding == "calibrated":
            return f"{start}: both are calibrated as far as {self.a.n:,} examples can tell"
        why = "which may be chance" if 0.0 in ece else "too little to be sure"
        return f"{start}: ECE differs by {_points(ece)}, {why}"

    def _better(self, better: Better) -> str:
        worse = "B" if better.letter == "A" else "A"
        difference = self.differences[better.by]
        one, other = (self.a, self.b) if better.letter == "A" else (self.b, self.a)
        low, high = sorted(100 * abs(end) for end in (difference.low, difference.high))
        interval = f"{100 * difference.level:.0f} % interval {low:.1f}–{high:.1f}"
        if better.by == "ece":
            points = f"{100 * abs(difference.estimate):.1f} points"
            return f"{better.letter} is better calibrated: its ECE is {points} below {worse}'s, {interval}"
        gaps = [each.verdict.gap.estimate for each in (one, other)]
        own, others = (f"{100 * abs(gap):.1f}" for gap in gaps)
        said = f"{better.letter} is better calibrated: its confidence is off by {own} points, {worse}'s by {others}"
        # On both sides of 0 the difference A − B is no longer that of how far they are off.
        return said if gaps[0] * gaps[1] < 0 else f"{said}, {interval} of the difference"

    def _by_nll(self) -> str:
        nll = self.differences["nll"]
        if not math.isfinite(nll.estimate) or 0.0 in nll:
            return "; their NLL cannot be told apart"
        return f"; by NLL {'A' if nll.estimate < 0 else 'B'} is better"

    def to_json(self) -> dict[str, Any]:
        """Write the comparison for machines: differences A − B."""
        values: dict[str, Any] = plain({
            "differences": {name: dataclasses.asdict(each) for name, each in self.differences.items()}
        })
        better = dataclasses.asdict(self.better) if self.better is not None else None
        return {"sentence": self.sentence(), **values, "sampled": self.sampled, "better": better}


def _percent(interval: Interval) -> str:
    return f"{100 * interval.estimate:.1f} % ({100 * interval.low:.1f}–{100 * interval.high:.1f})"


def _told_apart(one: float, other: float) -> tuple[str, str]:
    """Write two shares in percent with as many decimals as it takes to see which is larger."""
    texts = [tuple(f"{100 * value:.{digits}f}" for value in (one, other)) for digits in (1, 2, 3)]
    first, second = next((pair for pair in texts if pair[0] != pair[1]), texts[0])
    return first, second


def _points(interval: Interval) -> str:
    low, high = (f"{100 * end:+.1f}".replace("-", "−") for end in (interval.low, interval.high))
    return f"{100 * interval.estimate:+.1f} points".replace("-", "−") + f" ({low} to {high})"


def plain(value: Any) -> Any:
    """Put null in the place of what JSON cannot say."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
