"""Both passes of each step that Lightning makes: what a callback puts between the trainer and a module.

``training_step`` is kept with its arguments until the step; ``optimizer_step`` climbs and evaluates all of them again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import copy
from functools import cache, partial, wraps
from typing import Any, NamedTuple

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from torch import Tensor
from torch.optim import Optimizer
from torchmetrics import Metric

from surefoot.errors import DivergedError, InputError
from surefoot.optim import BSAM, Plain, SharpnessAware, Wrapper
from surefoot.optim.replay.recording import tensors, version
from surefoot.schema import LossTerms
from surefoot.seeding import RngState, replaying, rng_state


class MicroBatch(NamedTuple):
    """What ``training_step`` was called with, and the random numbers before it."""

    args: tuple[Any, ...]
    before: RngState


class Passes:
    """Both passes of each step of one training.

    Args:
        trainer: Calls the methods below in the place of the module's own.
        module: Has them, while it trains.
        optimizer: Climbs.
    """

    def __init__(self, trainer: Trainer, module: LightningModule, optimizer: SharpnessAware) -> None:
        self.trainer, self.module, self.optimizer = trainer, module, optimizer
        self.batches: list[MicroBatch] = []  # of the step that is going on
        self.ahead: MicroBatch | None = None  # evaluated, but not differentiated yet
        self.begun = self.repeating = False
        self._own = {name: getattr(module, name) for name in ("training_step", "optimizer_step", "optimizer_zero_grad")}

    @contextmanager
    def take_over(self) -> Iterator[None]:
        """Come between Lightning and the module's own methods, whoever has defined them."""
        methods = {name: wraps(own)(partial(getattr(self, name))) for name, own in self._own.items()}
        with _replaced(self.module, methods):
            yield

    def begin(self, batch_idx: int) -> None:
        """Start a step with the first micro-batch of a group."""
        before = batch_idx % self.trainer.accumulate_grad_batches
        if before == 0 or not self.begun:
            if before:
                warnings.warn(
                    f"Training goes on amid a step: {before} of its micro-batches are left out, since Lightning's "
                    "checkpoints hold no gradients. Save them after a step.",
                    stacklevel=2,
                )
            check(self.trainer, self.module, self.optimizer)  # a callback may have changed the number of micro-batches
            self.batches.clear()
            self.begun = True
            self.optimizer.zero_grad()

    def training_step(self, *args: Any) -> Any:
        """Evaluate a micro-batch and, in the clean pass, have it ready to be kept."""
        if not self.trainer.training or self.repeating:  # a validation_step may call it, too
            output = self._own["training_step"](*args)
            return self._with_scalar(output) if self.repeating else output
        if args and isinstance(args[0], Iterator):
            raise InputError(
                "Expected training_step(self, batch, …), but got one that takes dataloader_iter: what it has drawn "
                "cannot be evaluated a second time. Take the batch."
            )
        micro = MicroBatch(_copied(args), rng_state())
        versions = _versions(micro.args)
        output = self._with_scalar(self._own["training_step"](*args))
        if versions != _versions(micro.args):
            raise InputError(
                "Expected training_step to leave its batch as it is, but it has written to one of its tensors: the "
                "second pass would see another batch. Write x = x + 1 there, not x += 1."
            )
        self.ahead = micro
        return output

    def keep(self) -> None:
        """Keep the micro-batch that has just been differentiated; others have no part in the step."""
        if self.ahead is not None and not self.repeating:
            self.batches.append(self.ahead)
            self.ahead = None

    def _with_scalar(self, output: Any) -> Any:
        """Reduce losses of single examples, and refuse a scalar where the method needs those."""
        loss = _loss_of(output)
        is_scalar = isinstance(loss, Tensor) and loss.ndim == 0
        if is_scalar and self.optimizer.needs_per_example and not self.optimizer.saw_examples:
            raise InputError(
                f"Expected one loss per example for {type(self.optimizer).__name__}, but training_step returns a "
                'scalar. Return cross_entropy(logits, labels, reduction="none") there, or '
                "self.optimizers().loss(logits, labels)."
            )
        return _reduced(output, lambda: self.optimizer)

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: Any) -> None:
        """Clear the gradients after the first forward pass, as Lightning does; the step has begun before it."""
        self._own["optimizer_zero_grad"](epoch, batch_idx, self.optimizer.base)

    def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, closure: Callable[[], Any]) -> None:
        """Make both passes; then let the module step, with hooks and clipping, on the gradients that are in place."""
        with self.optimizer.clean():
            loss = closure()
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        try:
            climbs = bool(self.batches) and (scaler is not None or self.optimizer.climbs)
        except DivergedError:
            climbs = False  # the step will say so, or be skipped
        if climbs:
            with self.optimizer.perturbed(scaler), _replaced(self.module, {"log": _nothing}), _kept(self.module):
                self.repeating = True
                try:
                    self._repeat()
                finally:
                    self.repeating = False

        def do_nothing_closure() -> Any:  # by this name, Lightning's own, the optimizer knows that there is none
            return loss

        self._own["optimizer_step"](epoch, batch_idx, optimizer, do_nothing_closure)
        self.batches.clear()
        self.begun = False

    def _repeat(self) -> None:
        """Evaluate and differentiate all micro-batches once more."""
        strategy: Any = self.trainer.strategy  # only those of several ranks have block_backward_sync
        for number, micro in enumerate(self.batches, 1):
            waits = number < len(self.batches) and isinstance(strategy, DDPStrategy)
            with strategy.block_backward_sync() if waits else nullcontext(), replaying(micro.before):
                loss = _loss_of(strategy.training_step(*_copied(micro.args)))
                strategy.backward(loss / self.trainer.accumulate_grad_batches, self.optimizer)


