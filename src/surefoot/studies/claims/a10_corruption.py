"""A10: under corruption, SAM and CSAM are more accurate and better calibrated."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.report.quantities import QUANTITIES
from surefoot.schema import RunSpec
from surefoot.statistics import Estimate, difference
from surefoot.studies._arms import RHO, finished
from surefoot.studies._shifted import CORRUPTIONS, corrupted
from surefoot.studies._tables import ACCURACY, ECE, extended_table, metrics_table
from surefoot.studies.compare import make_spec
from surefoot.studies.contract import Analysis, Arm, BySeed, Column, Drawing, Row, Runs, Size, Study, Table, Verdict
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
NAMES = ("base", "sam", "csam")


def grid(size: Size) -> dict[str, Arm]:
    """The base optimizer, SAM and CSAM: SGD on the usual network, AdamW on ViT-S/32 at paper size."""
    shift = corrupted(smoke=size == "smoke")
    if size != "paper":
        methods = {"base": "sgd"} | {name: f"{name}:rho={RHO[size]}" for name in ("sam", "csam")}
        return {name: finished(method, size, shift=shift) for name, method in methods.items()}
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
    whole = {key: {arm: _shifted(runs, arm, *key) for arm in NAMES} for key in COLUMNS}
    numbers = {}
    for better, worse in (("sam", "base"), ("csam", "base"), ("csam", "sam")):
        for (metric, name), found in whole.items():
            more, less = (better, worse) if metric == "accuracy" else (worse, better)
            title = f"{METRICS[metric]} of {more} − {METRICS[metric]} of {less}, {name.replace('_', ' ')}"
            numbers[title] = difference(found[more], found[less])
    table = metrics_table(runs, (ACCURACY, ECE), PUBLISHED, {arm: arm for arm in NAMES})
    lines = [Row(f"{arm}, severity {severity}") for arm in NAMES for severity in runs.shifts[arm].severities]
    columns = {column: {**whole[key], **_by_severity(runs, *key)} for key, column in COLUMNS.items()}
    return Analysis(extended_table(Table(table.columns, (*table.rows, *lines)), columns), numbers)


def _shifted(runs: Runs, arm: str, metric: str, name: str, severity: int | None = None) -> BySeed:
    return runs.shifted(arm, metric, corruption=name, severity=severity)


def _by_severity(runs: Runs, metric: str, name: str) -> dict[str, BySeed]:
    return {
        f"{arm}, severity {severity}": _shifted(runs, arm, metric, name, severity)
        for arm in NAMES
        for severity in runs.shifts[arm].severities
    }


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for SAM and CSAM ahead of the base optimizer; CSAM beside SAM is shown."""
    return together([above(number, 0, name) for name, number in numbers.items() if "of base" in name])


@STUDIES.register("a10")
def a10() -> Study:
    """Under corruption, SAM and CSAM are more accurate and better calibrated."""
    return Study(
        question="Are SAM and CSAM more accurate and better calibrated than their base optimizer under corruption?",
        published=PUBLISHED,
        source="CSAM paper, table 2 (ImageNet and ImageNet-C, means of five severities)",
        rule="For each of motion blur, defocus blur and impulse noise the mean over severities 1 to 5 is taken, on the "
        "same corrupted pictures for all. Held if for each corruption accuracy(SAM) − accuracy(base) and ECE(base) − "
        "ECE(SAM), and the same for CSAM, paired by seed, are above 0 with their 95 % intervals; did not hold if one "
        "is below 0 with its interval; else not resolved. CSAM beside SAM is shown and not judged. The base is SGD; at "
        "paper size, AdamW on ViT-S/32.",
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 3, "paper": 3},
        drawings=(Drawing("severity"),),
    )
