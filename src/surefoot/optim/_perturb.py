"""Climb and come back: the weights are as they were, whatever happens in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

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
