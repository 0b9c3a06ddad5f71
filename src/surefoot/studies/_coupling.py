"""The runs that most questions about curvature along training share: five optimizers at four learning rates."""

from __future__ import annotations

from surefoot.studies._arms import moving
from surefoot.studies.contract import Arm, Runs, Size

RATES = {
    "gd": (2 / 40, 2 / 20, 2 / 10, 2 / 5),
    "sgd": (0.02, 0.05, 0.1, 0.2),
    "adamw": (1e-4, 3e-4, 1e-3, 3e-3),
    "muon": (0.002, 0.005, 0.01, 0.02),
    "sam": (0.02, 0.05, 0.1, 0.2),
}
PLAIN = "momentum=0,weight_decay=0"
OPTIONS = {"gd": "", "sgd": f",{PLAIN}", "adamw": ",weight_decay=0", "muon": "", "sam": f",rho=0.05,{PLAIN}"}
STEPS = {"gd": 300, "sgd": 2000, "adamw": 1200, "muon": 800, "sam": 2000}
# Moments are the same for both trackers, so that every ECE has its sharpness. GD makes few, dear steps.
EVERY: dict[Size, dict[bool, int]] = {
    "smoke": {True: 4, False: 4},
    "laptop": {True: 5, False: 20},
    "paper": {True: 100, False: 100},
}
PROBE: dict[Size, tuple[int, int]] = {"smoke": (500, 32), "laptop": (2000, 256), "paper": (5000, 5000)}


BULK_RATES = (2 / 70, 2 / 30)
PROJECTED_STEPS = 300
RENEWED: dict[Size, int] = {"smoke": 10, "laptop": 50, "paper": 10}


def track(size: Size, *, full_batch: bool = False, more: str = "") -> str:
    """Say what to measure along training, and how often."""
    every, (seen, probe) = EVERY[size][full_batch], PROBE[size]
    own = f"quality:every={every},examples={seen},margins:every={every},examples={seen}"
    sharpness = f"gn_sharpness:every={every},examples={probe}"
    return ",".join(filter(None, (own, sharpness, more)))


def label(optimizer: str, lr: float) -> str:
    """Name an arm."""
    return f"{optimizer}, η = {lr:.3g}"


def coupled(optimizer: str, lr: float, size: Size, *, loss: str = "", more: str = "") -> Arm:
    """Make the arm of an optimizer at a learning rate."""
    full = optimizer == "gd"
    method = f"{optimizer}:lr={lr:.6g}{OPTIONS[optimizer]}"
    method = f"{loss} + {method}" if loss else method
    return moving(method, size, steps=STEPS[optimizer], full_batch=full, track=track(size, full_batch=full, more=more))


def projected(k: int, lr: float, size: Size) -> Arm:
    """Make the arm of BulkSGD without its top k directions; k = 0 is SGD for as many steps.

    Each basis takes dozens of products with the Hessian of all training examples, so a laptop renews it seldom.
    """
    method = f"bulk_sgd:k={k},r={RENEWED[size]},lr={lr:.6g},{PLAIN}" if k else f"sgd:lr={lr:.6g},{PLAIN}"
    return moving(method, size, steps=PROJECTED_STEPS, track=track(size))


def all_coupled(size: Size, optimizers: tuple[str, ...] = tuple(RATES)) -> dict[str, Arm]:
    """Make all arms; the smoke size has two rates of each."""
    return {label(name, lr): coupled(name, lr, size) for name in optimizers for lr in rates(name, size)}


def rates(optimizer: str, size: Size) -> tuple[float, ...]:
    """Give the learning rates of an optimizer."""
    return RATES[optimizer][1:3] if size == "smoke" else RATES[optimizer]


def arms_of(runs: Runs, optimizer: str) -> list[str]:
    """List an optimizer's arms, smallest rate first."""
    return [arm for arm in runs.found if arm.partition(",")[0] == optimizer]


def ranked(runs: Runs, optimizer: str, key: str) -> dict[int, list[list[float]]]:
    """Read a tracked quantity of all arms of an optimizer: one series per arm and seed, numbered by rank and seed.

    Arms are paired across optimizers by the rank of their learning rate.
    """
    found: dict[int, list[list[float]]] = {}
    for rank, arm in enumerate(arms_of(runs, optimizer)):
        for seed, steps in runs.series(arm, key).items():
            if steps:
                found[1000 * rank + seed] = [[float(step), values[0]] for step, values in steps.items()]
    return found
