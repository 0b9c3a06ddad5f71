"""What every ensemble is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from surefoot.ensembles._layers import samples_of
from surefoot.errors import OptionError
from surefoot.losses._base import Loss
from surefoot.moment import Horizon
from surefoot.optim import Wrapper
from surefoot.registry import ENSEMBLES
from surefoot.schema import PartSpec, Split

Weights = dict[str, Tensor]
Shape = Callable[[float], float]  # of a schedule: progress in [0, 1] → times the learning rate


class Ensemble:
    """One network as it is; what several networks or samples do otherwise, they override.

    The run calls :meth:`check_loss`, :meth:`wrap`, :meth:`objective` and :meth:`check_optimizer` before the first
    step, :meth:`factor` for the learning rate of every step, :meth:`step_end` after it, :meth:`finish` after the last
    one, and :meth:`forward_passes` to predict. What it remembers is in ``members`` and :meth:`state_dict`, and is
    saved with the checkpoint.

    Attributes:
        trainings: How many networks are trained, one after another.
        width: How many inputs and how many sets of logits the network has at once.
        members: Weights that are kept to predict with.
    """

    trainings = 1
    width = 1

    def __init__(self) -> None:
        self.members: list[Weights] = []

    def check_loss(self, loss: Loss) -> None:
        """Refuse a loss that this ensemble cannot use."""

    def check_optimizer(self, optimizer: Wrapper) -> None:
        """Refuse an optimizer that this ensemble cannot use."""

    def wrap(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        """Change the network before training.

        Args:
            model: The network, with the loss attached; may be changed in place.
            generator: Depends on the training's seed alone.

        Returns:
            The network to train. In eval mode it gives one row of logits per example.
        """
        return model

    def objective(self, loss: Loss, model: nn.Module, horizon: Horizon) -> Loss:
        """Change what a step minimises.

        Args:
            loss: The method's loss.
            model: What :meth:`wrap` gave.
            horizon: How long the training is.

        Returns:
            The loss to train.
        """
        return loss

    def factor(self, shape: Shape, step: int, horizon: Horizon) -> float:
        """Return the factor of the learning rate at a step.

        Args:
            shape: Of the schedule that was asked for.
            step: From 0.
            horizon: How long the training is.

        Returns:
            The factor.
        """
        return shape(step / horizon.n_steps)

    def step_end(self, model: nn.Module, step: int, horizon: Horizon) -> None:
        """Keep what is worth keeping after ``step`` steps of a training."""

    def finish(self, model: nn.Module, split: Split, horizon: Horizon) -> None:
        """Bring one training to its end.

        Args:
            model: At its last weights.
            split: The training split.
            horizon: How long the training was.
        """

    def forward_passes(self, model: nn.Module, optimizer: Wrapper, seed: int) -> Iterator[None]:
        """Set the network to each set of weights, or each random draw, whose probabilities are averaged.

        Args:
            model: The network; afterwards its weights are as they were.
            optimizer: Made its steps.
            seed: Determines what is drawn.

        Yields:
            Nothing; evaluate the network now, in eval mode.
        """
        yield

    def state_dict(self) -> dict[str, Any]:
        """Return what is remembered beside the members."""
        return {}

    def load_state_dict(self, state: dict[str, Any], members: list[Weights]) -> None:
        """Take up what was remembered."""
        self.members = members


class Sampled(Ensemble):
    """Predictions are averaged over samples of one network that draws; abstract.

    Args:
        samples: How many.

    Raises:
        OptionError: If there is none.
    """

    def __init__(self, samples: int) -> None:
        super().__init__()
        self.samples = at_least_one("samples", samples)

    def forward_passes(self, model: nn.Module, optimizer: Wrapper, seed: int) -> Iterator[None]:
        """Draw anew in every round."""
        return samples_of(model, self.samples, seed)


class Kept(Ensemble):
    """Predictions are averaged over weights that were kept; abstract."""

    def forward_passes(self, model: nn.Module, optimizer: Wrapper, seed: int) -> Iterator[None]:
        """Let the network have each member's weights in turn."""
        own = copied(model)
        try:
            for weights in self.members:
                set_weights(weights, model)
                yield
        finally:
            set_weights(own, model)


def set_weights(weights: Weights, model: nn.Module) -> None:
    """Let a network have other weights, also for an ``autocast`` around it that keeps copies of those it had."""
    model.load_state_dict(weights)
    torch.clear_autocast_cache()


def copied(model: nn.Module) -> Weights:
    """Copy a network's state, statistics included, to the CPU."""
    return {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}


def at_least_one(name: str, value: int) -> int:
    """Refuse to do something zero times.

    Args:
        name: Of the option.
        value: Of the option.

    Returns:
        The value.

    Raises:
        OptionError: If it is below one.
    """
    if value < 1:
        raise OptionError(f"Expected {name} ≥ 1, but got {value}. Write {name}=5, say.")
    return value


def build_ensemble(spec: PartSpec | None) -> Ensemble:
    """Make a method's ensemble; one network as it is where the method names none."""
    if spec is None:
        return Ensemble()
    ensemble: Ensemble = ENSEMBLES.build(spec)
    return ensemble
