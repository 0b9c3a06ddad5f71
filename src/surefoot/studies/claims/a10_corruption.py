"""A10: under corruption, SAM and CSAM are more accurate and better calibrated."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import NamedTuple

from surefoot.registry import STUDIES
from surefoot.report.quantities import QUANTITIES
from surefoot.schema import RunSpec
from surefoot.statistics import Estimate, difference
from surefoot.studies._arms import AUTO, DEEP, LATER_SEED, residual
from surefoot.studies._rules import LONGER, third
from surefoot.studies._shifted import CORRUPTIONS, corrupted
from surefoot.studies._tables import ACCURACY, ECE, extended_table, metrics_table
from surefoot.studies.compare import make_spec
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Finding, Headline, Row, Size, Study, Table
from surefoot.studies.runs import BySeed, Runs
from surefoot.studies.verdicts import above, together

METRICS = {key: QUANTITIES[key].label for key in ("accuracy", "ece")}
COLUMNS = {
    (metric, name): Column(f"{metric}/{name}", f"{label} %, {name.replace('_', ' ')}", percent=True)
    for metric, label in METRICS.items()
    for name in CORRUPTIONS
}
_KEYS = ("accuracy", "ece", *(column.key for column in COLUMNS.values()))
_PRINTED = {
    "sgd, ResNet-50": (76.97, 3.39, 36.89, 35.81, 24.99, 7.97, 4.23, 17.29),
    "sam, ResNet-50": (77.32, 1.52, 37.45, 36.35, 27.85, 4.91, 3.74, 6.92),
    "csam, ResNet-50": (77.95, 1.18, 38.29, 37.11, 28.69, 3.28, 3.02, 5.47),
    "adamw, ViT-S/32": (65.03, 9.11, 33.53, 32.87, 26.48, 14.73, 12.28, 19.57),
    "sam, ViT-S/32": (69.21, 3.04, 37.95, 36.09, 33.36, 3.35, 6.27, 7.89),
    "csam, ViT-S/32": (70.01, 2.88, 38.88, 36.94, 34.16, 3.01, 5.76, 5.41),
    "adamw, ViT-S/16": (71.35, 9.72, 37.40, 35.54, 24.26, 14.14, 12.27, 18.63),
    "sam, ViT-S/16": (75.42, 1.76, 43.36, 39.15, 28.93, 2.92, 3.58, 5.02),
    "csam, ViT-S/16": (75.91, 1.58, 44.01, 39.82, 29.57, 2.81, 3.24, 4.75),
}
PUBLISHED = {name: dict(zip(_KEYS, row, strict=True)) for name, row in _PRINTED.items()}
BASE = "sgd"  # what the base is on ResNet-50 in the table, and on the residual network here


class Part(NamedTuple):
    """One comparison of two methods: a metric under a corruption or all, and which of them should have less of it."""

    metric: str
    name: str | None
    more: str
    less: str

    @property
    def title(self) -> str:
        """What the difference is called."""
        of, where = METRICS[self.metric], self.name.replace("_", " ") if self.name else "mean of the corruptions"
        return f"{of} of {self.more} − {of} of {self.less}, {where}"


def _parts(better: str, worse: str, *names: str | None) -> list[Part]:
    pairs = {"accuracy": (better, worse), "ece": (worse, better)}
    return [Part(metric, name, *pairs[metric]) for metric in METRICS for name in names]


JUDGED = (*_parts("sam", "base", None), *_parts("csam", "base", None))
SHOWN = (
    *_parts("sam", "base", *CORRUPTIONS),
    *_parts("csam", "base", *CORRUPTIONS),
    *_parts("csam", "sam", None, *CORRUPTIONS),
)


def grid(size: Size) -> dict[str, Arm]:
    """The base optimizer, SAM, CSAM and what tunes itself: SGD on ResNet-8, AdamW on ViT-S/32 at paper size."""
    shift = corrupted(smoke=size == "smoke")
    if size != "paper":
        return residual(("sgd", "sam", "csam", *AUTO), size, shift=shift)
    methods = {"base": "adamw"} | {name: f"{name}:rho=0.2,base=adamw" for name in ("sam", "csam")}
    return {name: Arm(_published(method), shift=shift) for name, method in methods.items()}


def _published(method: str) -> RunSpec:
    """ViT-S/32 on ImageNet for 300 epochs; the paper gives neither batch size nor learning rate of AdamW."""
    return make_spec(
        method,
        data="imagenet:size=224",
        model="vit_s32",
        epochs=300,
        batch_size=1024,
        schedule="cosine",
        device="cuda",
    )


def analyse(runs: Runs) -> Analysis:
    """Compare means over severities; tabulate every severity."""
    runs = _named(runs.tuned())
    names = list(runs.found)
    whole = {key: {arm: _shifted(runs, arm, *key) for arm in names} for key in COLUMNS}
    compared = {part: [_compared(runs, arm, part) for arm in (part.more, part.less)] for part in (*JUDGED, *SHOWN)}
    numbers = {part.title: difference(*found) for part, found in compared.items()}
    table = metrics_table(runs, (ACCURACY, ECE), PUBLISHED, {arm: arm for arm in names})
    lines = [Row(f"{arm}, severity {severity}") for arm in names for severity in runs.shifts[arm].severities]
    columns = {column: {**whole[key], **_by_severity(runs, *key)} for key, column in COLUMNS.items()}
    return Analysis(extended_table(Table(table.columns, (*table.rows, *lines)), columns), numbers, runs)


def _named(runs: Runs) -> Runs:
    """Call the arms by their methods alone; SGD is the base."""
    names = {arm: arm.removesuffix(DEEP) for arm in runs.found}
    names = {arm: "base" if name == BASE else name for arm, name in names.items()}
    found = {names[arm]: by_seed for arm, by_seed in runs.found.items()}
    return runs.with_arms(found, {names[arm]: shift for arm, shift in runs.shifts.items()})


def _shifted(runs: Runs, arm: str, metric: str, name: str | None, severity: int | None = None) -> BySeed:
    return runs.shifted(arm, metric, corruption=name, severity=severity)


def _compared(runs: Runs, arm: str, part: Part) -> BySeed:
    """Read the debiased ECE, for differences: there are a thousand pictures of each kind only."""
    return _shifted(runs, arm, "debiased_ece" if part.metric == "ece" else part.metric, part.name)


def _by_severity(runs: Runs, metric: str, name: str) -> dict[str, BySeed]:
    return {
        f"{arm}, severity {severity}": _shifted(runs, arm, metric, name, severity)
        for arm in runs.found
        for severity in runs.shifts[arm].severities
    }


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for SAM and CSAM ahead of the base optimizer; CSAM beside SAM is shown."""
    return together([above(numbers[part.title], 0, part.title, enough=third(_published_gap(part))) for part in JUDGED])


