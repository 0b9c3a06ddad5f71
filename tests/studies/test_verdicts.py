"""What numbers say of a claim follows from intervals, and what that means for it from the setting."""

from __future__ import annotations

import ast
import inspect
import subprocess
from pathlib import Path

import numpy as np
import pytest

from surefoot.errors import SurefootError
from surefoot.records import RunFolder
from surefoot.registry import STUDIES, Part
from surefoot.statistics import NOTHING, Estimate, mean, u_shape
from surefoot.studies.contract import OUTCOMES, Finding, Fixed
from surefoot.studies.runner import find_studies
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import above, below, no_worse, none_of, together, true_if
from tests.runs import fake_run

ROOT = Path(__file__).parents[2]


def test_few_seeds_say_nothing() -> None:
    two = Estimate(2.0, 1.9, 2.1, 2)
    assert above(two, 1, "it").side == "open"
    assert above(NOTHING, 1, "it") == Finding("open", "it is unknown: fewer than 3 seeds")


@pytest.mark.parametrize(
    ("low", "high", "side", "other"),
    [(1.1, 2.0, "for", "against"), (0.5, 0.9, "against", "for"), (0.9, 1.1, "open", "open")],
)
def test_the_whole_interval_decides(low: float, high: float, side: str, other: str) -> None:
    estimate = Estimate((low + high) / 2, low, high, 5)
    assert above(estimate, 1, "it").side == side
    assert below(estimate, 1, "it").side == other
    for found in (above(estimate, 1, "it"), below(estimate, 1, "it")):
        assert found.p == (estimate.p_value(1) if found.side == "against" else 1)


def test_what_is_open_says_what_it_would_take() -> None:
    found = mean([0.0, 1.0, 2.0, -1.0, 1.5])
    seeds = found.seeds_to_tell(0)
    assert above(found, 0, "it").reason.endswith(f"not clear of 0: about {seeds} seeds would tell")
    assert "not even 1,000 seeds" in above(mean([-1.0, 1.0, 0.001]), 0, "it").reason


def test_less_than_what_is_worth_the_claim_is_against_it() -> None:
    tie = Estimate(0.1, -0.5, 0.7, 5)
    assert above(tie, 0, "it").side == above(tie, 0, "it", enough=0.6).side == "open"
    found = above(tie, 0, "it", enough=0.8)
    assert (found.side, found.p) == ("against", tie.p_value(0.8))
    assert found.reason == "it is 0.1 (−0.5 to 0.7, n = 5), not clear of 0 and below 0.8"
    little = Estimate(0.1, 0.05, 0.15, 5)
    assert above(little, 0, "it", enough=0.8).side == "for"  # little, but there for certain
    assert above(Estimate(-0.3, -0.5, -0.1, 5), 0, "it", enough=0.8).reason.endswith("below 0")


def test_the_sooner_of_two_limits_says_what_it_would_take() -> None:
    tie = mean([0.4, -0.4, 0.5, -0.5, 0.01])
    assert tie.seeds_to_tell(0) is None
    assert above(tie, 0, "it", enough=0.3).reason.endswith(f"about {tie.seeds_to_tell(0.3)} seeds would tell")


def test_no_worse_allows_what_it_tolerates() -> None:
    assert no_worse(Estimate(-0.001, -0.004, 0.002, 5), 0.005, "it").side == "for"
    assert no_worse(Estimate(-0.02, -0.03, -0.01, 5), 0.005, "it").side == "against"


@pytest.mark.parametrize(
    ("shape", "left", "right"),
    [([3, 1, 2], "for", "for"), ([1, 2, 3], "against", "for"), ([3, 2, 1], "for", "against")],
)
def test_u_shape(shape: list[float], left: str, right: str) -> None:
    curves = {seed: [value + 0.01 * seed * at for at, value in enumerate(shape)] for seed in range(4)}
    contrasts = u_shape(curves, curves)
    assert [above(contrast, 0, "it").side for contrast in contrasts] == [left, right]


