"""The settings that studies share, so that they share runs: finished networks, and curvature along training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal

from surefoot.schema import UNTRACKED, Tracking
from surefoot.studies import _data
from surefoot.studies._shifted import Shift
from surefoot.studies.compare import make_spec
from surefoot.studies.contract import Arm, Size
from surefoot.studies.runs import SETTING

Task = Literal["pictures", "residual", "colours", "hundred"]
FIRST_SEED = 10  # those below were spent on the first round and on C1
FRESH_SEED = 20  # for what was amended after others had been seen on the seeds from 10 on
LATER_SEED = 30  # and from 20 on
LAST_SEED = 60  # for what was open with those before
# The radius at which each size runs SAM and CSAM where a study neither sweeps nor tunes it.
RHO: dict[Size, float] = {"smoke": 0.2, "laptop": 0.2, "paper": 0.05}
# On a laptop: network and epochs. All of them fit their training set and grow over-confident under plain SGD.
LAPTOP: dict[Task, tuple[str, int]] = {
    "pictures": ("mlp", 40),
    "residual": ("resnet8", 40),
    "colours": ("mlp", 40),
    "hundred": ("mlp", 40),
}
# What each method is tuned over: three settings of its own, the published or usual one among them.
OWN: dict[str, tuple[str, str, str]] = {
    "sgd": ("lr=0.05", "lr=0.1", "lr=0.2"),
    "sam": ("rho=0.05", "rho=0.1", "rho=0.2"),
    "ssam": ("rho=0.05", "rho=0.1", "rho=0.2"),
    "vasso": ("rho=0.05", "rho=0.1", "rho=0.2"),
    "asam": ("rho=0.5", "rho=1", "rho=2"),
    "csam": ("rho=0.1,gamma=1", "rho=0.2,gamma=1", "rho=0.2,gamma=2"),
    "bsam": ("lr=0.1", "lr=0.5", "lr=1"),
    "focal": ("gamma=1", "gamma=2", "gamma=3"),
    "dual_focal": ("gamma=1", "gamma=3", "gamma=5"),
    "adafocal": ("rate=0.3", "rate=1", "rate=3"),
    "mixup": ("alpha=0.2", "alpha=0.4", "alpha=1"),
    "mit": ("alpha=0.2", "alpha=0.5", "alpha=1"),
    "mmce": ("weight=0.1", "weight=0.5", "weight=2"),
    "acls": ("alpha=0.02", "alpha=0.1", "alpha=0.5"),
    "balcal": ("delta=0.9", "delta=0.95", "delta=0.99"),
    "label_smoothing": ("alpha=0.02", "alpha=0.05", "alpha=0.1"),
    "mbls": ("margin=3", "margin=6", "margin=10"),
    "crl": ("weight=0.3", "weight=1", "weight=3"),
    "cpc": ("w1=0.03", "w1=0.1", "w1=0.3"),
    "mdca": ("beta=1", "beta=5", "beta=10"),
    "batch_ensemble": ("fast_lr=0.5", "fast_lr=0.2", "fast_lr=1"),
    "rank1": ("prior_std=0.05", "prior_std=0.1", "prior_std=0.2"),
    "vi": ("prior_std=0.05", "prior_std=0.1", "prior_std=0.2"),
    "mimo": ("repetitions=1", "repetitions=2", "repetitions=4"),
}
LOOKS = 128  # steps between looks at a network on the way, on a laptop
DECAYS = ("weight_decay=0.0005", "weight_decay=0.004")  # each of them with both
PRIORS = ("prior_precision=40", "prior_precision=320")  # what bSAM has instead
RESIDUAL: dict[str, tuple[str, ...]] = {  # on the residual network, which takes minutes: two settings of each
    "sgd": ("lr=0.1", "lr=0.2"),
    "sam": ("rho=0.1", "rho=0.2"),
    "csam": ("rho=0.1,gamma=1", "rho=0.2,gamma=2"),
    "label_smoothing": ("alpha=0.05", "alpha=0.1"),
    "focal": ("gamma=1", "gamma=3"),
    "mixup": ("alpha=0.2", "alpha=1"),
}
RESIDUAL_DECAY = DECAYS[1]  # for all of them there: on spent seeds SGD's NLL was 1.2 with it and 1.7 with the other
DEEP = ", ResNet-8"  # behind the name of an arm on that network
AUTO = {"csam auto": "csam:tune=auto", "csam auto, every 4th": "csam:every=4,tune=auto"}  # tune themselves


def finished(
    method: str,
    size: Size,
    *,
    on: Task = "pictures",
    track: str = "",
    smooth: bool = False,
    published: str = "resnet56",
    shift: Shift | None = None,
    longer: int = 1,
) -> Arm:
    """Make an arm whose finished network matters: a cosine schedule to the end, SGD with momentum below.

    Args:
        method: For example ``"csam:gamma=2,rho=0.1"``.
        size: At ``paper``, the published network on CIFAR for 200 epochs.
        on: The embedded pictures with a perceptron, or part of CIFAR: a residual network on ten classes, a perceptron
            on ten or on a hundred.
        track: What to measure on the way beside a few looks at its quality.
        smooth: Use tanh, for what is only true of networks without kinks; paper size keeps its network.
        published: The network at paper size.
        shift: On which shifted pictures the finished network is measured.
        longer: Times the epochs, for what is compared at equal cost.

    Returns:
        The arm, whose every seed divides the data anew.
    """
    if on == "pictures":
        data = _data.pictures(size)
    else:
        data = _data.coloured(size, 100 if on == "hundred" else 10, keep_test=on == "residual")
    model, epochs, batch_size = {
        "smoke": ("mlp:width=16", 1, 500),
        "laptop": (*LAPTOP[on], 125),
        "paper": (published, 200, 128),
    }[size]
    if smooth and size != "paper":
        model += f"{',' if ':' in model else ':'}activation=tanh"
    spec = make_spec(
        method,
        data=data.format(seed=0),
        model=model,
        epochs=longer * epochs,
        batch_size=batch_size,
        device="cuda" if size == "paper" else "cpu",
        schedule="cosine",
        channels_last=on == "residual" and size == "laptop",
    )
    looks = f"quality:every={LOOKS},examples={5000 if on == 'pictures' else 500}" if size == "laptop" else ""
    return Arm(spec, tracking(",".join(filter(None, (looks, track)))), shift, data)


def tuned(
    methods: Iterable[str],
    size: Size,
    *,
    on: Task = "pictures",
    decays: Sequence[str] = DECAYS,
    published: str = "resnet56",
    track: str = "",
    shift: Shift | None = None,
    longer: int = 1,
) -> dict[str, Arm]:
    """Make the arms of methods that are tuned on the calibration split: as many settings of each.

    Args:
        methods: Names such as ``"csam"``, ``"focal"``, ``"vi"`` or ``"focal + sam"``; of a sum the last is tuned, and
            losses and ensembles stand on SGD.
        size: The smoke size has one setting of each.
        on: See :func:`finished`.
        decays: Weight decays, each with all settings of the method's own.
        published: See :func:`finished`.
        track: See :func:`finished`.
        shift: See :func:`finished`.
        longer: See :func:`finished`.

    Returns:
        Arms ``method · setting``; :meth:`~surefoot.studies.runs.Runs.tuned` chooses.
    """
    arms = {}
    for method in methods:
        last = method.split(" + ")[-1]
        every = [f"{own},{decay}" for own, decay in product(OWN[last], PRIORS if last == "bsam" else decays)]
        for setting in every[:1] if size == "smoke" else every:
            arms[f"{method}{SETTING}{setting}"] = finished(
                _with(method, setting), size, on=on, published=published, track=track, shift=shift, longer=longer
            )
    return arms


def residual(methods: Iterable[str], size: Size, *, shift: Shift | None = None, longer: int = 1) -> dict[str, Arm]:
    """Make the arms of methods on the residual network, tuned or tuning themselves.

    Args:
        methods: Of ``RESIDUAL`` and ``AUTO``.
        size: How large.
        shift: See :func:`finished`.
        longer: See :func:`finished`.

    Returns:
        Arms ``method, ResNet-8 · setting``; what tunes itself has no setting.
    """
    arms = {}
    for method in methods:
        if method in AUTO:
            arms[f"{method}{DEEP}"] = finished(AUTO[method], size, on="residual", shift=shift, longer=longer)
            continue
        for setting in (f"{own},{RESIDUAL_DECAY}" for own in RESIDUAL[method]):
            text = _with(method, setting)
            arms[f"{method}{DEEP}{SETTING}{setting}"] = finished(text, size, on="residual", shift=shift, longer=longer)
    return arms


def tuning_themselves(size: Size, *, published: str = "resnet56") -> dict[str, Arm]:
    """Make the arms of what needs no settings."""
    return {name: finished(method, size, published=published) for name, method in AUTO.items()}


def asked_again(arms: Mapping[str, Arm], size: Size, n_seeds: int) -> dict[str, Arm]:
    """Give the arms of what was open new seeds of their own on a laptop; at other sizes nothing was seen yet.

    Args:
        arms: By label.
        size: How large.
        n_seeds: How many.

    Returns:
        The arms.
    """
    seeds = range(LAST_SEED, LAST_SEED + n_seeds) if size == "laptop" else None
    return {label: replace(arm, seeds=seeds) for label, arm in arms.items()}


def _with(method: str, setting: str) -> str:
    """Give a method its setting, and the weight decay in it to the optimizer at the bottom.

    Example:
        >>> _with("sam", "rho=0.1,weight_decay=0.004")
        'sam:rho=0.1,weight_decay=0.004'
        >>> _with("focal", "gamma=2,weight_decay=0.004")
        'focal:gamma=2 + sgd:weight_decay=0.004'
    """
    own, _, decay = setting.rpartition(",")
    if method.endswith(("sgd", "sam", "vasso")):
        return f"{method}:{setting}"
    return f"{method}:{own} + sgd:{decay}"


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
        The arm, whose every seed divides the data anew; at ``paper`` they are as published.
    """
    width, wanted, n_train = {
        "smoke": (16, 16, 4000),
        "laptop": (200, steps, 5000),
        "paper": (200, 100_000, 5000),
    }[size]
    batch_size = n_train if full_batch else {"smoke": 500, "laptop": 125, "paper": 125}[size]
    data = _data.dynamics(size, classes)
    spec = make_spec(
        method,
        data=data.format(seed=0),
        model=f"mlp:width={width},activation=tanh",
        epochs=max(1, wanted // -(-n_train // batch_size)),
        batch_size=batch_size,
        schedule="constant",
        device="cuda" if size == "paper" else "cpu",
    )
    return Arm(spec, tracking(track), data=data)


def tracking(track: str) -> Tracking:
    """Read what to measure on the way; an empty text asks for nothing beyond what every run measures."""
    from surefoot.trackers import read_track  # imports torch, which reading results does not need

    return Tracking(read_track(track)) if track else UNTRACKED
