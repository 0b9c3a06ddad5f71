"""What a run has trained, built again from its checkpoints: to predict with, to use elsewhere, to measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from surefoot.assembly import assemble, splits_of, whole_horizon
from surefoot.ensembles import innermost
from surefoot.errors import InputError, OptionError, UnknownNameError
from surefoot.imported import received
from surefoot.moment import Moment
from surefoot.records import RunFolder
from surefoot.records.store import Record
from surefoot.schema import RunSpec, Split, Splits
from surefoot.seeding import set_threads
from surefoot.trackers import build_trackers
from surefoot.training import Trainee, predict_together
from surefoot.training.checkpoint import load_checkpoint, load_checkpoints
from surefoot.training.panel import Panel


def predictor(folder: RunFolder, *, trust: bool = False) -> tuple[Callable[[Split], Tensor], Splits]:
    """Rebuild what a run predicts with, as its last checkpoint has it: a network, or an ensemble of them.

    Args:
        folder: The run.
        trust: Import code of others that the folder names.

    Returns:
        A function that gives the logits of a split, and the data the run was trained on.

    Raises:
        InputError: If there is no checkpoint, or the data are no longer those of the run.
    """
    trainee, splits = _last(folder, trust)
    seed = folder.spec.seed
    return partial(predict_together, trainee.ensemble, trainee.model, trainee.optimizer, seed=seed), splits


def trained_model(folder: RunFolder, *, trust: bool = False) -> nn.Module:
    """Rebuild the network that a run trained.

    Args:
        folder: The run.
        trust: Import code of others that the folder names.

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
    return _last(folder, trust)[0].model.eval()


def _last(folder: RunFolder, trust: bool) -> tuple[Trainee, Splits]:
    """Rebuild a run as its last checkpoint has it."""
    found = load_checkpoint(folder.checkpoints)
    if found is None:
        raise InputError(f"Expected a checkpoint, but {folder.path} has none. Run `surefoot train` again.")
    return _rebuilt(folder, trust, *found)


def _rebuilt(
    folder: RunFolder, trust: bool, weights: dict[str, Tensor], state: dict[str, Any]
) -> tuple[Trainee, Splits]:
    """Rebuild a run as one of its checkpoints has it, on the data that it was trained on."""
    spec = folder.spec
    try:
        with received(folder.path, trust=trust):
            splits = splits_of(spec)
            if splits.fingerprint != folder.data["fingerprint"]:
                raise InputError(
                    f"Expected the data that {folder.path} was trained on, but {spec.data} has changed since. "
                    "Bring the old data back, or train again."
                )
            return _restore(spec, splits, weights, state), splits
    except (OptionError, UnknownNameError) as error:
        raise InputError(
            f"{error} It stands in {folder.path / 'spec.json'}, which is damaged or of another version."
        ) from error


def _restore(spec: RunSpec, splits: Splits, weights: dict[str, Tensor], state: dict[str, Any]) -> Trainee:
    """Assemble a run anew and bring it to where a checkpoint was written."""
    trainee = assemble(spec, splits, member=state.get("member", 0))
    trainee.model.load_state_dict(weights)
    trainee.loss.load_state_dict(state["loss"])
    trainee.optimizer.load_state_dict(state["optimizer"])
    trainee.ensemble.load_state_dict(state.get("ensemble", {}), state["members"])
    return trainee


def _measure_checkpoint(
    folder: RunFolder, trackers: Sequence[str], trust: bool, weights: dict[str, Tensor], state: dict[str, Any]
) -> list[Record]:
    spec, step = folder.spec, state["step"]
    trainee, splits = _rebuilt(folder, trust, weights, state)
    length = whole_horizon(spec, splits, trainee.ensemble)
    epoch = step // length.steps_per_epoch
    moment = Moment(step, epoch, trainee.model, splits, loss=innermost(trainee.loss), optimizer=trainee.optimizer)
    place = {"run": folder.run_id, "seed": spec.seed, "step": step, "epoch": epoch, "passes": state["passes"]}
    seen = Panel(build_trackers(trackers, length)).measure(moment, everything=True)
    return [{**place, "tracker": name, **values} for name, values in seen]


def measure(path: Path | str, trackers: Sequence[str], *, threads: int = 1, trust: bool = False) -> list[Record]:
    """Measure a run after the fact, at every checkpoint that is there.

    Args:
        path: The run folder.
        trackers: What to measure, as :func:`~surefoot.trackers.read_track` gives it.
        threads: How many threads torch uses.
        trust: Import code of others that the folder names.

    Returns:
        One record per tracker and checkpoint, as added to the folder.

    Raises:
        InputError: If there is no checkpoint.
    """
    set_threads(threads)
    folder = RunFolder(path)
    _ = folder.spec  # raises where there is no run, before a lock would make the folder
    with folder.locked():
        records = [
            record
            for checkpoint in load_checkpoints(folder.checkpoints)
            for record in _measure_checkpoint(folder, trackers, trust, *checkpoint)
        ]
        if not records:
            raise InputError(f"Expected a checkpoint to measure, but {path} has none. Run `surefoot train` again.")
        new = {(record["step"], record["tracker"]) for record in records}
        earlier = [record for record in folder.tracked_later() if (record["step"], record["tracker"]) not in new]
        folder.write_tracked(earlier + records)
    return records
