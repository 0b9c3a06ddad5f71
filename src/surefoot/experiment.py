"""One spec in, one finished run folder out."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import surefoot
from surefoot.data import load_splits
from surefoot.data.augment import build_augment
from surefoot.ensembles import Ensemble, build_ensemble, innermost
from surefoot.errors import InputError, OptionError
from surefoot.evaluate import evaluate
from surefoot.models import build_model, try_out
from surefoot.moment import Horizon, Moment
from surefoot.optim import build_optimizer
from surefoot.records import RunFolder
from surefoot.records.environment import environment
from surefoot.records.store import Record
from surefoot.registry import DATA, LOSSES, TRACKERS
from surefoot.schema import CHECKPOINT_EVERY, SPLITS, UNTRACKED, Predictions, RunSpec, Split, Splits, Tracking
from surefoot.seeding import derive, generator, seed_everything
from surefoot.trackers import build_trackers
from surefoot.training import Trainee, fit, predict_together
from surefoot.training.checkpoint import load_checkpoint, load_checkpoints
from surefoot.training.eigenbasis import join_basis
from surefoot.training.listener import RunListener, heard
from surefoot.training.loop import Progress
from surefoot.training.panel import Panel
from surefoot.training.schedule import make_schedule

# Part of every run's id. It rises whenever the same spec comes to train to other weights, so that a folder from before
# is not taken for the run of today: 2 since the batches of an epoch are of one size, 3 since weights of linear layers
# are moved in the perturbed pass like all others.
EDITION = 3
TRACKED = ("quality",)  # in every run, whatever else is asked for


@lru_cache(maxsize=2)
def _load(data: str) -> Splits:
    return load_splits(DATA.parse(data))


def splits_of(spec: RunSpec) -> Splits:
    """Load a run's data; runs on the same data in one process share them."""
    return _load(str(spec.data))


def run_id(spec: RunSpec) -> str:
    """Name a run by its spec, its data, the package's version and the edition of the training."""
    return spec.run_id(splits_of(spec).fingerprint, f"{surefoot.__version__}/{EDITION}")


def folder_name(spec: RunSpec) -> str:
    """Name a run's folder so that people and programs find it: method, seed, id."""
    method = re.sub(r"[^A-Za-z0-9]+", "-", spec.method.name).strip("-")[:48]
    return f"{method}-seed{spec.seed}-{run_id(spec)}"


def check(spec: RunSpec) -> None:
    """Find out whether a spec can run, without running it.

    Args:
        spec: To be built once and thrown away.

    Raises:
        InputError: If its parts do not fit together.
    """
    _assemble(spec, splits_of(spec))


def run(
    spec: RunSpec,
    path: Path | str,
    *,
    fresh: bool = False,
    threads: int = 1,
    checkpoint_every: float = CHECKPOINT_EVERY,
    keep_every: int = 0,
    tracking: Tracking = UNTRACKED,
    on_progress: Progress | None = None,
    listener: RunListener | None = None,
) -> RunFolder:
    """Train, predict and measure; or go on where an earlier process stopped; or find that all is done.

    Args:
        spec: What to run.
        path: The run folder.
        fresh: Begin anew, whichever run the folder holds; what is not of a run stays.
        threads: How many threads torch uses; results depend on it in the last bits.
        checkpoint_every: Seconds between checkpoints.
        keep_every: Epochs between checkpoints that stay for :func:`measure`; 0 keeps the newest only.
        tracking: What to measure on the way. A run in the folder that did not is made anew, to the same bits.
        on_progress: Called after every step.
        listener: Hears every record as it is made; of a finished run, that it is finished.

    Returns:
        The finished run.

    Raises:
        InputError: If the folder holds another run or somebody's own files, or the parts do not fit together.
    """
    torch.set_num_threads(threads)
    folder, name = RunFolder(path), run_id(spec)
    folder.check_ours()
    with folder.locked():
        if folder.run_id not in (None, name) and not fresh:
            raise InputError(
                f"Expected {path} to be empty or to hold this run, but it holds another one ({folder.run_id}). "
                "Choose another --out, or replace it with --fresh."
            )
        fresh = fresh or not is_tracked(folder, tracking)
        if folder.done() and not fresh:
            with heard(listener, folder):
                if listener is not None:
                    listener.begin(folder)
            return folder
        tracking = tracking if fresh or folder.run_id is None else folder.tracking
        with heard(listener, folder):
            splits = splits_of(spec)
            ensemble = build_ensemble(spec.method.ensemble)
            trainee = _assemble(spec, splits, ensemble)
            if fresh:
                folder.clear()
            folder.begin(spec, name, _describe(splits), environment(threads, spec.device), tracking)
            if rows := {split: found for split in SPLITS if (found := splits[split].rows) is not None}:
                folder.write_rows(rows)
            for member in range(ensemble.trainings):
                trainee = _assemble(spec, splits, ensemble, member) if member else trainee
                seed_everything(_seed(spec, member), "train")
                fit(
                    trainee,
                    splits,
                    folder,
                    epochs=spec.epochs,
                    batch_size=spec.batch_size,
                    seed=_seed(spec, member),
                    trackers=build_trackers(_named(tracking.trackers), _length(spec, splits, ensemble)),
                    budget=tracking.budget,
                    checkpoint_every=checkpoint_every,
                    keep_every=keep_every,
                    on_progress=on_progress,
                    listener=listener,
                )
            for split in SPLITS:
                logits = predict_together(ensemble, trainee.model, trainee.optimizer, splits[split], spec.seed).numpy()
                labels = splits[split].labels.numpy()
                folder.write_predictions(Predictions(logits, labels, split, class_names=splits.class_names))
            passes = folder.steps()[-1]["passes"]
            evaluate(folder, passes)
            seconds = {"seconds": round(folder.seconds(), 3), "tracking_seconds": round(folder.tracking_seconds(), 3)}
            folder.finish({"run": name, "seed": spec.seed, "passes": passes, **seconds})
    return folder


