"""A9: ensembles and MC-dropout calibrate further, SAM stays ahead, and its ensembles detect OOD inputs best."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference
from surefoot.studies._arms import FIRST_SEED, RHO, finished
from surefoot.studies._rules import SECOND_ROUND
from surefoot.studies._shifted import corrupted
from surefoot.studies._tables import ACCURACY, ECE, ece_gap, extended_table, metrics_table
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Finding, Headline, Size, Study
from surefoot.studies.runs import BySeed, Runs
from surefoot.studies.verdicts import above, together

OTHER = Column("other", "AUROC % of other data", percent=True)
CORRUPTED = Column("corrupted", "AUROC % of corruptions", percent=True)
NOISE = Column("noise", "AUROC % of uniform noise", percent=True)
_PRINTED = {
    "sgd": (89.18, 5.76, 83.94, 62.26),
    "sgd with mc_dropout": (89.13, 4.39, 84.11, 57.09),
    "sgd with deep": (90.88, 1.84, 86.41, 63.39),
    "sam": (90.01, 3.24, 86.38, 63.32),
    "sam with mc_dropout": (89.49, 2.21, 83.02, 56.11),
    "sam with deep": (91.16, 1.09, 88.05, 64.03),
    "csam": (89.95, 2.55, 85.98, 63.49),
    "csam with mc_dropout": (89.57, 1.52, 82.82, 56.05),
    "csam with deep": (91.22, 0.86, 88.21, 64.17),
}
PUBLISHED = {
    name: dict(zip(("accuracy", "ece", "other", "corrupted"), row, strict=True)) for name, row in _PRINTED.items()
}
OPTIMIZERS = ("sgd", "sam", "csam")
ENSEMBLES = {"mc_dropout": "mc_dropout:p=0.1,samples=5", "deep": "deep:members=5"}


def grid(size: Size) -> dict[str, Arm]:
    """Three optimizers, each alone, with MC-dropout and as an ensemble of five."""
    shift = corrupted("svhn" if size == "paper" else "digits", "uniform", smoke=size == "smoke")
    methods = {}
    for optimizer in OPTIMIZERS:
        methods[optimizer] = method = optimizer if optimizer == "sgd" else f"{optimizer}:rho={RHO[size]}"
        methods |= {f"{optimizer} with {name}": f"{ensemble} + {method}" for name, ensemble in ENSEMBLES.items()}
    return {name: finished(text, size, published="resnet18", shift=shift) for name, text in methods.items()}


def analyse(runs: Runs) -> Analysis:
    """Compare ECE with and without ensembling, and how well out-of-distribution inputs are detected."""
    other, noise = runs.shifts["sgd"].ood
    detected: dict[Column, dict[str, BySeed]] = {
        OTHER: {name: runs.shifted(name, "auroc", ood=other) for name in PUBLISHED},
        CORRUPTED: {name: runs.shifted(name, "auroc") for name in PUBLISHED},
        NOISE: {name: runs.shifted(name, "auroc", ood=noise) for name in PUBLISHED},
    }
    lower = [(name, f"{name} with {ensemble}") for name in OPTIMIZERS for ensemble in ENSEMBLES]
    lower += [(f"sgd with {ensemble}", f"sam with {ensemble}") for ensemble in ENSEMBLES]
    numbers = {f"ECE of {a} − {b}": ece_gap(runs, a, b) for a, b in lower}
    higher = [("sam with deep", "sgd with deep"), ("sam with deep", "sam")]
    higher += [(name, f"{name} with mc_dropout") for name in ("sam", "csam")]
    for column, what in ((OTHER, "other data"), (CORRUPTED, "corruptions")):
        found = detected[column]
        numbers |= {f"AUROC of {what}: {a} − {b}": difference(found[a], found[b]) for a, b in higher}
    table = metrics_table(runs, (ACCURACY, ECE), PUBLISHED, {name: name for name in PUBLISHED})
    return Analysis(extended_table(table, detected), numbers)


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for all of them above 0."""
    return together([above(number, 0, name) for name, number in numbers.items()])


@STUDIES.register("a9")
def a9() -> Study:
    """Ensembles and MC-dropout lower ECE further, SAM stays ahead; its ensembles detect OOD inputs best."""
    return Study(
        question="Do ensembles and MC-dropout lower ECE further with SAM still ahead, and do ensembles with SAM "
        "detect out-of-distribution inputs better, while MC-dropout detects them worse?",
        published=PUBLISHED,
        source="CSAM paper, table 1 (CIFAR-10, ResNet-18, five samples or members; other data: SVHN; corruptions: "
        "CIFAR-10-C)",
        rule="Every difference is paired by seed and has a 95 % interval. Held if all of these are above 0: the fall "
        "of ECE from SGD, SAM and CSAM alone to each with MC-dropout and to an ensemble of five; ECE(SGD) − ECE(SAM), "
        "both with MC-dropout and both as ensembles; and the following in AUROC of telling shifted from clean "
        "pictures by the largest probability, for other data and for corruptions (the mean over motion blur, defocus "
        "blur and impulse noise at all severities): the ensemble with SAM minus that with SGD and minus SAM alone, "
        "and SAM and CSAM minus the same with MC-dropout. ECE is debiased; SAM and CSAM have radius 0.2 and are not "
        "tuned. Other data are digits at smoke and laptop size, SVHN at paper size; uniform noise is shown and not "
        "judged.",
        fixed=SECOND_ROUND,
        differs="a small network on clothes, digits for SVHN",
        headline=Headline("ECE of sgd with deep − sam with deep", published=0.0075, percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        first_seed=FIRST_SEED,
        drawings=(Drawing("ece_bars"), Drawing("severity")),
    )