def _published_gap(part: Part) -> float:
    """Return the mean over the corruptions of what was published for ResNet-50."""
    more, less = (PUBLISHED[f"{BASE if name == 'base' else name}, ResNet-50"] for name in (part.more, part.less))
    return statistics.fmean(more[key] - less[key] for key in (COLUMNS[part.metric, name].key for name in CORRUPTIONS))


@STUDIES.register("a10")
def a10() -> Study:
    """Under corruption, SAM and CSAM are more accurate and better calibrated."""
    return Study(
        question="Are SAM and CSAM more accurate and better calibrated than their base optimizer under corruption?",
        published=PUBLISHED,
        source="CSAM paper, table 2 (ImageNet and ImageNet-C, means of five severities)",
        rule="The mean over motion blur, defocus blur and impulse noise at severities 1 to 5 is taken, on the same "
        "corrupted pictures for all. Held if accuracy(SAM) − accuracy(base) and debiased ECE(base) − ECE(SAM), and the "
        "same for CSAM, paired by seed, are above 0 with their 95 % intervals; where one is not, an interval below a "
        "third of the mean difference published for ResNet-50 counts against it. All are tuned as in A1 on clean "
        "pictures of the calibration split. Single corruptions, CSAM beside SAM and CSAM that tunes itself are shown, "
        "not judged. The base is SGD; at paper size, AdamW on ViT-S/32.",
        fixed=LONGER,
        differs="ResNet-8 on 5,000 pictures of CIFAR-10",
        headline=Headline("ECE of base − ECE of sam, mean of the corruptions", published=0.0464, percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        first_seed=LATER_SEED,
        drawings=(Drawing("severity"),),
    )