def is_tracked(folder: RunFolder, tracking: Tracking) -> bool:
    """Return whether a folder's run, if there is one, measures all that is asked for."""
    return folder.run_id is None or folder.tracking.covers(tracking)


def _named(trackers: Sequence[str]) -> list[str]:
    """Add what is always measured, unless it is among them with options of its own."""
    names = {TRACKERS.read(text)[0].name for text in trackers}
    return [*(text for text in TRACKED if text not in names), *trackers]


def measure(path: Path | str, trackers: Sequence[str], *, threads: int = 1) -> list[Record]:
    """Measure a run after the fact, at every checkpoint that is there.

    Args:
        path: The run folder.
        trackers: What to measure, as :func:`~surefoot.trackers.read_track` gives it.
        threads: How many threads torch uses.

    Returns:
        One record per tracker and checkpoint, as added to the folder.

    Raises:
        InputError: If there is no checkpoint.
    """
    torch.set_num_threads(threads)
    folder = RunFolder(path)
    _ = folder.spec  # raises where there is no run, before a lock would make the folder
    with folder.locked():
        records = [
            record
            for checkpoint in load_checkpoints(folder.checkpoints)
            for record in _measure_checkpoint(folder, trackers, *checkpoint)
        ]
        if not records:
            raise InputError(f"Expected a checkpoint to measure, but {path} has none. Run `surefoot train` again.")
        new = {(record["step"], record["tracker"]) for record in records}
        earlier = [record for record in folder.tracked_later() if (record["step"], record["tracker"]) not in new]
        folder.write_tracked(earlier + records)
    return records


def trained(folder: RunFolder) -> tuple[Callable[[Split], Tensor], Splits]:
    """Rebuild what a run predicts with, as its last checkpoint has it: a network, or an ensemble of them.

    Args:
        folder: The run.

    Returns:
        A function that gives the logits of a split, and the data the run was trained on.

    Raises:
        InputError: If there is no checkpoint, or the data are no longer those of the run.
    """
    trainee, splits = _last(folder)
    seed = folder.spec.seed
    return partial(predict_together, trainee.ensemble, trainee.model, trainee.optimizer, seed=seed), splits


def trained_model(folder: RunFolder) -> nn.Module:
    """Rebuild the network that a run trained.

    Args:
        folder: The run.

    Returns:
        The network, in eval mode.

    Raises:
        InputError: If the run trained an ensemble, there is no checkpoint, or the data have changed.
    """
    if folder.spec.method.ensemble is not None:
        raise InputError(
            f"Expected a run of one network, but {folder.path} trained {folder.spec.method.ensemble.name}. "
            "Take its predictions."
        )
    return _last(folder)[0].model.eval()


