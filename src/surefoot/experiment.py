"""One spec in, one finished run folder out."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import surefoot
from surefoot.assembly import assemble, fingerprint_of, member_seed, splits_of, whole_horizon
from surefoot.data.stored import set_load_workers
from surefoot.ensembles import Ensemble
from surefoot.errors import InputError
from surefoot.evaluate import evaluate
from surefoot.ranks import Ranks, together
from surefoot.records import RunFolder
from surefoot.records.environment import environment
from surefoot.registry import TRACKERS
from surefoot.schema import CHECKPOINT_EVERY, SPLITS, UNTRACKED, Predictions, RunSpec, Splits, Tracking
from surefoot.seeding import seed_everything, set_threads
from surefoot.trackers import build_trackers
from surefoot.training import Tracker, Trainee, fit, predict_together
from surefoot.training.listener import RunListener, heard
from surefoot.training.loop import Progress
from surefoot.training.parallel import check_same, check_shard, check_trackers, replicated

# Part of every run's id. It rises whenever the same spec comes to train to other weights, so that a folder from before
# is not taken for the run of today: 2 since the batches of an epoch are of one size, 3 since weights of linear layers
# are moved in the perturbed pass like all others.
EDITION = 3
TRACKED = ("quality",)  # in every run, whatever else is asked for


def run_id(spec: RunSpec) -> str:
    """Name a run by its spec, its data, the package's version and the edition of the training."""
    return spec.run_id(fingerprint_of(spec), f"{surefoot.__version__}/{EDITION}")


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
    assemble(spec, splits_of(spec))


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
    shard: str = "none",
    load_workers: int = 0,
) -> RunFolder:
    """Train, predict and measure; or go on where an earlier process stopped; or find that all is done.

    Args:
        spec: What to run.
        path: The run folder.
        fresh: Begin anew, whichever run the folder holds; what is not of a run stays.
        threads: How many threads torch uses; results depend on it in the last bits.
        checkpoint_every: Seconds between checkpoints.
        keep_every: Epochs between checkpoints that stay for :func:`~surefoot.trained.measure`; 0 keeps the newest only.
        tracking: What to measure on the way. A run in the folder that did not is made anew, to the same bits.
        on_progress: Called after every step.
        listener: Hears every record as it is made; of a finished run, that it is finished.
        shard: Of processes that torchrun has started, whether each has a replica of the network (``none``) or a part
            of it (``fsdp2``).
        load_workers: Processes that read data ahead which are not in memory; the run is the same.

    Returns:
        The finished run.

    Raises:
        InputError: If the folder holds another run or somebody's own files, or the parts do not fit together.
    """
    set_threads(threads)
    set_load_workers(load_workers)
    folder = RunFolder(path)
    with together(spec.device) as ranks, ExitStack() as held:
        name = ranks.alike(lambda: run_id(spec))
        ranks.alike(lambda: check_same(name, ranks))
        ranks.alike(lambda: check_shard(shard))
        listener = listener if ranks.is_first else None

        def claim() -> tuple[bool, Tracking] | None:
            """Take the folder; say whether to begin anew, and what to measure, or that all is done."""
            folder.check_ours()
            held.enter_context(folder.locked())
            if folder.run_id not in (None, name) and not fresh:
                raise InputError(
                    f"Expected {path} to be empty or to hold this run, but it holds another one ({folder.run_id}). "
                    "Choose another --out, or replace it with --fresh."
                )
            anew = fresh or not is_tracked(folder, tracking)
            if folder.done() and not anew:
                return None
            return anew, tracking if anew or folder.run_id is None else folder.tracking

        todo = ranks.by_first(claim)
        with heard(listener, folder):
            if todo is None:
                if listener is not None:
                    listener.begin(folder)
                return folder
            anew, tracking = todo
            sharded = shard != "none"
            first = ranks.alike(lambda: assemble(spec, splits_of(spec), sharded=sharded))
            if sharded:
                ranks.alike(lambda: check_trackers(_trackers(spec, first.ensemble, tracking)))
            if ranks.is_first:  # parts that do not fit together have left the folder as it was
                if anew:
                    folder.clear()
                _begin(folder, spec, name, environment(threads, spec.device, ranks.n, shard), tracking)
            fitting = {"checkpoint_every": checkpoint_every, "keep_every": keep_every, "listener": listener}
            watched = on_progress if ranks.is_first else None
            _train(folder, spec, first, tracking, ranks, sharded, **fitting, on_progress=watched)
            ranks.by_first(lambda: _end(folder, spec, name))
    return folder


def _end(folder: RunFolder, spec: RunSpec, name: str) -> None:
    """Measure the predictions and say that the run is finished."""
    passes = folder.steps()[-1]["passes"]
    evaluate(folder, passes)
    seconds = {"seconds": round(folder.seconds(), 3), "tracking_seconds": round(folder.tracking_seconds(), 3)}
    folder.finish({"run": name, "seed": spec.seed, "passes": passes, **seconds})


def _begin(folder: RunFolder, spec: RunSpec, name: str, where: dict[str, Any], tracking: Tracking) -> None:
    """Write down what is about to run, and where."""
    splits = splits_of(spec)
    folder.begin(spec, name, _describe(splits), where, tracking)
    if rows := {split: found for split in SPLITS if (found := splits[split].rows) is not None}:
        folder.write_rows(rows)


def _train(
    folder: RunFolder,
    spec: RunSpec,
    first: Trainee,
    tracking: Tracking,
    ranks: Ranks,
    sharded: bool,
    **fitting: Any,
) -> None:
    """Train all networks of the ensemble, one after another, and predict every split."""
    splits, ensemble, trainee = splits_of(spec), first.ensemble, first
    for member in range(ensemble.trainings):
        trainee = assemble(spec, splits, ensemble, member, sharded=sharded) if member else first
        trainee = trainee if sharded else replicated(trainee, ranks)
        seed = member_seed(spec, member)
        seed_everything(seed, "train" if ranks.is_first else f"train/rank {ranks.rank}")
        fit(
            trainee,
            splits,
            folder,
            epochs=spec.epochs,
            batch_size=spec.batch_size,
            seed=seed,
            trackers=_trackers(spec, ensemble, tracking),
            budget=tracking.budget,
            ranks=ranks,
            **fitting,
        )
    for split in SPLITS:
        logits = predict_together(ensemble, trainee.model, trainee.optimizer, splits[split], spec.seed, ranks).numpy()
        labels = splits[split].labels.numpy()
        if ranks.is_first:
            folder.write_predictions(Predictions(logits, labels, split, class_names=splits.class_names))


def _trackers(spec: RunSpec, ensemble: Ensemble, tracking: Tracking) -> dict[str, Tracker]:
    return build_trackers(_named(tracking.trackers), whole_horizon(spec, splits_of(spec), ensemble))


def is_tracked(folder: RunFolder, tracking: Tracking) -> bool:
    """Return whether a folder's run, if there is one, measures all that is asked for."""
    return folder.run_id is None or folder.tracking.covers(tracking)


def _named(trackers: Sequence[str]) -> list[str]:
    """Add what is always measured, unless it is among them with options of its own."""
    names = {TRACKERS.read(text)[0].name for text in trackers}
    return [*(text for text in TRACKED if text not in names), *trackers]


def _describe(splits: Splits) -> dict[str, object]:
    return {
        "fingerprint": splits.fingerprint,
        "classes": list(splits.class_names),
        "input_shape": list(splits.input_shape),
        "examples": {split: len(splits[split]) for split in SPLITS},
        "scaling": dataclasses.asdict(splits.scaling) if splits.scaling else None,
    }
