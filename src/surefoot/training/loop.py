"""The loop.

The order of the examples in an epoch is a function of seed and epoch, and a checkpoint holds everything else
that a step depends on. So a run that was killed goes on to the very same bits as one that was not. The batches of an
epoch are of one size, so that no step, and no moment right behind it, is unlike the others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from surefoot.batches import nth_batch
from surefoot.data.augment import Augment
from surefoot.ensembles import Ensemble, innermost
from surefoot.errors import DivergedError, InputError
from surefoot.losses._base import Batch, Loss, Scene
from surefoot.moment import Horizon, Moment
from surefoot.optim import Parts, Wrapper
from surefoot.records import RunFolder, checkpoints
from surefoot.schema import LossTerms, SplitName, Splits
from surefoot.seeding import generator, random_state, set_random_state
from surefoot.steering import KeepCalibrated
from surefoot.training.checkpoint import load_checkpoint, save_checkpoint
from surefoot.training.listener import RunListener
from surefoot.training.panel import Panel
from surefoot.training.predict import predict
from surefoot.training.tracker import Tracker

Progress = Callable[[int, int, float], None]  # steps made, steps in all, loss


@dataclass(frozen=True)
class Trainee:
    """What is trained, and by what.

    Attributes:
        model: The network, as the ensemble has changed it.
        loss: What a step minimises.
        optimizer: Makes the steps.
        schedule: Sets its learning rate.
        ensemble: Keeps members; one network as it is by default.
        member: Which of its trainings this is.
        keeper: Turns the optimizer's knobs by the calibration split after every epoch; None for nobody.
    """

    model: nn.Module
    loss: Loss
    optimizer: Wrapper
    schedule: LRScheduler
    augment: Augment | None = None
    ensemble: Ensemble = field(default_factory=Ensemble)
    member: int = 0
    keeper: KeepCalibrated | None = None


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

    Raises:
        DivergedError: If the loss is no longer finite; the last good checkpoint stays.
    """
    length = Horizon.of(len(splits.train), epochs=epochs, batch_size=batch_size)
    n_steps = length.times(trainee.ensemble.trainings).n_steps
    session = _Session(trainee, splits, folder, seed, length, Panel(trackers or {}, budget), keep_every, listener)
    session.resume()
    if session.finished:
        return
    trainee.model.train()
    saved = time.monotonic()
    for step in range(session.step, session.start + length.n_steps):
        loss = session.advance(step)
        if on_progress:
            on_progress(step + 1, n_steps, loss)
        if time.monotonic() - saved >= checkpoint_every or session.is_kept(step + 1):
            session.save()
            saved = time.monotonic()
    session.finish()
    session.save()


