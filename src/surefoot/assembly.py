"""From a spec to the parts that are trained: network, loss, optimizer, schedule, augmentation, on their data."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import torch
from torch.optim.lr_scheduler import LRScheduler

from surefoot.data import load_splits
from surefoot.data.augment import build_augment
from surefoot.ensembles import Ensemble, build_ensemble
from surefoot.errors import InputError, OptionError, SplitError
from surefoot.models import build_model, try_out
from surefoot.moment import Horizon
from surefoot.optim import Wrapper, build_optimizer
from surefoot.registry import DATA, LOSSES
from surefoot.schema import MethodSpec, PartSpec, RunSpec, Splits
from surefoot.seeding import derive, generator, seed_everything
from surefoot.steering import KeepCalibrated
from surefoot.training import Trainee
from surefoot.training.eigenbasis import join_basis
from surefoot.training.parallel import shard
from surefoot.training.passes import Evaluation, check_pieces, check_precision
from surefoot.training.schedule import make_schedule

_Stamp = tuple[tuple[str, int, int], ...]


@lru_cache(maxsize=2)
def _load(data: str, stamp: _Stamp) -> Splits:
    return load_splits(DATA.parse(data))


def splits_of(spec: RunSpec) -> Splits:
    """Load a run's data; runs on the same data in one process share them, until a file of theirs is another one."""
    return _load(str(spec.data), _stamp(spec.data))


@lru_cache(maxsize=1024)
def _fingerprint(data: str, stamp: _Stamp) -> str:
    return _load(data, stamp).fingerprint


def fingerprint_of(spec: RunSpec) -> str:
    """Return the fingerprint of a run's data, which a process loads once to find it."""
    return _fingerprint(str(spec.data), _stamp(spec.data))


def _stamp(data: PartSpec) -> _Stamp:
    """Say which files a data set names, also one inside another, and of when they are."""
    texts = [value for value in data.options.values() if isinstance(value, str)]
    pieces = {piece for text in texts for piece in (text, *re.split("[:=,]", text)) if piece}
    found = []
    for path in map(Path, sorted(pieces)):
        with suppress(OSError, ValueError):  # no file, or no name of one
            held = path.expanduser().stat()
            found.append((str(path.expanduser().resolve()), held.st_mtime_ns, held.st_size))
    return tuple(found)


def member_seed(spec: RunSpec, member: int) -> int:
    """Return the seed of one training; the first one's is the run's own."""
    return derive(spec.seed, f"member/{member}") if member else spec.seed


def whole_horizon(spec: RunSpec, splits: Splits, ensemble: Ensemble) -> Horizon:
    """Count the steps of all trainings."""
    return horizon_of(spec, splits).times(ensemble.trainings)


def horizon_of(spec: RunSpec, splits: Splits) -> Horizon:
    """Count the steps of one training."""
    return Horizon.of(len(splits.train), epochs=spec.epochs, batch_size=spec.batch_size)


def assemble(
    spec: RunSpec,
    splits: Splits,
    ensemble: Ensemble | None = None,
    member: int = 0,
    *,
    sharded: bool = False,
) -> Trainee:
    """Build all that is trained: data's augmentation, network, loss, optimizer, schedule.

    Args:
        spec: What to build.
        splits: Its data.
        ensemble: Goes around network and loss; else the one that the spec names.
        member: Which of the ensemble's trainings.
        sharded: Whether the network is spread out over all processes that train together.

    Returns:
        The parts, at their first weights.

    Raises:
        InputError: If they do not fit together.
    """
    ensemble = ensemble or build_ensemble(spec.method.ensemble)
    seed, horizon = member_seed(spec, member), horizon_of(spec, splits)
    augment = build_augment(spec.augment, splits)
    seed_everything(seed, "init")
    inner = LOSSES.build(spec.method.loss)
    ensemble.check_loss(inner)
    network = inner.attach(build_model(spec.model, splits, ensemble.width), splits, generator(seed, "loss"))
    model = ensemble.wrap(network, generator(seed, "ensemble"))
    try_out(model, str(spec.model), splits)
    loss = ensemble.objective(inner, model, horizon)
    if spec.device.partition(":")[0] == "meta":
        raise InputError("Expected a device that computes, but got 'meta', which has no numbers. Use --device cpu.")
    try:
        model.to(spec.device)
        loss.to(spec.device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"Expected a device torch can use, but got {spec.device!r}. Use --device cpu.") from error
    if spec.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch declares no such overload
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"Expected {spec.model.name} to have parameters to train, but it has none. Unfreeze some.")
    if sharded:
        shard(model, ensemble)
    try:
        optimizer = build_optimizer(spec.method, model, n_train=len(splits.train), tuned=True)
        ensemble.check_optimizer(optimizer)
        join_basis(optimizer, model, splits.train, inner)
    except ValueError as error:  # torch's own word on an option
        raise OptionError(f"Expected options that {spec.method.label} can use, but: {error}. Change them.") from error
    schedule = make_schedule(
        spec.schedule, optimizer, horizon.n_steps, lambda shape, step: ensemble.factor(shape, step, horizon)
    )
    keeper = make_keeper(spec.method, optimizer, schedule, splits)
    network = torch.compile(model) if spec.compile else model
    called = Evaluation(network, loss, check_precision(spec.precision))  # type: ignore[arg-type]  # still a module
    pieces = check_pieces(spec.accumulate, optimizer)
    return Trainee(model, loss, optimizer, schedule, augment, ensemble, member, keeper, called, pieces)


def make_keeper(method: MethodSpec, optimizer: Wrapper, schedule: LRScheduler, splits: Splits) -> KeepCalibrated | None:
    """Make what turns a method's knobs by the calibration split, where the method asks for it.

    Args:
        method: Says in ``tune`` what to turn.
        optimizer: Has the knobs.
        schedule: Sets its learning rate.
        splits: The calibration split must be another than the test split.

    Returns:
        None where nothing is to be turned.

    Raises:
        SplitError: If the test split would steer.
    """
    if method.tune is None:
        return None
    if splits.calibration is splits.test:
        raise SplitError("Expected a calibration split to steer by, but it is the test split. Set some rows aside.")
    return KeepCalibrated(optimizer, knobs=method.tune, schedule=schedule)
