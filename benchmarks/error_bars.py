"""How far what trackers record is from the truth, along trainings: against a float64 Lanczos.

    python benchmarks/error_bars.py                               nine trainings, some minutes on one core
    python benchmarks/error_bars.py --seeds 0 --lrs 0.05 --tol 1e-2

Networks on the embedded digits, SGD with momentum 0.9 on batches of 32, measured every ten steps at a probe of 128.
A value is outside where it is farther from the truth than its error and the rounding of single precision.
"""

from __future__ import annotations

import argparse
import copy
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.curvature import GaussNewton, Hessian, lanczos
from surefoot.data.digits import digits
from surefoot.models.cnn import cnn
from surefoot.models.mlp import mlp
from surefoot.moment import Horizon, Moment
from surefoot.schema import Splits
from surefoot.trackers import Probe, build_trackers

PROBE = 128
ROUNDING = 2e-5
NETWORKS: dict[str, Callable[[tuple[int, ...]], nn.Module]] = {
    "relu": lambda shape: mlp(shape, 10, width=40),
    "tanh": lambda shape: mlp(shape, 10, width=40, activation="tanh"),
    "cnn": lambda shape: cnn(shape, 10, width=4),
}


@dataclass(frozen=True)
class Deviation:
    """One recorded value: relative distance from the truth, relative bar, products."""

    key: str
    off: float
    bar: float
    products: float

    @property
    def outside(self) -> bool:
        """Whether the bar does not reach the truth."""
        return self.off > self.bar + ROUNDING


def exact(key: str, model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Find the eigenvalue in double precision from a random start, by many products."""
    double, x = copy.deepcopy(model).double(), x.double()
    operator = GaussNewton(double, x, y, form="reverse") if key == "gn_sharpness" else Hessian(double, x, y)
    end, floor = ("bottom", 50) if key == "kappa_min" else ("top", 30)
    draw = torch.Generator().manual_seed(7)
    return lanczos(operator, end=end, tol=1e-7, generator=draw, min_products=floor).values[0].item()


def deviations(
    network: str,
    seed: int,
    lr: float,
    splits: Splits,
    *,
    tol: float | None = None,
    steps: int = 100,
    probe: int = PROBE,
) -> list[Deviation]:
    """Train one network and compare every measurement with the truth."""
    torch.manual_seed(seed)
    model = NETWORKS[network](splits.input_shape)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    own = "" if tol is None else f",tol={tol}"
    texts = [f"{name}:examples={probe}{own}" for name in ("gn_sharpness", "kappa")]
    trackers = build_trackers(texts, Horizon(steps, steps, 32))
    draw, found = torch.Generator().manual_seed(seed), []
    for step in range(steps + 1):
        if step % 10 == 0:
            moment = Moment(step, 0, model.eval(), splits, optimizer=optimizer)
            values = {key: value for tracker in trackers.values() for key, value in tracker.measure(moment).items()}
            x, y, *_ = Probe(probe)(moment)
            for key in ("gn_sharpness", "kappa_max", "kappa_min"):
                truth = exact(key, model, x, y)
                value, error, products = (values[f"{key}/{part}"] for part in ("value", "error", "products"))
                found.append(Deviation(key, abs(value / truth - 1), abs(error / truth), products))
        model.train()
        rows = torch.randint(len(splits.train), (32,), generator=draw)
        optimizer.zero_grad()
        F.cross_entropy(model(splits.train.inputs[rows]), splits.train.labels[rows]).backward()
        optimizer.step()
    return found


def show(title: str, found: list[Deviation]) -> None:
    """Print one line per quantity."""
    for key in ("gn_sharpness", "kappa_max", "kappa_min"):
        own = [each for each in found if each.key == key]
        print(
            f"{title:16} {key:13} {len(own):4d} values, outside {sum(each.outside for each in own):2d}, off by more "
            f"than 1 % {sum(each.off > 0.01 for each in own):2d}, worst {max(each.off for each in own):.2%}, median "
            f"bar {statistics.median(each.bar for each in own):.2%}, products "
            f"{statistics.mean(each.products for each in own):.1f}",
            flush=True,
        )


def main() -> None:
    """Run all trainings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--lrs", nargs="+", type=float, default=[0.05])
    parser.add_argument("--tol", type=float, help="of the trackers (default their own)")
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()
    torch.set_num_threads(1)
    splits, together = digits(), []
    for network in NETWORKS:
        for lr in args.lrs:
            for seed in args.seeds:
                found = deviations(network, seed, lr, splits, tol=args.tol, steps=args.steps)
                show(f"{network} {lr:g} #{seed}", found)
                together += found
    show("all", together)


if __name__ == "__main__":
    main()
