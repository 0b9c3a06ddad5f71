"""One sitting at a run: steps, records and checkpoints, on this rank."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from surefoot.ensembles import innermost
from surefoot.errors import DivergedError, InputError
from surefoot.losses._base import Batch, Loss, Scene
from surefoot.moment import Horizon, Moment
from surefoot.ranks import ALONE, Ranks
from surefoot.records import RunFolder, checkpoints
from surefoot.schema import SplitName, Splits
from surefoot.seeding import generator, random_state, seed_everything, set_random_state
from surefoot.training.checkpoint import load_checkpoint, remove_others, save_checkpoint
from surefoot.training.feed import Fed, Feed
from surefoot.training.listener import RunListener
from surefoot.training.panel import Panel
from surefoot.training.parallel import depends_on_ranks, is_finite, mesh_of, whole_weights
from surefoot.training.passes import Evaluation, take_step
from surefoot.training.predict import predict
from surefoot.training.trainee import Trainee


class Session:
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
        ranks: Ranks = ALONE,
    ) -> None:
        if keep_every < 0:
            raise InputError(f"Expected to keep a checkpoint every ≥ 0 epochs, but got {keep_every}. Write 1, say.")
        self.keep_every, self.listener = keep_every, listener
        self.trainee, self.splits, self.folder, self.ranks = trainee, splits, folder, ranks
        self.called = trainee.called or Evaluation(trainee.model, trainee.loss)
        self.sessions: list[list[int]] = []  # from which step on there were how many ranks
        self.seed, self.length, self.panel = seed, length, panel
        self.device = next(trainee.model.parameters()).device
        self.step = self.start = trainee.member * length.n_steps
        self.finished = False
        self.passes: float = 0
        self.feed = Feed(splits.train, length, ranks)
        self.fed: Iterator[Fed] | None = None
        watching = (type(trainee.loss), type(innermost(trainee.loss)))
        self._is_observed = any(kind.observe is not Loss.observe for kind in watching)
        self._drawer = f"/rank {ranks.rank}" if ranks.rank and self.feed.is_shared else ""
        self.batch: tuple[Tensor, Tensor] | None = None
        self.pending: list[dict[str, Any]] = []
        self.stamp: dict[str, Any] = {"run": folder.run_id, "seed": seed}
        if trainee.ensemble.trainings > 1:
            self.stamp["member"] = trainee.member
        self.clock = self.written = time.monotonic()

    def resume(self) -> None:
        """Take up the newest checkpoint, or measure the untrained network and start."""
        mesh = mesh_of(self.trainee.model)
        if mesh is None:
            found = self.ranks.by_first(lambda: load_checkpoint(self.folder.checkpoints))
        else:
            found = load_checkpoint(self.folder.checkpoints, mesh)
        if found is None:
            self.sessions = [[self.step, self.ranks.n]]
            self._begin(0, -1)
            self._track()
            return
        weights, state = found
        self.sessions = state.get("ranks", [[0, 1]])
        self.trainee.ensemble.load_state_dict(state.get("ensemble", {}), state["members"])
        self.passes = state["passes"]
        self.panel.load_state_dict(state["panel"])
        self._begin(state["steps_size"], state["step"], state.get("steps_hash"))
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
            self._draw_on([state["random"], *state.get("random_of_others", [])])

    def tidy(self) -> None:
        """Remove what a kill at the very end of the training has left of earlier checkpoints."""
        if self.finished and self._is_last_member and self.ranks.is_first:
            *_, newest = checkpoints(self.folder.checkpoints)
            remove_others(self.folder.checkpoints, newest, self.is_kept, is_last=True)

    @property
    def _is_last_member(self) -> bool:
        return self.trainee.member + 1 == self.trainee.ensemble.trainings

    def _draw_on(self, states: list[dict[str, Any]]) -> None:
        """Take up random numbers where this rank left off; where there were other ranks, say what that changes."""
        if self.ranks.rank < len(states):
            set_random_state(states[self.ranks.rank])
        else:
            seed_everything(self.seed, f"train/rank {self.ranks.rank}/step {self.step}")
        if len(states) != self.ranks.n:
            self.sessions.append([self.step, self.ranks.n])
            differs = depends_on_ranks(self.trainee, self._some_examples(), is_shared=self.feed.is_shared)
            if self.feed.is_streamed:
                differs.append("every process reads its own part of the stream")
            if self.ranks.is_first and differs:
                warnings.warn(
                    f"The run goes on with {self.ranks.n} processes instead of {len(states)}, and is not what either "
                    f"number alone would give, because {', and '.join(differs)}.",
                    stacklevel=2,
                )

    def _some_examples(self, n: int = 8) -> Batch:
        rows = torch.arange(min(n, len(self.splits.train)))
        batch = self._batch(self.splits.train.inputs[: len(rows)].to(self.device), rows)
        return self.trainee.loss.prepare(self.trainee.model, batch, self._scene(self.step - self.start))

    def _begin(self, size: int, step: int, wanted: str | None = None) -> None:
        """Forget what was recorded after the checkpoint: it is about to be recorded again."""
        if not self.ranks.is_first:
            return
        self.folder.cut_back(size, step, wanted)
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
        if not self._is_finite():
            raise self._diverged("Expected finite weights, but got NaN or infinity. Lower the learning rate.")
        random, *others = self.ranks.everyone(random_state())
        size, vouched = self.ranks.by_first(self._write_records)
        is_spread_out = mesh_of(self.trainee.model) is not None
        if not (self.ranks.is_first or is_spread_out):
            return
        ensemble = self.trainee.ensemble
        state = {
            "step": self.step,
            "passes": self.passes,
            "steps_size": size,
            "steps_hash": vouched,
            "optimizer": self.trainee.optimizer.state_dict(),
            "schedule": self.trainee.schedule.state_dict(),
            "loss": dict(self.trainee.loss.state_dict()),
            "panel": self.panel.state_dict(),
            "random": random,
            **({"random_of_others": others} if others else {}),
            **({"ranks": self.sessions} if self.sessions != [[0, 1]] else {}),
            "ensemble": ensemble.state_dict(),
            **({} if self.trainee.keeper is None else {"keeper": self.trainee.keeper.state_dict()}),
            "member": self.trainee.member,
            "finished": self.finished,
        }
        save_checkpoint(
            self.folder.checkpoints,
            self.step,
            self.trainee.model.state_dict(),
            state,
            ensemble.members,
            keep=self.is_kept,
            ranks=self.ranks if is_spread_out else ALONE,
            whole=whole_weights(self.trainee.model) if is_spread_out and self.finished else None,
            is_last=self.finished and self._is_last_member,
        )

    def _write_records(self) -> tuple[int, str]:
        now = time.monotonic()
        self.folder.add_seconds(self.step, now - self.clock, self.panel.take_seconds())
        self.clock = now
        size = self.folder.append_steps(self.pending, sync=True)
        self.pending.clear()
        return size, self.folder.hash_of_steps(size)

    def _is_finite(self) -> bool:
        """Return whether all weights are, on all ranks."""
        return all(self.ranks.everyone(is_finite(self.trainee.model)))

    def advance(self, step: int, is_late: bool = False) -> tuple[float, bool]:
        """Make one step and record it; return the loss, and whether a rank finds that it is time to save."""
        epoch, position = divmod(step, self.length.steps_per_epoch)
        if position == 0 or self.fed is None:
            own_epoch = epoch - self.start // self.length.steps_per_epoch
            self.fed = self.feed.epoch(self.seed, own_epoch, position)
        rates = [group["lr"] for group in self.trainee.optimizer.param_groups]
        try:
            cost = self.trainee.loss.passes
            seen = torch.tensor([self._learn(next(self.fed), step), is_late], dtype=torch.float64)
            loss, late = self.ranks.mean(seen).tolist()
            self.step = step + 1
            facts = self.trainee.optimizer.facts
            self.passes += cost * (facts.passes if facts else 1)
            self._record(epoch, split="train", loss=loss, lr=rates[0])
            self._track()
            if position == self.length.steps_per_epoch - 1:
                self._steer(epoch + 1)
        except DivergedError as error:
            raise self._diverged(str(error), step + 1, rates[0]) from error
        return loss, late > 0

    def _diverged(self, reason: str, step: int | None = None, lr: float | None = None) -> DivergedError:
        """Keep the records so far, and say what happened when and what is left."""
        if self.ranks.is_first:
            self.folder.append_steps(self.pending, sync=True)
        self.pending.clear()
        step = self.step if step is None else step
        when = f"step {step}, epoch {(step - 1) // self.length.steps_per_epoch + 1}"
        kept = list(checkpoints(self.folder.checkpoints))
        left = f"The last good checkpoint is {kept[-1]}." if kept else "There is no earlier checkpoint."
        error = DivergedError(f"Training stopped at {when}{'' if lr is None else f', lr {lr:.3g}'}: {reason} {left}")
        error.is_told_elsewhere = not self.ranks.is_first
        return error

    def _learn(self, fed: Fed, step: int) -> float:
        model, objective, place = self.trainee.model, self.trainee.loss, step - self.start
        scene, n = self._scene(place), len(fed.rows)
        inputs = fed.inputs.to(self.device)
        if self.trainee.augment is not None:
            inputs = self.trainee.augment(inputs, generator(self.seed, f"augment/{place}{self._drawer}"))
        batch = objective.prepare(model, self._batch(inputs, fed.own), scene)
        self.batch = inputs, batch.labels
        self.trainee.optimizer.rank_weight = self.ranks.weight(n)
        mine = batch if self.ranks.is_alone or len(batch) < n else batch[self.ranks.share(n)]
        loss, outputs = take_step(self.called, self.trainee.optimizer, mine, self.trainee.pieces)
        if self._is_observed:  # else nothing is sent
            if len(batch) < n:  # a loss remembers by labels and places, which all ranks know
                batch = self._batch(inputs.new_empty(n, 0), fed.rows)
            objective.observe(batch, self.ranks.joined(outputs, n))
        self.trainee.schedule.step()
        self.trainee.ensemble.step_end(model, step + 1 - self.start, self.length)
        if (step + 1) % self.length.steps_per_epoch == 0:
            objective.epoch_end(model, scene)
        return float("nan") if loss is None else loss.item()

    def _batch(self, inputs: Tensor, rows: Tensor) -> Batch:
        return Batch(inputs, self.splits.train.labels[rows].to(self.device), rows.to(self.device))

    def _scene(self, step: int) -> Scene:
        def logits(split: SplitName) -> Tensor:
            return predict(self.trainee.model, self.splits[split], self.ranks)

        lr = float(self.trainee.optimizer.param_groups[0]["lr"])
        return Scene(self.splits, generator(self.seed, f"loss/{step}{self._drawer}"), logits, lr)

    def _track(self) -> None:
        epoch, trainee = self.step // self.length.steps_per_epoch, self.trainee
        loss = innermost(trainee.loss)
        moment = Moment(self.step, epoch, trainee.model, self.splits, self.batch, loss, trainee.optimizer, self.ranks)
        for name, values in self.panel.measure(moment):
            self._record(epoch, tracker=name, **values)

    def _steer(self, epoch: int) -> None:
        """Turn the optimizer's knobs by the calibration split, and say so among what trackers saw."""
        if self.trainee.keeper is not None:
            held_out = self.splits.calibration
            facts = self.trainee.keeper.step(predict(self.trainee.model, held_out, self.ranks), held_out.labels)
            values = {key: value if math.isfinite(value) else None for key, value in facts.to_json().items()}
            self._record(epoch, tracker="keep_calibrated", **values)

    def _record(self, epoch: int, **values: Any) -> None:
        place = {"step": self.step, "epoch": epoch, "passes": self.passes}
        record = {**self.stamp, **place, **values}
        if not self.ranks.is_first:
            return
        self.pending.append(record)
        if (now := time.monotonic()) - self.written >= self.folder.write_every:
            self.folder.append_steps(self.pending)
            self.pending.clear()
            self.written = now
        if self.listener is not None:
            start = time.monotonic()
            self.listener(record)
            self.clock += time.monotonic() - start
