"""Turning ρ, γ and weight decay by the validation rows while Lightning trains."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from surefoot.errors import InputError
from surefoot.integrations._lightning_rows import Collecting, Reader, log
from surefoot.steering import KeepCalibrated


class KeepCalibratedCallback(Collecting):
    """Turn ρ, γ and weight decay of the module's optimizer against over-confidence, after each validation.

    It is :class:`~surefoot.steering.KeepCalibrated` around the optimizer that ``configure_optimizers`` returns, stepped
    with the logits and labels of the validation. It logs ``steering/rho``, ``steering/gamma`` and
    ``steering/log_temperature``. Neither the sanity check nor ``trainer.validate`` turns anything.

    The validation rows steer the training, so they are no test of calibration any more; keep others for that.

    Checkpoints hold what it remembers, and the optimizer's state in them holds what was turned. On several ranks all of
    them see all rows and turn alike.

    Args:
        knobs: What to turn, as for ``KeepCalibrated``: ``"auto"`` is all of them that are there.
        speed: By which all gains are multiplied; None is 1 for one validation per epoch, and with four of them 1/4.
        limits: Lowest and highest value by name.
        dataloader: Which one, where there are several for validation.
        predictions: Takes module, batch and what ``validation_step`` returned, gives logits (n, classes) and labels
            (n,). Without it, these are ``"logits"`` and ``"labels"`` of what ``validation_step`` returned. If it
            returned neither, and batches are pairs, the module is called once more, ``module(inputs)``.

    Attributes:
        keeper: What turns them, since the training has begun; ``keeper.facts`` is what the last validation did.
    """

    def __init__(
        self,
        *,
        knobs: str | Sequence[str] = "auto",
        speed: float | None = None,
        limits: Mapping[str, tuple[float, float]] | None = None,
        dataloader: int | None = None,
        predictions: Reader | None = None,
    ) -> None:
        super().__init__(dataloader, predictions)
        self.knobs, self.speed, self.limits = knobs, speed, limits
        self.keeper: KeepCalibrated | None = None
        self._seen: int | None = None  # the step at which it has looked last
        self._due = False  # whether a validation is to come before the next step
        self._state: dict[str, Any] | None = None  # of a checkpoint, until the training goes on

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Find the optimizer, before a checkpoint has turned its knobs: limits may depend on where they were."""
        self.keeper = KeepCalibrated(
            _only_optimizer(trainer),
            knobs=self.knobs,
            speed=1.0 if self.speed is None else self.speed,
            limits=self.limits,
            schedule=_schedule(trainer),
        )
        self._seen, self._due = None, False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse to train without rows to steer by; go on with what a checkpoint remembers."""
        keeper = self._found()
        sizes = trainer.num_val_batches  # empty where the loaders are yet to be made, in a later epoch
        if not trainer.enable_validation or (sizes and not sum(sizes)):
            raise InputError(
                "Expected validation rows to steer by, but there are none. Pass trainer.fit(module, train, held_out) "
                "and write validation_step, or leave KeepCalibratedCallback out."
            )
        self._check_loaders(len(sizes))
        if sizes and not 0 <= (self.dataloader or 0) < len(sizes):
            raise InputError(f"Expected dataloader to be one of {len(sizes)}, but got {self.dataloader}. Count from 0.")
        if self.speed is None:
            keeper.speed = _share_of_an_epoch(trainer)
        if self._state is not None:
            keeper.load_state_dict(self._state["keeper"])
            self._seen = self._state["seen"]
            if self._state["due"]:
                warnings.warn(
                    "Training goes on from a checkpoint between a step and its validation, which Lightning leaves out: "
                    "ρ, γ and weight decay are not turned there. Save checkpoints after validation.",
                    stacklevel=2,
                )
            self._state = None

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Note whether a validation comes next, for a checkpoint that is saved before it."""
        every, epochs = trainer.val_check_batch, trainer.check_val_every_n_epoch
        if every is None or not math.isfinite(every):
            self._due = trainer.is_last_batch
        else:
            done = (trainer.fit_loop.total_batch_idx if epochs is None else batch_idx) + 1
            self._due = done % every == 0
        self._due &= epochs is None or (trainer.current_epoch + 1) % epochs == 0

    def on_validation_batch_end(self, trainer: Trainer, *args: Any, **kwargs: Any) -> None:
        """Keep a batch's logits and labels, in a training."""
        if trainer.state.fn == TrainerFn.FITTING:
            super().on_validation_batch_end(trainer, *args, **kwargs)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Look at all rows and turn the knobs, once for the steps that were made since the last look."""
        if trainer.sanity_checking or trainer.state.fn != TrainerFn.FITTING:
            return
        self._due = False
        if self._seen == trainer.global_step:
            return
        if not self._batches:
            raise InputError(
                "Expected validation rows to steer by, but the validation has had none. Give the validation loader "
                "rows, on every rank."
            )
        facts = self._found().step(*self._rows())  # which puts those of all ranks together
        self._seen = trainer.global_step
        log(pl_module, {f"steering/{name}": value for name, value in facts.after.items()})
        log(pl_module, {"steering/log_temperature": facts.signal.log_temperature})

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Say so if there was nothing to steer by."""
        if self._found().looks == 0:
            warnings.warn("No knob was turned: there was no validation. Validate once per epoch.", stacklevel=2)

    def state_dict(self) -> dict[str, Any]:
        """Return what is remembered; the knobs themselves are in the optimizer's state."""
        if self.keeper is None:
            return {}
        return {"keeper": self.keeper.state_dict(), "seen": self._seen, "due": self._due}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Remember what a checkpoint holds, as soon as the training goes on."""
        self._state = state_dict or None

    def _found(self) -> KeepCalibrated:
        if self.keeper is None:
            raise InputError("Expected trainer.fit to have begun, but it has not. Give the callback to the Trainer.")
        return self.keeper


def _only_optimizer(trainer: Trainer) -> Any:
    """Return the optimizer to steer."""
    found = [each for each in trainer.optimizers if type(each).__name__ != "_MockOptimizer"]  # Lightning's for none
    if len(found) != 1:
        raise InputError(
            f"Expected one optimizer to steer, but configure_optimizers returns {len(found) or 'none'}. Return "
            "CSAM(optimizer, model) there; of several, call KeepCalibrated(optimizer).step(logits, labels) yourself."
        )
    return found[0]


def _schedule(trainer: Trainer) -> LRScheduler | None:
    """Return what sets the learning rate from the one it started with."""
    found = [config.scheduler for config in trainer.lr_scheduler_configs]
    return next((each for each in found if not isinstance(each, ReduceLROnPlateau)), None)


def _share_of_an_epoch(trainer: Trainer) -> float:
    """Return how much of an epoch lies between two validations, at most 1; 1 where Lightning does not know it."""
    every, whole = trainer.val_check_batch, trainer.num_training_batches
    if every is None or not math.isfinite(every) or not math.isfinite(whole) or not whole:
        return 1.0
    return min(1.0, every / whole)
