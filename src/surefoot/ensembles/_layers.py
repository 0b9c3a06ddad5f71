"""Layers in the place of others, and layers that draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from surefoot.errors import InputError
from surefoot.seeding import seeded

WEIGHTED = (nn.Linear, nn.Conv2d)
Weighted = nn.Linear | nn.Conv2d


def replace_layers(model: nn.Module, make: Callable[[nn.Module], nn.Module | None]) -> nn.Module:
    """Put other layers in the place of some of a network's own; one that is used twice stays one.

    Args:
        model: Changed in place.
        make: Gives what takes a module's place, or None where it is to stay.

    Returns:
        The network; another object only if the network itself was replaced.
    """
    made: dict[int, nn.Module | None] = {}

    def visit(module: nn.Module) -> nn.Module:
        if id(module) not in made:
            made[id(module)] = new = make(module)
            if new is not None:
                new.train(module.training)
            else:
                for name, child in list(module.named_children()):
                    other = visit(child)
                    if other is not child:
                        setattr(module, name, other)
        replaced = made[id(module)]
        return module if replaced is None else replaced

    return visit(model)


def replace_weighted(model: nn.Module, make: Callable[[Weighted], nn.Module], what: str) -> nn.Module:
    """Replace every linear layer and every 2-d convolution.

    Args:
        model: Changed in place. Layers of other kinds, and subclasses whose weights others reach for, stay.
        make: Gives the new layer.
        what: Who asks for it.

    Returns:
        The network.

    Raises:
        InputError: If there is no such layer.
    """
    count = 0

    def make_one(module: nn.Module) -> nn.Module | None:
        nonlocal count
        if type(module) not in WEIGHTED:
            return None
        count += 1
        return make(module)  # type: ignore[arg-type]  # one of WEIGHTED

    model = replace_layers(model, make_one)
    if count == 0:
        raise InputError(
            f"Expected a network with linear layers or 2-d convolutions for {what}, but {type(model).__name__} has "
            "none. Choose another network."
        )
    return model


def fans(layer: Weighted) -> tuple[int, int]:
    """Return the number of inputs and outputs of a layer: features, or channels."""
    if isinstance(layer, nn.Linear):
        return layer.in_features, layer.out_features
    return layer.in_channels, layer.out_channels


def beside(factor: Tensor, x: Tensor, layer: Weighted) -> Tensor:
    """Shape one row of factors per example so that it multiplies the features or channels of ``x``."""
    ones = [1] * (x.ndim - 2)
    return factor.view(len(factor), *ones, -1) if isinstance(layer, nn.Linear) else factor.view(len(factor), -1, 1, 1)


class RandomLayer(nn.Module):
    """A layer that draws in training, and in evaluation where it is told to; abstract.

    Numbers come from torch's global generator, as those of ``nn.Dropout`` do. So the second pass of a
    sharpness-aware step, which replays it, draws what the first one drew.
    """

    draws = False

    @property
    def is_drawing(self) -> bool:
        """Whether the next call draws."""
        return self.training or self.draws


@contextmanager
def sampling(model: nn.Module) -> Iterator[None]:
    """Let a network draw for a while whatever its mode: dropout masks, weights from a posterior.

    Args:
        model: Its :class:`RandomLayer` layers draw; BatchNorm stays in the mode that it is in.
    """
    layers = [module for module in model.modules() if isinstance(module, RandomLayer)]
    for layer in layers:
        layer.draws = True
    try:
        yield
    finally:
        for layer in layers:
            layer.draws = False


def samples_of(model: nn.Module, samples: int, seed: int) -> Iterator[None]:
    """Go through samples of a network: in each round it draws numbers of its own.

    Args:
        model: Draws while the loop's body runs.
        samples: How many.
        seed: Determines the numbers.

    Yields:
        Nothing; evaluate the network now.
    """
    for index in range(samples):
        with sampling(model), seeded(seed, f"sample/{index}"):
            yield


@torch.no_grad()
def sample_predict(model: nn.Module, inputs: Tensor, *, samples: int = 5, seed: int = 0) -> Tensor:
    """Predict with several samples of a network that draws: MC-dropout, mean-field VI, rank-1 factors.

    Args:
        model: Has :class:`RandomLayer` layers; its mode is afterwards as it was.
        inputs: Shape ``(n, …)``.
        samples: How many.
        seed: Determines what is drawn; the global generator is left as it was.

    Returns:
        Log of the mean probability, shape ``(n, classes)``.

    Raises:
        InputError: If there is nothing to sample.
    """
    from surefoot.ensembles._mean import deep_predict, log_mean_probs

    if samples < 1 or not any(isinstance(module, RandomLayer) for module in model.modules()):
        raise InputError(
            f"Expected at least one sample of a network that draws, but got {samples} of {type(model).__name__}. "
            "Pass it through with_dropout, mean_field or Rank1Network first."
        )
    return log_mean_probs(torch.stack([deep_predict([model], inputs) for _ in samples_of(model, samples, seed)]))
