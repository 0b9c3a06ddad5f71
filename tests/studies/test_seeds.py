"""Where one part of a claim is open, its arms alone have more seeds, and the page says so."""

from __future__ import annotations

from pathlib import Path

from surefoot.settings import Placement
from surefoot.statistics import difference
from surefoot.studies._plain import to_json
from surefoot.studies._tables import ACCURACY, metrics_table
from surefoot.studies.compare import make_spec
from surefoot.studies.contract import Analysis, Arm, Fixed, Size, Study
from surefoot.studies.pages import page_of
from surefoot.studies.runner import Plan, plan_studies, run_studies
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import above


def grid(size: Size) -> dict[str, Arm]:
    sgd, sam = (make_spec(m, data="digits", model="mlp:width=8", epochs=1, batch_size=300) for m in ("sgd", "sam"))
    return {"sgd": Arm(sgd, seeds=range(7, 10)), "sam": Arm(sam)}


def analyse(runs: Runs) -> Analysis:
    table = metrics_table(runs, (ACCURACY,), {}, {"sgd": "sgd", "sam": "sam"})
    return Analysis(table, {"gain": difference(runs.measure("sgd", "ece"), runs.measure("sam", "ece"))})


STUDY = Study(
    question="Is it?",
    rule="Held if it is.",
    fixed=Fixed("2026-01-02", "abc1234"),
    grid=grid,
    analyse=analyse,
    judge=lambda numbers: above(numbers["gain"], 0, "the gain"),
    seeds={"smoke": 2, "laptop": 2, "paper": 2},
    first_seed=8,
)


def seeds_of(plan: Plan) -> dict[str, list[int]]:
    return {name: sorted(seed for arm, seed in plan.places if arm == name) for name in ("sgd", "sam")}


def test_an_arm_has_seeds_of_its_own_and_pairs_have_those_of_both(tmp_path: Path) -> None:
    plans, jobs = plan_studies({"a1": STUDY}, "smoke", tmp_path)
    assert seeds_of(plans[0]) == {"sgd": [7, 8, 9], "sam": [8, 9]}
    (result,) = run_studies(plans, jobs, placement=Placement(jobs=1))
    assert result.analysis.numbers["gain"].n == 2
    page = page_of([to_json(result, "surefoot study a1")], "results", {})
    assert "judged on seeds 7 to 9:" in page
    assert "epochs in batches of 300, 2 or 3 seeds, mean ± sd" in page
    assert "| 2 or 3 |" in page


def test_seeds_that_are_asked_for_are_those_of_all_arms(tmp_path: Path) -> None:
    plans, _ = plan_studies({"a1": STUDY}, "smoke", tmp_path, seeds=(3, 5))
    assert seeds_of(plans[0]) == {"sgd": [3, 5], "sam": [3, 5]}
