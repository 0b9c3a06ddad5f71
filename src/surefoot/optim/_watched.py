"""Weights that are asked before they are used, so that a linear layer can climb without moving its weight.

For the time of a step a weight becomes a :class:`Watched`, which torch's functions ask before they work with it
(``__torch_function__``). A linear layer is answered by :class:`~surefoot.optim._low_rank.Layer`; for any other use
(a penalty, a mask, a weight derived from it, a copy), the layer makes the weight what it would be on the plain path.
Modules are not touched: what they do with their weights is seen when they do it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.optim._low_rank import Layer, plainly
from surefoot.optim._statistics import modules_of

LARGE = 65_536  # numbers in a weight: to move a smaller one costs less than to watch it
_TENSOR: Any = Tensor  # whose properties are descriptors, which its type declarations do not say
_READ = ("grad", "requires_grad", "is_leaf", "shape", "ndim", "dtype", "device", "layout")
HARMLESS = {  # what does not look at a weight's numbers
    *(getattr(Tensor, name).__get__ for name in _READ),
    *(getattr(Tensor, name) for name in ("size", "dim", "numel", "is_floating_point")),
    *(_TENSOR.grad.__set__, _TENSOR.grad.__delete__),
}


class Watched(nn.Parameter):
    """A weight during a step that may climb without moving it."""

    layer: Layer

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Let the layer of each watched weight do, or know of, what is done with it."""
        kwargs = kwargs or {}
        with plainly():
            if func in HARMLESS:
                return func(*args, **kwargs)
            if torch.compiler.is_dynamo_compiling():  # a graph is not asked again when it runs: it can only say so
                for weight in _watched([args, kwargs]):
                    weight.layer.is_used = True
            elif func is F.linear and (outputs := _linear(*args, **kwargs)) is not None:
                return outputs
            else:
                for weight in _watched([args, kwargs]):
                    weight.layer.use()
            return func(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Parameter:
        """Return a copy that nobody watches."""
        if id(self) not in memo:
            memo[id(self)] = nn.Parameter(self.detach().clone(), self.requires_grad)
        copied: nn.Parameter = memo[id(self)]
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Be written as what it is for everybody else."""
        return nn.Parameter(self.detach(), self.requires_grad).__reduce_ex__(protocol)


def _watched(values: Iterable[Any]) -> list[Watched]:
    """Find the watched weights among a function's arguments, and in the lists that are among them."""
    found: list[Watched] = []
    for value in values:
        if type(value) is Watched:
            found.append(value)
        elif isinstance(value, list | tuple):
            found += _watched(value)
        elif isinstance(value, dict):
            found += _watched(value.values())
    return found


def _linear(input: Any, weight: Any, bias: Any = None) -> Tensor | None:
    """Be a linear layer, if it is one of a watched weight and of nothing else that is watched."""
    if type(weight) is not Watched or type(input) is Watched or type(bias) is Watched:
        return None
    return weight.layer(input, bias)


def large_weights(model: nn.Module | None, params: Iterable[Tensor]) -> list[nn.Parameter]:
    """Find the weights that may be perturbed without being moved.

    Those of plain ``nn.Linear`` that are large enough to matter and have memory of their own, that no other module
    shares and no hook waits for, in a model that is neither compiled nor distributed. They are looked for at every
    step anew, since modules, hooks and parametrizations come and go.

    Args:
        model: The network.
        params: What is optimized.

    Returns:
        The weights.
    """
    if model is None or (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return []
    modules = list(modules_of([model]))
    weights = [module._parameters.get("weight") for module in modules if type(module) is nn.Linear]
    found = [weight for weight in weights if weight is not None and _is_plain(weight)]
    if not found or any("_orig_mod" in m._modules or m._compiled_call_impl is not None for m in modules):
        return []
    optimized = {id(parameter) for parameter in params}
    uses = Counter(id(parameter) for module in modules for parameter in module._parameters.values())
    return [weight for weight in found if id(weight) in optimized and uses[id(weight)] == 1]


def _is_plain(weight: nn.Parameter) -> bool:
    return (
        type(weight) is nn.Parameter
        and weight.numel() >= LARGE
        and weight.dtype in (torch.float32, torch.float64)
        and weight.is_contiguous()
        and weight.untyped_storage().nbytes() == weight.numel() * weight.element_size()
        and not torch.is_autocast_enabled(weight.device.type)
        and not (weight._backward_hooks or getattr(weight, "_post_accumulate_grad_hooks", None))
    )


@contextmanager
def watching(layers: Sequence[Layer]) -> Iterator[None]:
    """Watch the weights of layers for a while; afterwards they are what they were.

    Args:
        layers: The layers.
    """
    try:
        for layer in layers:
            weight: Any = layer.weight
            weight.__class__, weight.layer = Watched, layer
        yield
    finally:
        for layer in layers:
            unwatch(layer)


def unwatch(layer: Layer) -> None:
    """Let a weight be a parameter as any other, with its own values.

    Args:
        layer: Whose weight it is.
    """
    weight: Any = layer.weight
    is_watched = type(weight) is Watched
    if is_watched:
        weight.__class__ = nn.Parameter
        del weight.layer
        layer.leave()
