"""C3: whether calibration follows sharpness along the training of a language model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate
from surefoot.studies import _data
from surefoot.studies._arms import FRESH_SEED, moving, tracking
from surefoot.studies._coupling import STRONG, correlate, track
from surefoot.studies._rules import ALONG
from surefoot.studies.compare import make_spec
from surefoot.studies.contract import Arm, Drawing, Finding, Headline, Size, Study
from surefoot.studies.verdicts import above, together

NAMES = {"sgd": "SGD with momentum", "adamw": "AdamW", "muon": "Muon", "sam": "SAM"}
METHODS = {
    "sgd": "sgd:lr=0.1,weight_decay=0",
    "adamw": "adamw:lr=0.001,weight_decay=0",
    "muon": "muon:lr=0.01,precision=float32",
    "sam": "sam:rho=0.05,lr=0.1,weight_decay=0",
}
STEPS = {"sgd": 3000, "adamw": 3000, "muon": 1500, "sam": 3000}
PROBE = 250  # stretches of text for sharpness


def grid(size: Size) -> dict[str, Arm]:
    """Four optimizers on a small transformer that says which character comes next; pictures at smoke size."""
    if size == "smoke":
        return {name: moving(method, size, track=track(size, STEPS[name])) for name, method in METHODS.items()}
    return {name: _arm(name, size) for name in METHODS} if _data.has_characters() else {}


def _arm(name: str, size: Size) -> Arm:
    data = _data.characters()
    spec = make_spec(
        METHODS[name],
        data=data.format(seed=0),
        model="char_lm:width=48",
        epochs=STEPS[name] // 40,
        batch_size=125,
        schedule="constant",
        device="cuda" if size == "paper" else "cpu",
    )
    return Arm(spec, tracking(track("laptop", STEPS[name], probes=(PROBE, PROBE))), data=data)


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for a positive r of every optimizer."""
    names = [f"r of train ECE and sharpness, {name}" for name in NAMES.values()]
    return together([above(numbers[name], 0, name, enough=STRONG) for name in names])


@STUDIES.register("c3")
def c3() -> Study:
    """Token ECE follows Gauss–Newton sharpness along the training of a language model too."""
    return Study(
        question="Do train ECE and Gauss–Newton sharpness move together in a small character language model as well?",
        published={},
        source="no paper: asked here",
        rule="A transformer of two blocks says which character follows 16 of a play; trained on 5,000 stretches. Held "
        "if Pearson's r of train ECE and sharpness over the moments of a run is above 0 with its 95 % interval over "
        f"seeds for SGD with momentum, AdamW, Muon and SAM; where it is not, an interval below {STRONG:g}, which B1 "
        "asks for, counts against it. The other readings of B1 are shown, not judged.",
        fixed=ALONG,
        headline=Headline("r of train ECE and sharpness, mean of the optimizers"),
        grid=grid,
        analyse=partial(correlate, published={}, names=NAMES),
        judge=judge,
        seeds={"smoke": 1, "laptop": 3, "paper": 3},
        first_seed=FRESH_SEED,
        drawings=(Drawing("phase"), Drawing("dynamics")),
    )