def test_one_violation_is_enough_in_every_setting() -> None:
    assert none_of(Estimate(0.0), Estimate(100.0), "theorems").side == "for"
    violated = none_of(Estimate(1.0), Estimate(100.0), "theorems")
    assert violated.reason == "theorems: 1 violations in 100 checks"
    for parts in ([violated], [Finding("for", "a"), violated], [Finding("against", "b", 0.0), violated]):
        assert together(parts).verdict(same_setting=False).outcome == "contradicted"
    assert none_of(Estimate(0.0), Estimate(0.0), "theorems").side == "open"


@pytest.mark.parametrize(
    ("side", "same", "outcome"),
    [
        ("for", True, "held"),
        ("for", False, "held"),
        ("against", True, "contradicted"),
        ("against", False, "did not transfer"),
        ("open", True, "underpowered"),
        ("open", False, "underpowered"),
    ],
)
def test_what_a_finding_means_depends_on_the_setting(side: str, same: bool, outcome: str) -> None:
    assert Finding(side, "a").verdict(same_setting=same).outcome == outcome
    assert outcome in OUTCOMES


def test_a_claim_with_parts_is_as_good_as_its_worst() -> None:
    held, open_, fell = Finding("for", "a"), Finding("open", "b"), Finding("against", "c", 0.001)
    assert together([held, held]).side == "for"
    assert together([held, open_]).side == "open"
    assert together([held, open_, fell]).side == "against"


def test_one_of_many_is_against_by_chance_more_often() -> None:
    """Nothing is true of twelve parts: 5 % of such claims may be said to be refuted, not nearly half of them."""
    draw = np.random.default_rng(0)
    refuted = []
    for _ in range(400):
        parts = [above(mean(draw.normal(0, 1, 5).tolist()), 0, "it") for _ in range(12)]
        refuted.append((together(parts).side == "against", any(part.side == "against" for part in parts)))
    corrected, uncorrected = np.mean(refuted, axis=0)
    assert corrected <= 0.05
    assert uncorrected > 0.2
    assert together([true_if(False, "what is certain")] + [Finding("for", "a")] * 11).side == "against"


def test_a_verdict_says_its_outcome_once() -> None:
    held, open_ = Finding("for", "a is 1"), Finding("open", "b is 2")

    def told(*parts: Finding) -> str:
        return str(together(parts).verdict(same_setting=True))

    assert told(held, open_, open_) == "underpowered. b is 2; b is 2. For it: a is 1."
    many = told(Finding("open", "the rest is 3"), *[held] * 5)
    assert many == "underpowered. The rest is 3; of the other parts 5 are for it."
    assert told(held, held) == "held. a is 1; a is 1."
    assert above(Estimate(-0.2, -0.3, -0.1, 5), -0.5, "it").reason == "it is −0.2 (−0.3 to −0.1, n = 5), above −0.5"


def test_the_tuned_method_is_judged_on_all_tasks_or_not_at_all() -> None:
    """C1: what is clear on some tasks is left open; on all of them it is held, and one part that fails decides."""
    judge = find_studies(["c1"])["c1"].judge
    clear = {
        "worse": Estimate(-0.01, -0.02, -0.005, 5),
        "accuracy": Estimate(0.001, -0.001, 0.003, 5),
        "short": Estimate(0.01, 0.005, 0.015, 5),
    }
    assert judge({**clear, "tasks": Estimate(13.0, n=5)}).side == "for"
    some = judge({**clear, "tasks": Estimate(8.0, n=5)})
    assert (some.side, some.reason[:35]) == ("open", "8 of 13 tasks have been run. For it")
    failed = judge({**clear, "accuracy": Estimate(-0.01, -0.012, -0.008, 5), "tasks": Estimate(13.0, n=5)})
    assert failed.side == "against"


