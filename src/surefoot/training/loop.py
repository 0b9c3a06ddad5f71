"""The loop.

The order of the examples in an epoch is a function of seed and epoch, and a checkpoint holds everything else
that a step depends on. So a run that was killed goes on to the very same bits as one that was not. The batches of an
epoch are of one size, so that no step, and no moment right behind it, is unlike the others.

Several ranks make every step together. All of them form the same batch, with all that is drawn for it, and each
evaluates its share, so that the number of ranks changes as little as possible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from surefoot.errors import InputError
from surefoot.moment import Horizon
from surefoot.ranks import ALONE, Ranks
from surefoot.records import RunFolder
from surefoot.schema import Splits
from surefoot.training.listener import RunListener
from surefoot.training.panel import Panel
from surefoot.training.session import Session
from surefoot.training.tracker import Tracker
from surefoot.training.trainee import Trainee

Progress = Callable[[int, int, float], None]  # steps made, steps in all, loss


def fit(
    trainee: Trainee,
    splits: Splits,
    folder: RunFolder,
    *,
    epochs: int,
    batch_size: int,
    seed: int,
    trackers: Mapping[str, Tracker] | None = None,
    budget: float | None = None,
    checkpoint_every: float = 5.0,
    keep_every: int = 0,
    on_progress: Progress | None = None,
    listener: RunListener | None = None,
    ranks: Ranks = ALONE,
) -> None:
    """Train, from the newest checkpoint in the folder if there is one.

    Of an ensemble with several trainings, this is one: steps are counted over all of them, and the checkpoint at the
    end of one is where the next one starts.

    Args:
        trainee: Changed in place.
        splits: The data; the training split is trained on.
        folder: Takes the records and the checkpoints.
        epochs: Passes over the training split.
        batch_size: Examples per step, at most: an epoch's batches are made of one size.
        seed: Determines the order of the examples.
        trackers: What to measure on the way, by name.
        budget: Share of the training time to spend on it; None for whatever the trackers' schedules take.
        checkpoint_every: Seconds between checkpoints; 0 for one after every step.
        keep_every: Epochs between checkpoints that stay, for measuring after the fact; 0 keeps the newest only.
        on_progress: Called after every step.
        listener: Hears every record as it is made; the time that it takes does not count as training.
        ranks: Who trains together; the first writes and tells.

    Raises:
        InputError: If a batch has fewer examples than there are ranks.
        DivergedError: If the loss is no longer finite; the last good checkpoint stays.
    """
    length = Horizon.of(len(splits.train), epochs=epochs, batch_size=batch_size)
    n_steps = length.times(trainee.ensemble.trainings).n_steps
    if length.n_train // length.steps_per_epoch < ranks.n:
        raise InputError(
            f"Expected at least one example per process in every batch, but got {ranks.n} processes for batches of "
            f"{length.n_train // length.steps_per_epoch}. Raise --batch-size, or start fewer."
        )
    panel = Panel(trackers or {}, budget, ranks=ranks)
    session = Session(trainee, splits, folder, seed, length, panel, keep_every, listener, ranks)
    session.resume()
    if session.finished:
        session.tidy()
        return
    trainee.model.train()
    saved = time.monotonic()
    for step in range(session.step, session.start + length.n_steps):
        is_late = time.monotonic() - saved >= checkpoint_every
        loss, is_late = session.advance(step, is_late)
        if on_progress:
            on_progress(step + 1, n_steps, loss)
        if is_late or session.is_kept(step + 1):
            session.save()
            saved = time.monotonic()
    session.finish()
    session.save()