def _last(folder: RunFolder) -> tuple[Trainee, Splits]:
    """Rebuild a run as its last checkpoint has it."""
    spec = folder.spec
    splits = splits_of(spec)
    if splits.fingerprint != folder.data["fingerprint"]:
        raise InputError(
            f"Expected the data that {folder.path} was trained on, but {spec.data} has changed since. "
            "Bring the old data back, or train again."
        )
    found = load_checkpoint(folder.checkpoints)
    if found is None:
        raise InputError(f"Expected a checkpoint, but {folder.path} has none. Run `surefoot train` again.")
    return _restore(spec, splits, *found), splits


def _restore(spec: RunSpec, splits: Splits, weights: dict[str, Tensor], state: dict[str, Any]) -> Trainee:
    """Assemble a run anew and bring it to where a checkpoint was written."""
    trainee = _assemble(spec, splits, member=state.get("member", 0))
    trainee.model.load_state_dict(weights)
    trainee.loss.load_state_dict(state["loss"])
    trainee.optimizer.load_state_dict(state["optimizer"])
    trainee.ensemble.load_state_dict(state.get("ensemble", {}), state["members"])
    return trainee


def _measure_checkpoint(
    folder: RunFolder, trackers: Sequence[str], weights: dict[str, Tensor], state: dict[str, Any]
) -> list[Record]:
    spec, step = folder.spec, state["step"]
    splits = splits_of(spec)
    trainee = _restore(spec, splits, weights, state)
    length = _length(spec, splits, trainee.ensemble)
    epoch = step // length.steps_per_epoch
    moment = Moment(step, epoch, trainee.model, splits, loss=innermost(trainee.loss), optimizer=trainee.optimizer)
    place = {"run": folder.run_id, "seed": spec.seed, "step": step, "epoch": epoch, "passes": state["passes"]}
    seen = Panel(build_trackers(trackers, length)).measure(moment, everything=True)
    return [{**place, "tracker": name, **values} for name, values in seen]


def _seed(spec: RunSpec, member: int) -> int:
    """Return the seed of one training; the first one's is the run's own."""
    return derive(spec.seed, f"member/{member}") if member else spec.seed


def _length(spec: RunSpec, splits: Splits, ensemble: Ensemble) -> Horizon:
    """Count the steps of all trainings."""
    return _length_of_one(spec, splits).times(ensemble.trainings)


def _length_of_one(spec: RunSpec, splits: Splits) -> Horizon:
    return Horizon.of(len(splits.train), epochs=spec.epochs, batch_size=spec.batch_size)


def _assemble(spec: RunSpec, splits: Splits, ensemble: Ensemble | None = None, member: int = 0) -> Trainee:
    ensemble = ensemble or build_ensemble(spec.method.ensemble)
    seed, horizon = _seed(spec, member), _length_of_one(spec, splits)
    augment = build_augment(spec.augment, splits)
    seed_everything(seed, "init")
    inner = LOSSES.build(spec.method.loss)
    ensemble.check_loss(inner)
    network = inner.attach(build_model(spec.model, splits, ensemble.width), splits, generator(seed, "loss"))
    model = ensemble.wrap(network, generator(seed, "ensemble"))
    try_out(model, str(spec.model), splits)
    loss = ensemble.objective(inner, model, horizon)
    try:
        model.to(spec.device)
        loss.to(spec.device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"Expected a device torch can use, but got {spec.device!r}. Use --device cpu.") from error
    if spec.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch declares no such overload
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(f"Expected {spec.model.name} to have parameters to train, but it has none. Unfreeze some.")
    try:
        optimizer = build_optimizer(spec.method, model, n_train=len(splits.train))
        ensemble.check_optimizer(optimizer)
        join_basis(optimizer, model, splits.train, inner)
    except ValueError as error:  # torch's own word on an option
        raise OptionError(f"Expected options that {spec.method.label} can use, but: {error}. Change them.") from error
    schedule = make_schedule(
        spec.schedule, optimizer, horizon.n_steps, lambda shape, step: ensemble.factor(shape, step, horizon)
    )
    return Trainee(model, loss, optimizer, schedule, augment, ensemble, member)


def _describe(splits: Splits) -> dict[str, object]:
    return {
        "fingerprint": splits.fingerprint,
        "classes": list(splits.class_names),
        "input_shape": list(splits.input_shape),
        "examples": {split: len(splits[split]) for split in SPLITS},
        "scaling": dataclasses.asdict(splits.scaling) if splits.scaling else None,
    }
