"""What watching a training costs, without a budget and with one.

    python benchmarks/tracking.py                             four networks, one fresh seed each (5 to 10 minutes)
    python benchmarks/tracking.py --models mlp cnn --seeds 3  some of them, more seeds

Every network trains on the embedded clothes with the ``standard`` preset. A cost is the trackers' seconds over those of
the training between them, in the same process, so that a busy machine slows both alike. A budget of 10 % is kept if the
trackers take no more than that and what one measurement of each takes, which is what they take at step 0.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch

from surefoot.experiment import run
from surefoot.schema import Tracking
from surefoot.studies.compare import make_spec
from surefoot.trackers import read_track

MODELS = {  # network, epochs; a measurement takes up to a tenth of the run with resnet8 and vit, the hard cases
    "mlp": ("mlp", 60),
    "cnn": ("cnn", 30),
    "resnet8": ("resnet8", 15),
    "vit": ("vit_tiny:width=32,depth=2", 15),
}


def share(name: str, seed: int, budget: float | None, track: str, folder: Path) -> tuple[float, int, int]:
    """Train once; return the trackers' share of the training time, and how often they measured and were skipped."""
    model, epochs = MODELS[name]
    spec = make_spec("sgd", model=model, epochs=epochs, seed=seed)
    done = run(spec, folder / f"{name}-{seed}-{budget}", tracking=Tracking(read_track(track), budget))
    summary = done.done()
    if summary is None:
        raise SystemExit(f"Expected the run of {name} to finish, but it did not. Look into {done}.")
    tracked = done.tracked()
    n_skipped = sum("skipped" in record for record in tracked)
    return summary["tracking_seconds"] / summary["seconds"], len(tracked) - n_skipped, n_skipped


def main() -> None:
    """Train every network with the budget, and once without."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--budget", type=float, default=0.1)
    parser.add_argument("--track", default="standard")
    parser.add_argument("--without", action="store_true", help="also measure the cost without a budget")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models:
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                spent, n, skipped = share(name, seed, args.budget, args.track, Path(folder))
                print(f"{name:8} seed {seed}: {spent:6.1%} of training, {n} measured, {skipped} skipped", flush=True)
            if args.without:
                spent, n, _ = share(name, args.first_seed, None, args.track, Path(folder))
                print(f"{name:8} without a budget: {spent:6.1%} of training, {n} measured", flush=True)


if __name__ == "__main__":
    main()
