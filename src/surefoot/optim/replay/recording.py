"""What a plain loop has done, so that it can be done again: a forward pass of the model, and a loss of its output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from surefoot.optim._torch import VERSION
from surefoot.seeding import RngState, replaying, rng_state

Place = tuple[Any, ...]  # keys that lead to a tensor in nested tuples, lists and dicts
Key = int | str  # of an argument: its position, or its name


def tensors(thing: Any, place: Place = ()) -> Iterator[tuple[Place, Tensor]]:
    """Go through the tensors in nested tuples, lists and dicts, each with its place.

    Example:
        >>> [place for place, _ in tensors({"logits": torch.zeros(1), "hidden": [torch.zeros(1)]})]
        [('logits',), ('hidden', 0)]
    """
    if isinstance(thing, Tensor):
        yield place, thing
    elif isinstance(thing, Mapping | list | tuple):
        for key, value in thing.items() if isinstance(thing, Mapping) else enumerate(thing):
            yield from tensors(value, (*place, key))


def version(tensor: Tensor) -> int:
    """Return how often a tensor has been written to in place."""
    return -1 if tensor.is_inference() else int(getattr(tensor, VERSION, -1))


def state_of(model: nn.Module) -> tuple[list[bool], int]:
    """Return which modules are training, and how often the parameters have been written to."""
    return [module.training for module in model.modules()], sum(version(weight) for weight in model.parameters())


class Autocast(NamedTuple):
    """What ``torch.autocast`` is set to: for each kind of device whether it is on, and its type; its cache."""

    kinds: list[tuple[str, bool, torch.dtype]]
    caches: bool

    @classmethod
    def now(cls, kinds: Iterable[str]) -> Autocast:
        """Read it."""
        found = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds]
        return cls(found, torch.is_autocast_cache_enabled())

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Set it to what it was, for a while."""
        with ExitStack() as stack:
            for kind, enabled, dtype in self.kinds:
                if enabled or torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, dtype, enabled, self.caches))
            yield


@dataclass(eq=False)
class Call:
    """A call of the model or of a loss: what it was given, and under which conditions."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    kinds: Iterable[str]  # of devices

    def __post_init__(self) -> None:
        """Note the conditions."""
        self._given = self._look()
        self._autocast, self._before = Autocast.now(self.kinds), rng_state()

    def _look(self) -> list[tuple[Place, int, int]]:
        return [(place, id(tensor), version(tensor)) for place, tensor in tensors((self.args, self.kwargs))]

    @property
    def is_intact(self) -> bool:
        """Whether nobody has written to what it was given since then."""
        return self._look() == self._given

    @property
    def needs_gradient(self) -> bool:
        """Whether something that it was given has been computed from parameters, or wants a gradient itself."""
        return any(tensor.requires_grad for _, tensor in tensors((self.args, self.kwargs)))

    @contextmanager
    def again(self) -> Iterator[None]:
        """Surround the same call, with the same random numbers and in the same precision."""
        with replaying(self._before), self._autocast.restored():
            yield

    _before: RngState = field(init=False, repr=False)
    _autocast: Autocast = field(init=False, repr=False)
    _given: list[tuple[Place, int, int]] = field(init=False, repr=False)


class Forward(Call):
    """A forward pass of the model."""

    def start(self, model: nn.Module) -> None:
        """Note the state of the model."""
        self.state = state_of(model)
        self.shares = bool(getattr(model, "require_backward_grad_sync", True))  # DDP: averages over ranks
        self.places: list[Place] = []  # of the tensors in its output
        self.was_taken_whole = False  # by a loss that got the output itself, rather than a tensor in it
        self._arrived: dict[Place, list[Tensor]] = {}  # gradients that came from losses of ours

    def double(self, place: Place, tensor: Tensor) -> Tensor:
        """Return an output once more: the gradient that arrives there comes from one loss of ours alone."""
        double = tensor.view_as(tensor)
        double.register_hook(self._arrived.setdefault(place, []).append)
        return double

    def is_ours(self, place: Place, grad: Tensor) -> bool:
        """Return whether the gradient that has arrived at an output came from losses of ours alone."""
        ours = self._arrived.pop(place, None)
        if not ours:
            return self.was_taken_whole
        return ours[0].data_ptr() == grad.data_ptr() or torch.equal(sum(ours[1:], ours[0]), grad)


class Claim:
    """A loss of a recorded forward pass.

    Until it is differentiated, nobody but its graph holds it.

    Args:
        number: How many losses there were before.
        forward: The pass.
        call: The loss's own arguments, with None in the place of outputs.
        outputs: Which arguments are outputs, and where in the output they are found.
    """

    def __init__(self, number: int, forward: Forward, call: Call, outputs: dict[Key, Place]) -> None:
        self.number, self.forward, self.call, self._outputs = number, forward, call, outputs
        self.factors: list[Tensor] = []  # the gradient that arrived, each time that the loss was differentiated
        self.backward: Autocast | None = None  # as it was then

    def arrives(self, grad: Tensor) -> None:
        """Note the gradient that arrives at the loss, such as 1/k from a loop that divides by k."""
        self.factors.append(grad)
        self.backward = Autocast.now(self.call.kinds)

    def arguments(self, output: Any) -> tuple[list[Any], dict[str, Any]]:
        """Return the loss's arguments, with another output of the model."""
        args, kwargs = list(self.call.args), dict(self.call.kwargs)
        for key, place in self._outputs.items():
            value = output
            for step in place:
                value = value[step]
            if isinstance(key, int):
                args[key] = value
            else:
                kwargs[key] = value
        return args, kwargs