def _tried(folder: Path, name: str, nlls: dict[int, tuple[float, float]]) -> dict[int, RunFolder]:
    """Make runs of a setting: by seed, NLL on the calibration and on the test split."""
    found = {}
    for seed, (calibration, test) in nlls.items():
        measures = {"nll": test, "accuracy": 0.5, "ece": 0.1, "brier": 0.2}
        shown = {**measures, "nll": calibration}
        found[seed] = fake_run(folder / name, seed=seed, measures=measures, calibration=shown)
    return found


def test_settings_are_chosen_on_the_calibration_split_seed_by_seed(tmp_path: Path) -> None:
    """Never on test; what failed is out, and a seed of which a run is still to be made says nothing."""
    small = _tried(tmp_path, "small", {0: (0.5, 0.9), 1: (0.7, 0.1), 2: (0.9, 0.2), 3: (0.5, 0.5)})
    large = _tried(tmp_path, "large", {0: (0.6, 0.1), 1: (0.6, 0.8)})
    found = {"sam · rho=0.1": small, "sam · rho=0.2": large, "sgd": _tried(tmp_path, "sgd", {0: (1.0, 1.0)})}
    runs = Runs(found, {"sam · rho=0.2": {2: SurefootError("it diverged")}})
    chosen = runs.tuned(seed_by_seed=True)
    assert list(chosen.found) == ["sam", "sgd"]
    assert chosen.measure("sam", "nll") == {0: 0.9, 1: 0.8, 2: 0.2}
    assert chosen.measure("sgd", "nll") == {0: 1.0}
    assert runs.asked == {("calibration", "nll"), ("test", "nll")}
    assert runs.asked is chosen.asked


def test_one_setting_is_chosen_for_all_seeds(tmp_path: Path) -> None:
    """By its mean on the calibration split; one that diverged somewhere is out, and so are seeds that some lack."""
    small = _tried(tmp_path, "small", {0: (0.5, 0.9), 1: (0.7, 0.1), 3: (0.1, 0.5)})
    large = _tried(tmp_path, "large", {0: (0.6, 0.1), 1: (0.5, 0.8)})
    wild = _tried(tmp_path, "wild", {0: (0.1, 0.1)})
    found = {"sam · rho=0.1": small, "sam · rho=0.2": large, "sam · rho=9": wild}
    runs = Runs(found, {"sam · rho=9": {1: SurefootError("it diverged")}})
    assert runs.tuned().measure("sam", "nll") == {0: 0.1, 1: 0.8}
    assert runs.tuned(seed_by_seed=True).measure("sam", "nll") == {0: 0.1, 1: 0.8}  # seed 0 by the wild one
    some = Runs({"sam · rho=0.1": small, "sam · rho=0.2": {}})
    assert some.tuned().measure("sam", "nll") == {}


@pytest.mark.parametrize("part", [part for part in STUDIES if part.name[0] in "abc"], ids=lambda part: part.name)
def test_a_rule_was_fixed_when_it_says(part: Part) -> None:
    """Word for word: what is amended later has to say so."""
    file = Path(inspect.getsourcefile(part.build) or "")
    fixed = part.build().fixed
    assert fixed is not None
    show = ["git", "show", f"{fixed.commit}:{file.relative_to(ROOT)}"]
    shown = subprocess.run(show, cwd=ROOT, capture_output=True, text=True, check=False)
    if shown.returncode:
        pytest.skip("this copy of the project has no history")
    assert _rule(shown.stdout) == _rule(file.read_text())
    when = ["git", "show", "--no-patch", "--format=%cs", fixed.commit]
    assert subprocess.run(when, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip() == fixed.date


def _rule(source: str) -> str:
    """Return the expression of a study's rule."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.keyword) and node.arg == "rule"]
    return ast.dump(calls[0].value)


def test_an_amended_rule_says_so() -> None:
    assert str(Fixed("2026-01-02", "abc1234")) == "fixed 2026-01-02 in abc1234"
    amended = Fixed("2026-01-02", "abc1234", "the first round")
    assert str(amended) == "fixed 2026-01-02 in abc1234, amended after seeing the first round"