def check(trainer: Trainer, module: LightningModule, optimizer: SharpnessAware) -> None:
    """Refuse what would not be the optimizer's step.

    Args:
        trainer: Has a strategy.
        module: Is to be trained.
        optimizer: Trains it.

    Raises:
        InputError: If Lightning cannot make that step.
    """
    strategy = trainer.strategy
    if not isinstance(strategy, SingleDeviceStrategy | DDPStrategy):
        raise InputError(
            f"Expected a single device or DDP for {type(optimizer).__name__}, but got {type(strategy).__name__}, under "
            'which its passes have not been tried. Take Trainer(strategy="ddp").'
        )
    if not module.automatic_optimization:
        return
    if optimizer.m is not None or getattr(optimizer, "steps", 1) > 1:
        what = "steps=" if optimizer.m is None else "m="
        raise InputError(
            f"Expected a step of two passes over whole micro-batches, but {type(optimizer).__name__}(…, {what}…) makes "
            "others. Leave it out, or call optimizer.step(closure) under manual optimization."
        )
    if isinstance(optimizer, BSAM) and trainer.accumulate_grad_batches > 1:
        raise InputError(
            "Expected accumulate_grad_batches=1 for BSAM, whose clean pass runs at sampled weights: others would see "
            f"them between micro-batches. Got {trainer.accumulate_grad_batches}."
        )


@contextmanager
def reducing(module: LightningModule, optimizer: Optimizer) -> Iterator[None]:
    """Let a plain optimizer take losses of single examples, too: it steps on their mean.

    Args:
        module: Is trained.
        optimizer: Trains it, in one pass.

    Yields:
        Nothing.
    """
    own = module.training_step

    @cache
    def reducer() -> Wrapper:  # made when it is needed: not every optimizer can be wrapped
        return optimizer if isinstance(optimizer, Wrapper) else Plain(optimizer)

    @wraps(own)
    def training_step(*args: Any) -> Any:
        output = own(*args)
        return _reduced(output, reducer) if module.trainer.training else output

    with _replaced(module, {"training_step": training_step}):
        yield


def _reduced(output: Any, reducer: Callable[[], Wrapper]) -> Any:
    """Turn losses of single examples into the scalar that the current pass differentiates."""
    loss = _loss_of(output)
    if isinstance(loss, Tensor) and loss.ndim > 0:
        loss = LossTerms(loss)
    if not isinstance(loss, LossTerms):
        return output
    scalar = reducer().reduce(loss)
    return {**output, "loss": scalar} if isinstance(output, Mapping) else scalar


def _loss_of(output: Any) -> Any:
    return output.get("loss") if isinstance(output, Mapping) else output


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Take the place of ``module.log`` in the second pass: what is logged is of the clean one."""


@contextmanager
def _replaced(module: LightningModule, methods: dict[str, Any]) -> Iterator[None]:
    """Let a module have other methods for a while."""
    before = {name: vars(module)[name] for name in methods if name in vars(module)}
    vars(module).update(methods)
    try:
        yield
    finally:
        for name in methods:
            vars(module).pop(name, None)
        vars(module).update(before)


@contextmanager
def _kept(module: LightningModule) -> Iterator[None]:
    """Put the torchmetrics of a module back to what they had seen."""
    metrics = [part for part in module.modules() if isinstance(part, Metric)]
    before = []
    for metric in metrics:
        seen = metric.metric_state.items()
        state = {name: value.clone() if isinstance(value, Tensor) else [*value] for name, value in seen}
        before.append({**vars(metric), **state})
    try:
        yield
    finally:
        for metric, state in zip(metrics, before, strict=True):
            vars(metric).clear()
            vars(metric).update(state)


def _copied(value: Any) -> Any:
    """Copy what holds tensors, which a ``training_step`` may change; the tensors stay themselves."""
    if type(value) is dict:
        return {key: _copied(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    return copy(value) if isinstance(value, Mapping) else value


def _versions(value: Any) -> list[int]:
    return [version(tensor) for _, tensor in tensors(value)]
