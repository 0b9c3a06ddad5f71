"""Running statistics and other buffers: they move in the clean pass only, and not at all in a step that is skipped."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from weakref import ref

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy

from surefoot.errors import InputError


class Networks:
    """The networks whose statistics a step may move: the model, or without one those that hold its parameters.

    These are looked for once, at the first step, among everything that Python keeps track of: that takes about as long
    as a collection of garbage, a tenth of a second or so.
    """

    def __init__(self) -> None:
        self._found: list[ref[nn.Module]] | None = None
        self._others: list[ref[nn.Module]] = []

    def forget(self) -> None:
        """Look again at the next step."""
        self._found = None

    def of(self, model: nn.Module | None, params: Iterable[Tensor]) -> list[nn.Module]:
        """Return the networks.

        Args:
            model: The network, if it is known.
            params: What is optimized.

        Returns:
            The model alone, or every module that holds parameters and is no part of another.
        """
        if model is not None:
            return [model]
        if self._found is None:
            found, others = _all_networks({id(parameter) for parameter in params})
            self._found, self._others = list(map(ref, found)), list(map(ref, others))
        return _alive(self._found)

    def others(self, model: nn.Module | None) -> list[nn.Module]:
        """Return those that were found and hold no parameters of the optimizer; none where the model is known."""
        return _alive(self._others) if model is None else []


def _alive(networks: Iterable[ref[nn.Module]]) -> list[nn.Module]:
    return [network for known in networks if (network := known()) is not None]


def _all_networks(ids: set[int]) -> tuple[list[nn.Module], list[nn.Module]]:
    """Find all modules that are no part of another: with some of the parameters, and without."""
    # By type(), not isinstance(): that would ask objects that only pretend to be something for their __class__.
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module) and "_modules" in vars(thing)]
    owners = {id(m) for m in modules if any(id(parameter) in ids for parameter in m._parameters.values())}
    if gc.get_freeze_count() and not owners:
        raise InputError(
            "Expected to find the network, whose BatchNorm statistics must move once per step, but gc.freeze() has "
            "hidden it. Pass model=…"
        )
    children = {id(child) for module in modules for child in module._modules.values()}
    roots = [module for module in modules if id(module) not in children]
    own = {id(root) for root in roots if any(id(module) in owners for module in modules_of([root]))}
    return [root for root in roots if id(root) in own], [root for root in roots if id(root) not in own]


def modules_of(networks: Sequence[nn.Module]) -> Iterable[nn.Module]:
    """Go through all modules: at every step anew, since they come and go, so without the cost of names."""
    found = dict.fromkeys(networks)
    stack = list(networks)
    while stack:
        for child in stack.pop()._modules.values():
            if child is not None and child not in found:
                found[child] = None
                stack.append(child)
    return found


def _moving_norms(networks: Sequence[nn.Module]) -> list[_NormBase]:
    norms = [module for module in modules_of(networks) if isinstance(module, _NormBase)]
    return [layer for layer in norms if layer.training and layer.track_running_stats]


@contextmanager
def holding_statistics(networks: Sequence[nn.Module], others: Sequence[nn.Module] = ()) -> Iterator[None]:
    """Keep running statistics of BatchNorm and its relatives still: they move in the clean pass only.

    Args:
        networks: Their normalisation layers are held.
        others: Theirs are none of ours to hold, since somebody else may use them now.

    Raises:
        InputError: If those of others have moved.
    """
    layers = _moving_norms(networks)
    momenta = [module.momentum for module in layers]
    means = [mean for layer in _moving_norms(others) if (mean := layer.running_mean) is not None]
    before = [mean.clone() for mean in means]  # torch changes them without counting versions
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
    if any(not torch.equal(now.nan_to_num(), then.nan_to_num()) for now, then in zip(means, before, strict=True)):
        raise InputError(
            "Expected running statistics to move in the clean pass only, but those of a network without parameters of "
            "this optimizer moved in the perturbed pass. Pass model=nn.ModuleList([…]) with all that the closure calls."
        )


class Buffers:
    """What the buffers of networks in training hold, to be put back.

    Args:
        networks: Those of their modules that are in eval mode change nothing and are left out.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        self._kept = [
            (module, name, buffer, buffer.clone())
            for module in modules_of(networks)
            if module.training
            for name, buffer in module._buffers.items()
            if buffer is not None and not is_lazy(buffer)
        ]

    @torch.no_grad()
    def restore(self) -> None:
        """Put everything back, in the memory where it was."""
        for module, name, buffer, values in self._kept:
            module._buffers[name] = buffer.copy_(values)
