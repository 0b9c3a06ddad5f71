"""Stochastic weight averaging."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from surefoot.batches import batches
from surefoot.ensembles._base import Kept, Shape, Weights, copied, set_weights
from surefoot.errors import OptionError
from surefoot.moment import Horizon
from surefoot.registry import ENSEMBLES
from surefoot.schema import Split


@ENSEMBLES.register("swa", reference="Izmailov et al. 2018, arXiv:1803.05407")
class SWA(Kept):
    """One network with the mean of the weights after the last epochs; brings its own learning rates.

    The running mean of the weights after each epoch from some epoch on, w ← w + (w_new − w)/(n + 1).

    BatchNorm statistics of the mean are taken anew from the training data. The learning rate stays until half of the
    way to the start, falls to ``lr`` times its value until nine tenths of it, and stays there: the schedule that
    was asked for has no say.

    Args:
        start: At which share of the epochs averaging starts.
        lr: Learning rate while averaging, relative to the one at the beginning.

    Raises:
        OptionError: If start or lr is no share.
    """

    def __init__(self, *, start: float = 0.54, lr: float = 0.5) -> None:
        if not 0 <= start <= 1 or not lr > 0:
            raise OptionError(f"Expected start in [0, 1] and lr > 0, but got {start:g} and {lr:g}. Leave them out.")
        super().__init__()
        self.start, self.lr = start, lr
        self.n = 0

    def first_epoch(self, horizon: Horizon) -> int:
        """Return the epoch, counted from 1, behind which the first weights are taken."""
        return max(1, round(self.start * horizon.epochs))

    def factor(self, shape: Shape, step: int, horizon: Horizon) -> float:
        """Return the learning rate's factor, which changes from epoch to epoch."""
        t = step // horizon.steps_per_epoch / self.first_epoch(horizon)
        return 1 - (1 - self.lr) * min(1.0, max(0.0, (t - 0.5) / 0.4))

    def step_end(self, model: nn.Module, step: int, horizon: Horizon) -> None:
        """Take the weights into the mean after an epoch."""
        epoch, rest = divmod(step, horizon.steps_per_epoch)
        if rest or epoch < self.first_epoch(horizon):
            return
        new = copied(model)
        self.members = [average_weights(self.members[0], new, self.n) if self.members else new]
        self.n += 1

    def finish(self, model: nn.Module, split: Split, horizon: Horizon) -> None:
        """Take BatchNorm statistics of the mean weights."""
        own = copied(model)
        set_weights(self.members[0], model)
        device = next(model.parameters()).device
        rows = batches(len(split), horizon.batch_size)
        update_batch_norm(model, (split.inputs[batch].to(device) for batch in rows))
        self.members = [copied(model)]
        set_weights(own, model)

    def state_dict(self) -> dict[str, Any]:
        """Return how many weights the mean is of."""
        return {"n": self.n}

    def load_state_dict(self, state: dict[str, Any], members: list[Weights]) -> None:
        """Take up the mean."""
        super().load_state_dict(state, members)
        self.n = state["n"]


def average_weights(mean: Weights, new: Weights, n: int) -> Weights:
    """Take one more set of weights into a mean.

    Args:
        mean: Of n sets.
        new: One more.
        n: How many so far.

    Returns:
        The mean of n + 1; what is not a floating-point number is that of the new ones.

    Example:
        >>> one, two, four = ({"w": torch.tensor([value])} for value in (1.0, 2.0, 4.0))
        >>> average_weights(average_weights(one, two, 1), four, 2)
        {'w': tensor([2.3333])}
    """
    return {
        name: mean[name] + (value - mean[name]) / (n + 1) if value.is_floating_point() else value
        for name, value in new.items()
    }


@torch.no_grad()
def update_batch_norm(model: nn.Module, batches: Iterable[Tensor]) -> None:
    """Compute BatchNorm statistics anew, as the mean over batches; everything else is in eval mode meanwhile.

    Every example counts the same: a batch has the weight of its size.

    Args:
        model: Its modes are afterwards as they were. Without BatchNorm nothing is evaluated.
        batches: Inputs, for example all of the training split. One of a single example is left out.
    """
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    if not layers:
        return
    seen = 0
    with _counting(model, layers):
        for inputs in batches:
            if len(inputs) > 1:
                seen += len(inputs)
                for layer in layers:
                    layer.momentum = len(inputs) / seen
                model(inputs)


@contextmanager
def _counting(model: nn.Module, layers: list[_BatchNorm]) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    momenta = [layer.momentum for layer in layers]
    model.eval()
    for layer in layers:
        layer.reset_running_stats()
        layer.training = True
    try:
        yield
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        for module, training in modes:
            module.training = training
