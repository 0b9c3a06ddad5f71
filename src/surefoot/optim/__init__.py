"""Optimizers, one file each. All are stepped the same way: ``loss = optimizer.step(closure)``."""

from __future__ import annotations

import inspect
from operator import attrgetter
from typing import Any

import torch
from torch import nn

from surefoot.errors import InputError
from surefoot.optim._closure import Parts
from surefoot.optim._wrapper import Wrapper
from surefoot.optim.aesam import AESAM
from surefoot.optim.amp import AMP
from surefoot.optim.asam import ASAM
from surefoot.optim.bases import adamw, gd, sgd
from surefoot.optim.bsam import BSAM
from surefoot.optim.bulk import BulkSGD, DomSGD, Projected
from surefoot.optim.csam import CSAM
from surefoot.optim.esam import ESAM
from surefoot.optim.facts import StepFacts
from surefoot.optim.fisher_sam import FisherSAM
from surefoot.optim.fsam import FSAM
from surefoot.optim.gnp import GNP
from surefoot.optim.gsam import GSAM
from surefoot.optim.looksam import LookSAM
from surefoot.optim.muon import Muon
from surefoot.optim.plain import Plain
from surefoot.optim.rst import RST
from surefoot.optim.rules import Ascent, Cadence, CleanGradient, Descent, GradientPair, OuterLoss, ascent_rule
from surefoot.optim.sam import SAM
from surefoot.optim.sharpness_aware import EveryKth, SharpnessAware
from surefoot.optim.ssam import SSAM
from surefoot.optim.usam import USAM
from surefoot.optim.vasso import VASSO
from surefoot.optim.wsam import WSAM
from surefoot.registry import OPTIMIZERS
from surefoot.schema import MethodSpec, PartSpec

__all__ = [
    "AESAM", "AMP", "ASAM", "BSAM", "CSAM", "ESAM", "FSAM", "GNP", "GSAM", "RST", "SAM", "SSAM", "USAM", "VASSO",
    "WSAM", "Ascent", "BulkSGD", "Cadence", "CleanGradient", "Descent", "DomSGD", "EveryKth", "FisherSAM",
    "GradientPair", "LookSAM", "Muon", "OuterLoss", "Parts", "Plain", "Projected", "SharpnessAware", "StepFacts",
    "Wrapper", "adamw", "ascent_rule", "build_optimizer", "gd", "sgd",
]  # fmt: skip


def build_optimizer(
    method: MethodSpec, model: nn.Module, *, n_train: int | None = None, tuned: bool = False
) -> Wrapper:
    """Make a method's optimizer for a model.

    Args:
        method: Says which optimizer and, where it wraps another, which base.
        model: Its parameters are optimized; those that do not require a gradient are left out. A module may have
            ``own_rules``: a learning rate, relative to that of the others, or a weight decay for parameters by name.
        n_train: Number of training examples, for an optimizer with an option of that name that was not given.
        tuned: Whether the caller does what ``method.tune`` asks for.

    Returns:
        An optimizer that is stepped with a closure.

    Raises:
        InputError: If the method is to be tuned and nobody does, or its part makes no optimizer.
    """
    if method.tune is not None and not tuned:
        raise InputError(
            f"Expected a loop that has held-out rows for tune={method.tune}, but this one has none to give. Leave tune "
            "out, and call KeepCalibrated(optimizer).step(logits, labels) after each validation pass."
        )
    params = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if method.base is None:
        made = _build_base(method.optimizer, params, model, n_train)
    else:
        made = OPTIMIZERS.build(method.optimizer, _build_base(method.base, params, model, n_train), model)
    if not isinstance(made, torch.optim.Optimizer):
        raise InputError(
            f"Expected {method.optimizer.name} to give a torch optimizer, but it gives a {type(made).__name__}. "
            "Return one from it."
        )
    return made if isinstance(made, Wrapper) else Plain(made)


def _build_base(spec: PartSpec, params: list[nn.Parameter], model: nn.Module, n_train: int | None) -> Any:
    """Make a base optimizer; one whose function takes a second argument is given the model as well."""
    if "n_train" in spec.options and spec.options["n_train"] is None:
        spec = PartSpec(spec.name, {**spec.options, "n_train": n_train}, spec.source)
    takes = inspect.signature(OPTIMIZERS[spec.name].build).parameters.values()
    wants_model = sum(parameter.kind is not parameter.KEYWORD_ONLY for parameter in takes) > 1
    if wants_model:
        return OPTIMIZERS.build(spec, params, model)
    return OPTIMIZERS.build(spec, _groups(spec, params, model))


def _groups(spec: PartSpec, params: list[nn.Parameter], model: nn.Module) -> list[Any]:
    """Put parameters with rules of their own into groups of their own; give the list as it is where none has any."""
    lr = spec.options.get("lr")
    ruled: dict[tuple[tuple[str, float], ...], list[nn.Parameter]] = {}
    for module in model.modules():
        for name, rules in getattr(module, "own_rules", {}).items():
            parameter = attrgetter(name)(module)
            if parameter is not None and parameter.requires_grad:
                absolute = {key: value for key, value in rules.items() if key != "lr"}
                if "lr" in rules and isinstance(lr, int | float):
                    absolute["lr"] = lr * rules["lr"]
                ruled.setdefault(tuple(absolute.items()), []).append(parameter)
    if not ruled:
        return params
    apart = {id(parameter) for group in ruled.values() for parameter in group}
    common = [parameter for parameter in params if id(parameter) not in apart]
    groups: list[Any] = [{"params": common}] if common else []
    return groups + [{"params": group, **dict(rules)} for rules, group in ruled.items()]
