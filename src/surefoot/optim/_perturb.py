"""Climb and come back: weights, statistics and random numbers are as they were, whatever happens in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.instancenorm import _InstanceNorm

from surefoot.optim._sharded import is_sharded, reshard


@contextmanager
def standing_at(params: Sequence[Tensor], places: Sequence[Tensor], model: nn.Module | None = None) -> Iterator[None]:
    """Let the parameters have other values for a while.

    An ordinary parameter is pointed at ``places`` and back at its own memory: no number is copied, so it returns
    bit for bit. Where several parameters share memory, or are of a kind of their own (sharded, for example), the
    values change places in memory instead, which is exact too. Copies of lower precision that ``torch.autocast`` keeps
    of the parameters are thrown away both times: they know nothing of a change.

    Args:
        params: Parameters of a model.
        places: The other values, of the same shapes; they are kept.
        model: Gathers sharded parameters, and is told that they have changed.
    """
    if _can_be_pointed(params):
        originals = [parameter.data for parameter in params]
        try:
            for parameter, place in zip(params, places, strict=True):
                parameter.data = place
            torch.clear_autocast_cache()
            yield
        finally:
            for parameter, original in zip(params, originals, strict=True):
                parameter.data = original
            torch.clear_autocast_cache()
    else:
        with torch.no_grad():
            copies = [parameter.clone() for parameter in params]
            try:
                _copy(params, places, model)
                with torch.enable_grad():
                    yield
            finally:
                _copy(params, copies, model)


def _can_be_pointed(params: Sequence[Tensor]) -> bool:
    if any(type(parameter) not in (nn.Parameter, Tensor) for parameter in params):
        return False
    return len({parameter.untyped_storage().data_ptr() for parameter in params}) == len(params)


def _copy(params: Sequence[Tensor], values: Sequence[Tensor], model: nn.Module | None) -> None:
    for parameter, value in zip(params, values, strict=True):
        parameter.copy_(value)
    if any(is_sharded(parameter) for parameter in params):
        reshard(model)
    torch.clear_autocast_cache()


def modules_of(model: nn.Module) -> list[nn.Module]:
    """Find all modules: at every step anew, since they come and go, so without the cost of names."""
    found: dict[nn.Module, None] = {model: None}
    stack = [model]
    while stack:
        for child in stack.pop()._modules.values():
            if child is not None and child not in found:
                found[child] = None
                stack.append(child)
    return list(found)


def _norms(model: nn.Module) -> list[_NormBase]:
    return [module for module in modules_of(model) if isinstance(module, _NormBase)]


@contextmanager
def holding_statistics(model: nn.Module | None) -> Iterator[None]:
    """Keep running statistics of BatchNorm and its relatives still: they move in the clean pass only.

    Args:
        model: Its normalisation layers are held; None for no model.
    """
    layers = [] if model is None else [layer for layer in _norms(model) if layer.training and layer.track_running_stats]
    momenta = [module.momentum for module in layers]
    for module in layers:
        if isinstance(module, _InstanceNorm):
            module.momentum = 0.0  # it updates its statistics whenever it has some
        else:
            module.track_running_stats = False  # in training mode: normalise by the batch, store nothing
    try:
        yield
    finally:
        for module, momentum in zip(layers, momenta, strict=True):
            module.track_running_stats = True
            module.momentum = momentum
