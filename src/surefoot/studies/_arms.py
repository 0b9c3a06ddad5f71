"""The settings that studies share, so that they share runs: finished networks, and curvature along training."""

from __future__ import annotations

from surefoot.schema import UNTRACKED, Tracking
from surefoot.studies import _data
from surefoot.studies._shifted import Shift
from surefoot.studies.compare import make_spec
from surefoot.studies.contract import Arm, Size

# The radius at which each size runs SAM and CSAM unless a study sweeps it: the published one is for deep networks.
RHO: dict[Size, float] = {"smoke": 0.2, "laptop": 0.2, "paper": 0.05}


def finished(
    method: str,
    size: Size,
    *,
    classes: int = 10,
    track: str = "",
    smooth: bool = False,
    published: str = "resnet56",
    shift: Shift | None = None,
) -> Arm:
    """Make an arm whose finished network matters: a cosine schedule to the end, SGD with momentum below.

    Args:
        method: For example ``"csam:gamma=2,rho=0.1"``.
        size: At ``paper``, the published network on CIFAR for 200 epochs.
        classes: 100 for what was published on CIFAR-100.
        track: What to measure on the way.
        smooth: Use tanh, for what is only true of networks without kinks; paper size keeps its network.
        published: The network at paper size.
        shift: On which shifted pictures the finished network is measured.

    Returns:
        The arm.
    """
    data = _data.pictures(size) if classes == 10 else _data.hundred_classes(size)
    model, epochs, batch_size = {
        "smoke": ("mlp:width=16", 1, 500),
        "laptop": ("mlp", 40, 128),
        "paper": (published, 200, 128),
    }[size]
    if smooth and size != "paper":
        model += f"{',' if ':' in model else ':'}activation=tanh"
    device = "cuda" if size == "paper" else "cpu"
    spec = make_spec(
        method, data=data, model=model, epochs=epochs, batch_size=batch_size, device=device, schedule="cosine"
    )
    return Arm(spec, tracking(track), shift)


def moving(
    method: str, size: Size, *, steps: int = 2000, full_batch: bool = False, track: str = "", classes: int = 10
) -> Arm:
    """Make an arm whose way matters: a tanh network with two hidden layers of 200 units and a constant rate.

    Args:
        method: For example ``"sgd:lr=0.05,momentum=0,weight_decay=0"``.
        size: At ``paper``, 100,000 steps.
        steps: At ``laptop``, about how many.
        full_batch: Whether one step sees all 5,000 examples.
        track: What to measure on the way.
        classes: 100 for CIFAR-100.

    Returns:
        The arm.
    """
    width, wanted, n_train = {
        "smoke": (16, 16, 4000),
        "laptop": (200, steps, 5000),
        "paper": (200, 100_000, 5000),
    }[size]
    batch_size = n_train if full_batch else {"smoke": 500, "laptop": 128, "paper": 128}[size]
    epochs = max(1, wanted // -(-n_train // batch_size))
    spec = make_spec(
        method,
        data=_data.dynamics(size, classes),
        model=f"mlp:width={width},activation=tanh",
        epochs=epochs,
        batch_size=batch_size,
        schedule="constant",
        device="cuda" if size == "paper" else "cpu",
    )
    return Arm(spec, tracking(track))


def tracking(track: str) -> Tracking:
    """Read what to measure on the way; an empty text asks for nothing beyond what every run measures."""
    from surefoot.trackers import read_track  # imports torch, which reading results does not need

    return Tracking(read_track(track)) if track else UNTRACKED
