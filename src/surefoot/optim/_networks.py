"""The networks that an optimizer trains, and what their buffers held, for a step that is skipped."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from weakref import ref

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from surefoot.errors import InputError


class Networks:
    """The networks whose statistics a step may move, where no model is given: those that hold its parameters.

    These are looked for once, at the first step, among everything that Python keeps track of: that takes about as long
    as a collection of garbage, a tenth of a second or so.
    """

    def __init__(self) -> None:
        self._found: list[ref[nn.Module]] | None = None
        self._others: list[ref[nn.Module]] = []

    def forget(self) -> None:
        """Look again at the next step."""
        self._found = None

    def find(self, params: Iterable[Tensor]) -> tuple[list[nn.Module], list[nn.Module]]:
        """Return every module that holds parameters and is no part of another, and all the others.

        Args:
            params: What is optimized.

        Returns:
            The networks of these parameters, and those that hold none of them.
        """
        if self._found is None:
            found, others = _all_networks({id(parameter) for parameter in params})
            self._found, self._others = list(map(ref, found)), list(map(ref, others))
        return _alive(self._found), _alive(self._others)

    def buffers(self, model: nn.Module | None, params: Iterable[Tensor]) -> Buffers:
        """Copy the buffers of the model, or of the networks that hold the parameters."""
        return Buffers([model] if model is not None else self.find(params)[0])


def _alive(networks: Iterable[ref[nn.Module]]) -> list[nn.Module]:
    return [network for known in networks if (network := known()) is not None]


def _all_networks(ids: set[int]) -> tuple[list[nn.Module], list[nn.Module]]:
    """Find all modules that are no part of another: with some of the parameters, and without."""
    # By type(), not isinstance(): that would ask objects that only pretend to be something for their __class__. One
    # without "training" is still being made.
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module) and "training" in vars(thing)]
    owners = {id(m) for m in modules if any(id(parameter) in ids for parameter in m.parameters(recurse=False))}
    if gc.get_freeze_count() and not owners:
        raise InputError(
            "Expected to find the network, whose BatchNorm statistics must move once per step, but gc.freeze() has "
            "hidden it. Pass model=…"
        )
    children = {id(child) for module in modules for child in module.children()}
    roots = [module for module in modules if id(module) not in children]
    own = {id(root) for root in roots if any(id(module) in owners for module in root.modules())}
    return [root for root in roots if id(root) in own], [root for root in roots if id(root) not in own]


class Buffers:
    """What the buffers of networks in training hold, to be put back.

    Args:
        networks: Those of their modules that are in eval mode change nothing and are left out.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        self._kept = [
            (module, name, buffer, buffer.clone())
            for network in networks
            for module in network.modules()
            if module.training
            for name, buffer in module.named_buffers(recurse=False)
            if not is_lazy(buffer)
        ]

    @torch.no_grad()
    def restore(self) -> None:
        """Put everything back, in the memory where it was."""
        for module, name, buffer, values in self._kept:
            setattr(module, name, buffer.copy_(values))
