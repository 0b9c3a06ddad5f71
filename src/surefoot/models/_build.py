"""From the name of a network to a network that fits the data."""

from __future__ import annotations

import torch
from torch import nn

from surefoot.errors import InputError
from surefoot.modes import in_eval_mode
from surefoot.options import positional
from surefoot.registry import MODELS
from surefoot.schema import PartSpec, Splits


def build_model(spec: PartSpec, splits: Splits, width: int = 1) -> nn.Module:
    """Make a network for a data set and try it on two examples.

    Args:
        spec: The model with its options. A user's own function is called with ``(input_shape, n_classes)``, or
            without arguments if it takes none.
        splits: The data it is for.
        width: How many inputs it takes at once, side by side as channels, with as many times the logits.

    Returns:
        The network, freshly initialised from the global generator.

    Raises:
        InputError: If the part returns no module, or one that does not fit the data.
    """
    shape = (width * splits.input_shape[0], *splits.input_shape[1:]) if width > 1 else splits.input_shape
    wanted = (shape, width * splits.n_classes) if positional(MODELS[spec.name].build) else ()
    model = MODELS.build(spec, *wanted)
    if not isinstance(model, nn.Module):
        raise InputError(
            f"Expected {spec.name} to return an nn.Module, but got {type(model).__name__}. Return the network."
        )
    try_out(model, spec.name, splits, width)
    return model


def try_out(model: nn.Module, name: str, splits: Splits, width: int = 1) -> None:
    """Evaluate a network on two examples.

    Args:
        model: The network.
        name: For error messages.
        splits: The data it is for.
        width: How many inputs it takes at once.

    Raises:
        InputError: If it fails, or returns another number of logits than there are classes.
    """
    inputs = splits.train.inputs[:2]
    inputs = inputs.repeat_interleave(width, dim=1) if width > 1 else inputs
    try:
        with torch.no_grad(), in_eval_mode(model):
            shape = tuple(model(inputs).shape)
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"Expected model {name} to take inputs of shape {tuple(inputs.shape[1:])}, but it failed: {reason}. "
            "Choose a model that fits the data."
        ) from error
    wanted = width * splits.n_classes
    if shape != (len(inputs), wanted):
        raise InputError(
            f"Expected model {name} to return {wanted} logits per example, but two examples gave {shape}. "
            "Match its last layer to the number of classes."
        )