class _Session:
    """One sitting at a run: from start or checkpoint to its end, or to the next kill."""

    def __init__(
        self,
        trainee: Trainee,
        splits: Splits,
        folder: RunFolder,
        seed: int,
        length: Horizon,
        panel: Panel,
        keep_every: int,
        listener: RunListener | None = None,
    ) -> None:
        if keep_every < 0:
            raise InputError(f"Expected to keep a checkpoint every ≥ 0 epochs, but got {keep_every}. Write 1, say.")
        self.keep_every, self.listener = keep_every, listener
        self.trainee, self.splits, self.folder = trainee, splits, folder
        self.seed, self.length, self.panel = seed, length, panel
        self.device = next(trainee.model.parameters()).device
        self.step = self.start = trainee.member * length.n_steps
        self.finished = False
        self.passes: float = 0
        self.order = torch.empty(0, dtype=torch.long)
        self.batch: tuple[Tensor, Tensor] | None = None
        self.pending: list[dict[str, Any]] = []
        self.stamp: dict[str, Any] = {"run": folder.run_id, "seed": seed}
        if trainee.ensemble.trainings > 1:
            self.stamp["member"] = trainee.member
        self.clock = time.monotonic()

    def resume(self) -> None:
        """Take up the newest checkpoint, or measure the untrained network and start."""
        found = load_checkpoint(self.folder.checkpoints)
        if found is None:
            self._begin(0)
            self._track()
            return
        weights, state = found
        self.trainee.ensemble.load_state_dict(state.get("ensemble", {}), state["members"])
        self.passes = state["passes"]
        self.panel.load_state_dict(state["panel"])
        self._begin(state["steps_size"])
        member = state.get("member", 0)
        if member < self.trainee.member:  # the one before has just ended, and this one starts
            return
        self.finished = member > self.trainee.member or state.get("finished", False)
        if member == self.trainee.member:
            self.trainee.model.load_state_dict(weights)
            self.trainee.loss.load_state_dict(state["loss"])
            self.trainee.optimizer.load_state_dict(state["optimizer"])
            self.trainee.schedule.load_state_dict(state["schedule"])
            if self.trainee.keeper is not None:
                self.trainee.keeper.load_state_dict(state["keeper"])
            self.step = state["step"]
            set_random_state(state["random"])

    def _begin(self, size: int) -> None:
        """Forget what was recorded after the checkpoint: it is about to be recorded again."""
        self.folder.cut_steps(size)
        if self.listener is not None:
            start = time.monotonic()
            self.listener.begin(self.folder)
            self.clock += time.monotonic() - start  # which is no time of training

    def finish(self) -> None:
        """End a training whose steps are all made."""
        self.trainee.ensemble.finish(self.trainee.model, self.splits.train, self.length)
        self.finished = True

    def is_kept(self, step: int) -> bool:
        """Return whether the checkpoint after so many steps stays: a matter of the step alone, never of the clock."""
        return self.keep_every > 0 and step % (self.keep_every * self.length.steps_per_epoch) == 0

    def save(self) -> None:
        """Write the records so far, then a checkpoint that knows how many there are."""
        if any(not parameter.isfinite().all() for parameter in self.trainee.model.parameters()):
            raise self._diverged("Expected finite weights, but got NaN or infinity. Lower the learning rate.")
        now = time.monotonic()
        self.folder.add_seconds(self.step, now - self.clock, self.panel.take_seconds())
        self.clock = now
        size = self.folder.append_steps(self.pending, sync=True)
        self.pending.clear()
        ensemble = self.trainee.ensemble
        state = {
            "step": self.step,
            "passes": self.passes,
            "steps_size": size,
            "optimizer": self.trainee.optimizer.state_dict(),
            "schedule": self.trainee.schedule.state_dict(),
            "loss": dict(self.trainee.loss.state_dict()),
            "panel": self.panel.state_dict(),
            "random": random_state(),
            "ensemble": ensemble.state_dict(),
            **({} if self.trainee.keeper is None else {"keeper": self.trainee.keeper.state_dict()}),
            "member": self.trainee.member,
            "finished": self.finished,
        }
        weights = self.trainee.model.state_dict()
        save_checkpoint(self.folder.checkpoints, self.step, weights, state, ensemble.members, keep=self.is_kept)

    def advance(self, step: int) -> float:
        """Make one step and record it."""
        epoch, position = divmod(step, self.length.steps_per_epoch)
        if position == 0 or not len(self.order):
            draw = generator(self.seed, f"order/{epoch - self.start // self.length.steps_per_epoch}")
            self.order = torch.randperm(len(self.splits.train), generator=draw)
        rows = self.order[nth_batch(position, len(self.order), self.length.steps_per_epoch)]
        rates = [group["lr"] for group in self.trainee.optimizer.param_groups]
        try:
            cost = self.trainee.loss.passes
            loss = self._learn(rows, step)
            self.step = step + 1
            facts = self.trainee.optimizer.facts
            self.passes += cost * (facts.passes if facts else 1)
            self._record(epoch, split="train", loss=loss, lr=rates[0])
            self._track()
            if position == self.length.steps_per_epoch - 1:
                self._steer(epoch + 1)
        except DivergedError as error:
            raise self._diverged(str(error), step + 1, rates[0]) from error
        return loss

    def _diverged(self, reason: str, step: int | None = None, lr: float | None = None) -> DivergedError:
        """Keep the records so far, and say what happened when and what is left."""
        self.folder.append_steps(self.pending, sync=True)
        self.pending.clear()
        step = self.step if step is None else step
        when = f"step {step}, epoch {(step - 1) // self.length.steps_per_epoch + 1}"
        kept = list(checkpoints(self.folder.checkpoints))
        left = f"The last good checkpoint is {kept[-1]}." if kept else "There is no earlier checkpoint."
        return DivergedError(f"Training stopped at {when}{'' if lr is None else f', lr {lr:.3g}'}: {reason} {left}")

    def _learn(self, rows: Tensor, step: int) -> float:
        model, objective, optimizer = self.trainee.model, self.trainee.loss, self.trainee.optimizer
        train, scene = self.splits.train, self._scene(step - self.start)
        inputs = train.inputs[rows].to(self.device)
        if self.trainee.augment is not None:
            inputs = self.trainee.augment(inputs, generator(self.seed, f"augment/{step - self.start}"))
        found = Batch(inputs, train.labels[rows].to(self.device), rows.to(self.device))
        batch = objective.prepare(model, found, scene)
        self.batch = found.inputs, found.labels
        clean: list[Tensor] = []

        def losses(part: slice | Tensor) -> LossTerms:
            terms, outputs = objective.evaluate(model, batch[part])
            if isinstance(part, slice) and (part.start or 0) == sum(map(len, clean)):
                clean.append(outputs.detach())  # the first look at these examples is at the weights before the step
            return terms

        loss = optimizer.step(Parts(losses, n=len(batch)))
        objective.observe(batch, torch.cat(clean))
        self.trainee.schedule.step()
        self.trainee.ensemble.step_end(model, step + 1 - self.start, self.length)
        if (step + 1) % self.length.steps_per_epoch == 0:
            objective.epoch_end(model, scene)
        return float("nan") if loss is None else loss.item()

    def _scene(self, step: int) -> Scene:
        def logits(split: SplitName) -> Tensor:
            return predict(self.trainee.model, self.splits[split])

        lr = float(self.trainee.optimizer.param_groups[0]["lr"])
        return Scene(self.splits, generator(self.seed, f"loss/{step}"), logits, lr)

    def _track(self) -> None:
        epoch, trainee = self.step // self.length.steps_per_epoch, self.trainee
        loss = innermost(trainee.loss)
        moment = Moment(self.step, epoch, trainee.model, self.splits, self.batch, loss, trainee.optimizer)
        for name, values in self.panel.measure(moment):
            self._record(epoch, tracker=name, **values)

    def _steer(self, epoch: int) -> None:
        """Turn the optimizer's knobs by the calibration split, and say so among what trackers saw."""
        if self.trainee.keeper is not None:
            held_out = self.splits.calibration
            facts = self.trainee.keeper.step(predict(self.trainee.model, held_out), held_out.labels)
            values = {key: value if math.isfinite(value) else None for key, value in facts.to_json().items()}
            self._record(epoch, tracker="keep_calibrated", **values)

    def _record(self, epoch: int, **values: Any) -> None:
        place = {"step": self.step, "epoch": epoch, "passes": self.passes}
        record = {**self.stamp, **place, **values}
        self.pending.append(record)
        if self.listener is not None:
            start = time.monotonic()
            self.listener(record)
            self.clock += time.monotonic() - start
