"""From what a user names to the parts of a training: the network's arguments and the method with its options."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from surefoot.errors import OptionError
from surefoot.imported import did_you_mean
from surefoot.integrations.sklearn._errors import ValueInputError
from surefoot.method import parse_method
from surefoot.outputs import are_probs
from surefoot.registry import LOSSES, OPTIMIZERS
from surefoot.schema import MethodSpec, OptionValue, Split
from surefoot.training import predict


def check_logits(model: nn.Module, inputs: Tensor) -> None:
    """Refuse a network that ends in a softmax, as networks for skorch do."""
    found = predict(model, Split(inputs, torch.zeros(len(inputs), dtype=torch.long)))
    if are_probs(found, atol=1e-4):
        raise ValueInputError("Expected logits, but the module gives probabilities. Take the softmax at its end away.")


def as_inputs(inputs: Tensor, model: nn.Module) -> Tensor:
    """Return whole numbers for a network that reads tokens, and the inputs as they are for others."""
    return inputs.long() if getattr(model, "takes_tokens", False) else inputs


def arguments(make: Any, known: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Give a function what it asks for of the data's sizes, and the options that the user has set."""
    takes = inspect.signature(make).parameters
    found = {**{name: value for name, value in known.items() if name in takes}, **given}
    missing = [
        name
        for name, parameter in takes.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and name not in found
    ]
    if missing:
        raise ValueInputError(
            f"Expected the module to take input_shape, n_features or n_classes, but it asks for {', '.join(missing)}. "
            f"Pass module__{missing[0]}=…"
        )
    return found


def read_method(text: str, lr: float | None, options: dict[str, OptionValue]) -> MethodSpec:
    """Read a method, and set options of whichever of its parts takes them."""
    method = parse_method(text, {"lr": lr})
    if method.ensemble is not None:
        raise ValueInputError(
            f"Expected a method of one network, but got {method.ensemble.name!r}. Put the classifier into "
            "sklearn.ensemble.BaggingClassifier, or train with surefoot.train."
        )
    parts = {"optimizer": OPTIMIZERS, "base": OPTIMIZERS, "loss": LOSSES}
    for name, value in options.items():
        owner = next(
            (kind for kind in parts if (spec := getattr(method, kind)) is not None and name in spec.options), None
        )
        if owner is None:
            raise OptionError(f"Unknown option {name!r} for {text!r}.{did_you_mean(name, method.options)}")
        spec = getattr(method, owner)
        plain = value.item() if isinstance(value, np.generic) else value  # as grids of NumPy have them
        read = parts[owner][spec.name].options[name].read(plain, spec.name)
        spec = dataclasses.replace(spec, options={**spec.options, name: read})
        method = dataclasses.replace(method, **{owner: spec})
    return method
