"""MC-dropout."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from surefoot.ensembles._base import Sampled
from surefoot.ensembles._layers import WEIGHTED, RandomLayer, replace_layers
from surefoot.errors import InputError, OptionError
from surefoot.registry import ENSEMBLES

Where = Literal["auto", "slots", "layers"]


class DropoutLayer(RandomLayer):
    """A dropout layer that can be told to drop in evaluation as well, while BatchNorm beside it does not move.

    Args:
        inner: Any of torch's dropout layers.
    """

    def __init__(self, inner: _DropoutNd) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """Drop, or pass on."""
        self.inner.training = self.is_drawing
        dropped: Tensor = self.inner(x)
        return dropped


def with_dropout(model: nn.Module, p: float = 0.1, where: Where = "auto") -> nn.Module:
    """Prepare a network for MC-dropout.

    Args:
        model: Changed in place.
        p: Probability.
        where: ``"slots"`` uses the dropout layers that the network has, ``"layers"`` puts one before every linear
            layer and convolution but the first; ``"auto"`` is ``"slots"`` where there are any.

    Returns:
        The network; use :func:`~surefoot.ensembles.sample_predict` to predict.

    Raises:
        OptionError: If p is no probability.
        InputError: If there is no place for dropout.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> with_dropout(net)[2]
        Sequential(
          (0): DropoutLayer(
            (inner): Dropout(p=0.1, inplace=False)
          )
          (1): Linear(in_features=3, out_features=2, bias=True)
        )
    """
    if not 0 < p < 1:
        raise OptionError(f"Expected p in (0, 1), but got {p:g}. Try p=0.1.")
    has_slots = any(isinstance(module, _DropoutNd) for module in model.modules())
    seen = placed = 0

    def make(module: nn.Module) -> nn.Module | None:
        nonlocal seen, placed
        if isinstance(module, _DropoutNd) and where != "layers":
            placed += 1
            module.p = p
            return DropoutLayer(module)
        if type(module) in WEIGHTED and (where == "layers" or (where == "auto" and not has_slots)):
            seen += 1
            placed += seen > 1
            return nn.Sequential(DropoutLayer(nn.Dropout(p)), module) if seen > 1 else None
        return None

    model = replace_layers(model, make)
    if not placed:
        raise InputError(
            f"Expected a place for dropout in {type(model).__name__}, but there is none. "
            "Use where=layers and a network with at least two layers."
        )
    return model


@ENSEMBLES.register("mc_dropout", reference="Gal & Ghahramani 2016, arXiv:1506.02142")
class MCDropout(Sampled):
    """Dropout in prediction too: several samples of one network.

    Dropout in training and in prediction; each sample drops other units.

    Args:
        p: Probability.
        samples: How many to predict with.
        where: See :func:`with_dropout`.
    """

    def __init__(self, *, p: float = 0.1, samples: int = 5, where: Where = "auto") -> None:
        super().__init__(samples)
        self.p, self.where = p, where

    def wrap(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        """Put dropout where it belongs."""
        return with_dropout(model, self.p, self.where)
