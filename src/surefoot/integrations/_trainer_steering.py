"""Turning ρ, γ and weight decay by the evaluations that Hugging Face's Trainer makes while it trains.

The logits are those that ``compute_loss`` sees in the Trainer's own evaluation of its ``eval_dataset``, so nothing is
evaluated twice. What is remembered between two evaluations goes into the state of the optimizer, as what is turned
does, and is saved and restored with it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from surefoot.errors import InputError
from surefoot.integrations._trainer_loss import IGNORED, TrainerLoss, kind
from surefoot.optim import Wrapper
from surefoot.steering import KeepCalibrated

STATE = "steering"  # key of an optimizer's state dict under which the keeper's is kept
TAKES = ("model", "args", "data_collator", "train_dataset", "eval_dataset")  # a Trainer's first arguments
HOW = "Leave tune out, and call KeepCalibrated(optimizer).step(logits, labels) yourself, with logits (n, classes)."


class TrainerSteering(TrainerLoss):
    """The looks of a Trainer at its evaluations, where a method asks for them.

    Attributes:
        keeper: What turns the knobs, since the training has begun; ``keeper.facts`` is what the last evaluation did.
    """

    keeper: KeepCalibrated | None = None
    _tune: str | None = None  # what to turn
    _stepped = False  # whether there were steps since the last look
    _due = False  # whether the next evaluation loop is one to look at
    _rows: list[tuple[Tensor, Tensor]] | None = None  # of the evaluation that is looked at

    def _check_given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Refuse to steer without one dataset to steer by."""
        found = {**dict(zip(TAKES, args, strict=False)), **kwargs}.get("eval_dataset")
        if self._tune is not None and (found is None or isinstance(found, dict)):
            got = "none" if found is None else f"{len(found)} of them by name"
            raise InputError(
                f"Expected an eval_dataset for tune={self._tune}, by which to steer, but got {got}. Pass one that is "
                "not for testing, eval_dataset=held_out."
            )

    @property
    def _strategy(self) -> str:
        return str(self.args.eval_strategy.value)

    def _check_strategy(self) -> None:
        """Refuse to steer without evaluations."""
        if self._tune is not None and self._strategy == "no":
            raise InputError(
                f"Expected evaluations for tune={self._tune}, by which to steer, but got eval_strategy='no'. Write "
                'TrainingArguments(eval_strategy="epoch").'
            )

    def create_scheduler(self, *args: Any, **kwargs: Any) -> Any:
        """Return the scheduler; behind it optimizer and scheduler are there, and hold nothing of a checkpoint yet."""
        schedule = super().create_scheduler(*args, **kwargs)
        if self._tune is not None:
            known = None if isinstance(schedule, ReduceLROnPlateau) else schedule
            self.keeper = KeepCalibrated(self.optimizer, knobs=self._tune, schedule=known)
            self._stepped = False
        return schedule

    def _keep_state_with(self, optimizer: Wrapper) -> None:
        """Let the optimizer's state hold that of the keeper."""

        def save(_: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
            own = None if self.keeper is None else {**self.keeper.state_dict(), "stepped": self._stepped}
            return state if own is None else {**state, STATE: own}

        def load(_: Optimizer, state: dict[str, Any]) -> None:
            if self.keeper is None or STATE not in state:
                return
            self.keeper.load_state_dict(state[STATE])
            if state[STATE]["stepped"] and self._strategy == "epoch" and float(self.state.epoch or 0.5).is_integer():
                warnings.warn(
                    "Training goes on from a checkpoint between an epoch and its evaluation, which the Trainer leaves "
                    'out: ρ, γ and weight decay are not turned there. Write save_strategy="epoch".',
                    stacklevel=2,
                )

        optimizer.base.register_state_dict_post_hook(save)
        optimizer.base.register_load_state_dict_pre_hook(load)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train; say so if there was nothing to steer by."""
        output = super().train(*args, **kwargs)
        if self.keeper is not None and self.keeper.looks == 0:
            warnings.warn(
                "No knob was turned: there was no evaluation after a step. Evaluate once per epoch.", stacklevel=2
            )
        return output

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """Evaluate a micro-batch; the next evaluation is one to look at."""
        if self._tune is not None and self.keeper is None:
            raise InputError(
                f"Expected create_scheduler to have been called, which makes what tune={self._tune} asks for, but one "
                "of your own has taken its place. Call super().create_scheduler(…) in it."
            )
        self._stepped = True
        return super().training_step(*args, **kwargs)

    def evaluate(self, eval_dataset: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Evaluate; while the Trainer trains, steer by its ``eval_dataset``, and by no other."""
        self._due = self.keeper is not None and eval_dataset is None and self.is_in_train and self._stepped
        metrics = super().evaluate(eval_dataset, *args, **kwargs)
        if self._due:
            raise InputError(
                "Expected evaluate to call evaluation_loop, whose logits steer, but one of your own does not. Call "
                "super().evaluation_loop(…) in it, or leave tune out."
            )
        return metrics

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Run an evaluation; look at its logits if they are to steer, and turn the knobs behind it."""
        due, self._due = self._due, False
        if not due or self.keeper is None:
            return super().evaluation_loop(*args, **kwargs)
        rows: list[tuple[Tensor, Tensor]] = []
        self._rows = rows
        try:
            output = super().evaluation_loop(*args, **kwargs)
        finally:
            self._rows = None
        if not rows:
            raise InputError(
                "Expected logits and labels of the eval_dataset to steer by, but compute_loss has seen none. Give its "
                "rows labels, and let a compute_loss of your own call super()."
            )
        self.keeper.speed = self._share_of_an_epoch()
        facts = self.keeper.step(*(torch.cat(column) for column in zip(*rows, strict=True)))
        self._stepped = False
        seen = {**facts.after, "log_temperature": facts.signal.log_temperature}
        output.metrics.update({f"eval_steering/{name}": value for name, value in seen.items()})
        return output

    def compute_loss(
        self, model: nn.Module, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the loss; where an evaluation steers, keep its logits and labels."""
        if self._rows is None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch=num_items_in_batch)
        labels = inputs.get("labels")
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch=num_items_in_batch)
        self._rows.append(self._rows_of(outputs, labels))
        return (loss, outputs) if return_outputs else loss

    def _rows_of(self, outputs: Any, labels: Any) -> tuple[Tensor, Tensor]:
        """Return the logits and labels that count, of all ranks and none of them twice."""
        logits = outputs.get("logits") if isinstance(outputs, Mapping) else None
        if not (isinstance(logits, Tensor) and isinstance(labels, Tensor)) or labels.is_floating_point():
            raise InputError(
                f"Expected logits and class numbers to steer by, but got {kind(logits)} and {kind(labels)}. {HOW}"
            )
        logits, labels = self.side_by_side(logits.detach(), labels, HOW)
        if labels.ndim > 1:  # texts of different lengths on each rank
            logits, labels = self.accelerator.pad_across_processes((logits, labels), dim=1, pad_index=IGNORED)
        logits, labels = self.accelerator.gather_for_metrics((logits.contiguous(), labels.contiguous()))
        counted = labels != IGNORED
        return logits[counted].float().cpu(), labels[counted].cpu()

    def _share_of_an_epoch(self) -> float:
        """Return how much of an epoch lies between two evaluations, at most 1."""
        if self._strategy != "steps":
            return 1.0
        return float(min(1.0, self.state.eval_steps * self.state.epoch / self.state.global_step))
