"""A2: SAM with nothing done after is better calibrated than SGD behind a calibrator."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference, spread
from surefoot.studies._tables import ECE
from surefoot.studies.claims.a01_sam_calibrates import grid
from surefoot.studies.contract import Analysis, Drawing, Row, Runs, Study, Table, Verdict
from surefoot.studies.verdicts import above, together

REPAIRS = ("temperature", "isotonic")


def analyse(runs: Runs) -> Analysis:
    """Compare SAM's raw ECE with SGD's behind each calibrator, fitted on the calibration split."""
    sam = runs.measure("sam", "ece")
    repaired = {name: runs.measure("sgd", "ece", calibrator=name) for name in REPAIRS}
    rows = [Row("sam, nothing done", measured={"ece": spread(sam)})]
    rows += [Row("sgd, nothing done", measured={"ece": spread(runs.measure("sgd", "ece"))})]
    rows += [Row(f"sgd, {name}", measured={"ece": spread(values)}) for name, values in repaired.items()]
    numbers = {f"ECE of SGD behind {name} − ECE of SAM": difference(repaired[name], sam) for name in REPAIRS}
    return Analysis(Table((ECE,), tuple(rows)), numbers)


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for both differences above 0."""
    return together([above(number, 0, name) for name, number in numbers.items()])


@STUDIES.register("a2")
def a2() -> Study:
    """SAM uncalibrated is better than SGD after temperature scaling or isotonic regression."""
    return Study(
        question="Is SAM with nothing done after better calibrated than SGD behind temperature or isotonic scaling?",
        published={},
        source="CSAM paper, fig. 3a-b (bars without numbers: SAM's raw bar is generally the lowest)",
        rule="Held if the paired differences ECE(SGD, temperature) − ECE(SAM) and ECE(SGD, isotonic) − ECE(SAM) are "
        "both above 0 with their 95 % intervals; did not hold if one is below 0 with its interval; else not resolved.",
        grid=grid,
        analyse=analyse,
        judge=judge,
        drawings=(Drawing("ece_bars"),),
    )
