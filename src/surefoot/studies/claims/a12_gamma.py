"""A12: γ = 0 is SAM exactly; ECE falls with γ at a small radius and turns at a larger one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from surefoot.records import RunFolder
from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference, u_shape
from surefoot.studies._arms import FIRST_SEED, finished
from surefoot.studies._rules import SECOND_ROUND
from surefoot.studies._tables import ACCURACY, ECE, ece_of, metrics_table
from surefoot.studies.contract import Analysis, Arm, Drawing, Finding, Headline, Size, Study
from surefoot.studies.runs import BySeed, Runs, shared_seeds
from surefoot.studies.verdicts import above, none_of, together

# Table S4 has five columns of γ, but one of its values per row is lost in the text: the four that are left are not
# tied to a γ and cannot stand beside a measured one.
GAMMAS: dict[Size, tuple[float, ...]] = {
    "smoke": (0.0, 1.0, 2.0),
    "laptop": (0.0, 0.5, 1.0, 1.5, 2.0),
    "paper": (0.0, 0.5, 1.0, 1.5, 2.0),
}
RADII: dict[Size, tuple[float, float]] = {"smoke": (0.05, 0.4), "laptop": (0.05, 0.4), "paper": (0.05, 0.1)}


def grid(size: Size) -> dict[str, Arm]:
    """CSAM over both, and SAM at both radii."""
    arms = {f"sam, {w} ρ": finished(f"sam:rho={rho}", size) for w, rho in _radii(size).items()}
    for w, rho in _radii(size).items():
        arms |= {f"γ = {g:g}, {w} ρ": finished(f"csam:gamma={g},rho={rho}", size) for g in GAMMAS[size]}
    return arms


def _radii(size: Size) -> dict[str, float]:
    return dict(zip(("small", "large"), RADII[size], strict=True))


def analyse(runs: Runs) -> Analysis:
    """Compare logits at γ = 0 with SAM's, and ECE along γ at both radii."""
    small, large = ([arm for arm in runs.found if arm.startswith("γ") and w in arm] for w in ("small", "large"))
    ends = [ece_of(runs, arm) for arm in (small[0], small[-1])]
    _, right = u_shape(runs.along(large, "debiased_ece"), runs.along(large, "debiased_ece", split="calibration"))
    numbers = {
        "runs at γ = 0 whose logits are not SAM's": _different(runs),
        "ECE at γ = 0 − at the largest γ, small ρ": difference(*ends),
        "ECE at the largest γ − at the chosen γ, large ρ": right,
    }
    return Analysis(metrics_table(runs, (ACCURACY, ECE), {}, {arm: arm for arm in runs.found}), numbers)


def _different(runs: Runs) -> Estimate:
    """Count the pairs of runs whose logits are not the same bits."""
    pairs = [(_prints(runs, f"sam, {w} ρ"), _prints(runs, f"γ = 0, {w} ρ")) for w in ("small", "large")]
    differ = [sam[seed] != csam[seed] for sam, csam in pairs for seed in shared_seeds([sam, csam])]
    return Estimate(float(sum(differ)), n=len(differ))


def _prints(runs: Runs, arm: str) -> BySeed:
    """Return a fingerprint of test logits, which is kept with a run where they are not."""
    return runs.compute(arm, "fingerprint of logits", fingerprint)


def fingerprint(run: RunFolder) -> float:
    """Return a number of 24 bits, so that records of eight digits have all of it."""
    return float(int.from_bytes(hashlib.sha256(run.predictions("test").logits.tobytes()).digest()[:3], "big"))


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for equal logits, a fall at the small radius and a turn at the large one."""
    same, fall, turn = numbers.values()
    return together([
        none_of(same, Estimate(same.n), "runs at γ = 0 whose logits are not SAM's"),
        above(fall, 0, "ECE at γ = 0 − ECE at the largest γ, small ρ,"),
        above(turn, 0, "ECE at the largest γ − ECE at the chosen γ, large ρ,"),
    ])


@STUDIES.register("a12")
def a12() -> Study:
    """γ = 0 is SAM exactly; ECE falls with γ at small ρ and turns at larger ρ."""
    return Study(
        question="Is γ = 0 SAM to the last bit, does ECE fall with γ at a small radius, and turn at a large one?",
        published={},
        source="CSAM paper, table S4 and fig. S6 (ResNet-56: at ρ 0.05 ECE falls over γ from 1.77 to 0.66 %, at ρ 0.1 "
        "it goes 0.82, 0.54, 0.69, 1.34 %)",
        rule="Held if all logits at γ = 0 equal SAM's, debiased ECE(γ = 0) − ECE(γ = 2) at the small radius is above "
        "0 with its 95 % interval, and at the large radius ECE(γ = 2) minus ECE at the inner γ with the lowest on the "
        "calibration split is above 0 with its interval.",
        fixed=SECOND_ROUND,
        differs="a small network on clothes, a larger large radius",
        headline=Headline("ECE at γ = 0 − at the largest γ, small ρ", published=0.0111, percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 10, "paper": 3},
        first_seed=FIRST_SEED,
        drawings=(Drawing("heat_map"), Drawing("sweep:over=gamma,by=rho")),
    )
