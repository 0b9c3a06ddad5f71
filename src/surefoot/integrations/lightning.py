"""Lightning: sharpness-aware steps for a ``training_step`` as it is, and calibration watched and kept while it trains.

Lightning evaluates the micro-batches of a step one by one, each with its ``backward()``, and lets the optimizer see
the last one only. :class:`SharpnessAwareCallback` keeps what ``training_step`` was called with, and the random numbers
before it. When all have been differentiated it climbs, evaluates each of them once more, comes back, and lets
Lightning go on with the gradient found there: clipping, hooks, step and schedules come after it and see nothing else.

It is a callback since nothing in a module can get in its way. Methods of a mixin give way to those of the user's class,
which need not call ``super()``; and for all but the last micro-batch Lightning calls nothing of the module that goes
around forward and backward pass. While it trains, the callback puts three methods on the module *instance*, around
whatever the class defines. :class:`SharpnessAwareMixin` brings the callback along.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch.distributed as dist

from surefoot.errors import InputError
from surefoot.optim import SharpnessAware
from surefoot.seeding import random_state, set_random_state

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError as error:
    raise ImportError(
        "Expected lightning to be installed, but it is not. Run pip install 'surefoot[lightning]'."
    ) from error

from surefoot.integrations._lightning_calibration import CalibrationCallback
from surefoot.integrations._lightning_passes import Passes, check, reducing
from surefoot.integrations._lightning_steering import KeepCalibratedCallback

__all__ = ["CalibrationCallback", "KeepCalibratedCallback", "SharpnessAwareCallback", "SharpnessAwareMixin"]


class SharpnessAwareCallback(Callback):
    """Let a module train with the sharpness-aware optimizer that its ``configure_optimizers`` returns.

    ``training_step`` may return what it always did. Methods that weigh single examples, such as CSAM, take one loss per
    example, ``cross_entropy(logits, labels, reduction="none")``, or ``self.optimizers().loss(logits, labels)``.

    Whatever ``accumulate_grad_batches`` is, a step is the one of a plain loop: the clean gradient of all micro-batches,
    one climb, the same micro-batches again with the same random numbers, back, step. Clipping sees the gradient that
    is stepped on. Logged values and torchmetrics are those of the clean pass.

    Checkpoints hold the state of the random numbers, of every rank, so that a run that goes on draws what the one that
    was stopped would have drawn.

    Under manual optimization the loop is the user's: ``with optimizer.perturbed():`` or ``optimizer.step(closure)``.
    """

    def __init__(self) -> None:
        self._while_training = ExitStack()
        self._passes: Passes | None = None
        self._random: list[dict[str, Any]] | None = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Go on with the random numbers of the checkpoint, which the order of an epoch may be drawn from."""
        if self._random is not None and len(self._random) != trainer.world_size:
            self._random = None  # another number of ranks is another run
        self._set_random_numbers(trainer)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Tell the optimizer of the module that Lightning trains, and come between the two."""
        self._while_training.close()
        optimizers = [getattr(optimizer, "optimizer", optimizer) for optimizer in trainer.optimizers]
        for optimizer in optimizers:
            if isinstance(optimizer, SharpnessAware):
                check(trainer, pl_module, optimizer)
                optimizer.model = trainer.strategy.model
            if not pl_module.automatic_optimization:
                continue  # else there is one only
            if isinstance(optimizer, SharpnessAware):
                self._passes = passes = Passes(trainer, pl_module, optimizer)
                self._while_training.enter_context(passes.take_over())
                self._while_training.callback(setattr, self, "_passes", None)
            else:
                self._while_training.enter_context(reducing(pl_module, optimizer))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Begin a step with the first of its micro-batches."""
        if self._random is not None:
            if batch_idx > 0:  # amid an epoch, which the loader has just begun with numbers of its own
                self._set_random_numbers(trainer)
            self._random = None
        if self._passes is not None:
            self._passes.begin(batch_idx)

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the micro-batch for the second pass."""
        if self._passes is not None:
            self._passes.keep()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Go on with the random numbers of a checkpoint behind an epoch's last step, whose loader was begun in vain."""
        self._set_random_numbers(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Leave the module as it was."""
        self._while_training.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave the module as it was."""
        self._while_training.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the random numbers, of every rank; all ranks must ask for it."""
        states = [random_state()]
        if dist.is_available() and dist.is_initialized():
            states *= dist.get_world_size()
            dist.all_gather_object(states, states[0])
        return {"random": states}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with the random numbers of a checkpoint, as soon as the training does."""
        self._random = state_dict["random"]

    def _set_random_numbers(self, trainer: Trainer) -> None:
        if self._random is not None:
            set_random_state(self._random[trainer.global_rank])


class SharpnessAwareMixin:
    """Bring :class:`SharpnessAwareCallback` along: ``class Net(SharpnessAwareMixin, LightningModule)``."""

    def configure_callbacks(self) -> Any:
        """Add the callback to those that the module configures."""
        others: Any = super().configure_callbacks()  # type: ignore[misc]  # of the LightningModule
        return [*([others] if isinstance(others, Callback) else others), SharpnessAwareCallback()]

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Make the step, once the callback has made both passes.

        Args:
            *args: What Lightning gives.
            **kwargs: Likewise.

        Raises:
            InputError: If the callback is not there.
        """
        callbacks = self.trainer.callbacks  # type: ignore[attr-defined]  # of the LightningModule
        if not any(isinstance(callback, SharpnessAwareCallback) for callback in callbacks):
            raise InputError(
                "Expected the callback of SharpnessAwareMixin, but configure_callbacks() leaves it out. "
                "Return [*super().configure_callbacks(), …] there, and put the mixin before LightningModule."
            )
        super().optimizer_step(*args, **kwargs)  # type: ignore[misc]
