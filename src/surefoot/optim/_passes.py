"""How passes are made in one process: sums over all parameters, other weights for a while, statistics held still."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from surefoot.errors import DivergedError, InputError
from surefoot.optim._sharded import total
from surefoot.ranks import is_sharded, reshard

if TYPE_CHECKING:
    from surefoot.optim._step import Step
    from surefoot.optim.sharpness_aware import SharpnessAware

PLAIN = {Tensor, nn.Parameter}
SMALL = 16_384  # numbers in a tensor
TINY = 1e-12  # added to norms that are divided by: a zero gradient climbs nowhere


@dataclass(frozen=True)
class CleanGradient:
    """The clean gradient of one step: everything that has one, in the order of the parameter groups.

    Attributes:
        params: The parameters, at the weights before the climb.
        grads: Their gradients.
        rhos: Each one's radius.
        indices: Each one's place among all parameters of all groups.
        norm: ‖g‖, the norm of all gradients together.
        t: Steps made so far.
        model: Names the parameters.
    """

    params: list[Tensor]
    grads: list[Tensor]
    rhos: list[float]
    indices: list[int]
    norm: float
    t: int = 0
    model: nn.Module | None = None

    @property
    def names(self) -> list[str]:
        """Each one's name in the model; empty texts without a model."""
        named = self.model.named_parameters() if self.model is not None else ()
        names = {id(parameter): name for name, parameter in named}
        return [names.get(id(parameter), "") for parameter in self.params]


class Passes:
    """The passes of a model in one process, which has nobody to wait for."""

    model: Any = ()  # whose passes these are; nobody's yet
    unshared: Callable[[], AbstractContextManager[None]] = nullcontext  # surrounds passes that stay in this process
    may_climb_apart = False  # whether there are other processes, with batches of their own

    def keep(self, clean: CleanGradient) -> None:
        """Make the clean gradients outlast the perturbed pass."""

    def may_end(self, optimizer: SharpnessAware, step: Step, clean: CleanGradient) -> bool:
        """Return whether a step may end with its clean pass, if that has gone wrong or found no gradient."""
        return True

    def agree(self, norm: float) -> float:
        """Return ‖g‖ for decisions that all processes must make alike."""
        return norm

    def average(self, optimizer: SharpnessAware, step: Step, *, late: bool = False) -> None:
        """Average what processes have found each on their own."""


def clean_gradient(optimizer: SharpnessAware, step: Step, scale: float = 1.0) -> CleanGradient:
    """Gather the gradients in place, and decide whether the step climbs along them.

    Args:
        optimizer: Whose gradients.
        step: Learns their norm, whether it is finite, and whether the step climbs.
        scale: By which a scaler has multiplied them; they are divided by it.

    Returns:
        Parameters, gradients and radii.
    """
    params, rhos, indices, first = [], [], [], 0
    for group in optimizer.base.param_groups:
        rho = optimizer.radius(group)
        if not rho >= 0:  # somebody may have changed it
            optimizer.prepare_group(group)
        for index, parameter in enumerate(group["params"], first):
            if parameter.grad is not None:
                params.append(parameter)
                rhos.append(rho)
                indices.append(index)
        first += len(group["params"])
    grads = gradients(params)
    for grad in grads if scale != 1 else ():
        grad.mul_(1 / scale)
    norm = agreed = step.facts["grad_norm"] = total_norm(grads)
    if optimizer.cadence.by_norm:
        agreed = optimizer._passes.agree(norm)
    if not math.isfinite(agreed):
        step.check_finite(agreed, "gradient norm")
    if step.climbs is None:
        asks = optimizer.cadence.by_norm and step.error is None
        step.climbs = step.due and (not asks or optimizer.cadence.wanted(optimizer.t, agreed))
    return CleanGradient(params, grads, rhos, indices, norm, optimizer.t, optimizer.model)


@contextmanager
def with_weights(params: Sequence[Tensor], values: Sequence[Tensor], model: nn.Module | None = None) -> Iterator[None]:
    """Let the parameters have other values for a while; afterwards they are as they were, bit for bit.

    An ordinary parameter is pointed at ``values`` and back at its own memory: no number is copied. Where several
    parameters share memory, or are of a kind of their own (sharded, for example), the values change places in memory
    instead, which is exact too. Copies of lower precision that ``torch.autocast`` keeps of the parameters are thrown
    away both times: they know nothing of a change.

    Args:
        params: Parameters of a model.
        values: The other values, of the same shapes; they are kept.
        model: Gathers sharded parameters, and is told that they have changed.
    """
    originals = [parameter.data for parameter in params]
    memory = {original.untyped_storage().data_ptr() for original in originals if type(original) is Tensor}
    if len(memory) != len(params) or {type(parameter) for parameter in params} - PLAIN:
        with _with_copies(params, values, model):
            yield
        return
    try:
        for parameter, value in zip(params, values, strict=True):
            parameter.data = value
        torch.clear_autocast_cache()
        yield
    finally:
        for parameter, original in zip(params, originals, strict=True):
            parameter.data = original
        torch.clear_autocast_cache()


@contextmanager
def _with_copies(params: Sequence[Tensor], values: Sequence[Tensor], model: nn.Module | None) -> Iterator[None]:
    with torch.no_grad():
        copies = [parameter.clone() for parameter in params]
        try:
            _copy(params, values, model)
            with torch.enable_grad():
                yield
        finally:
            _copy(params, copies, model)


def _copy(params: Sequence[Tensor], values: Sequence[Tensor], model: nn.Module | None) -> None:
    for parameter, value in zip(params, values, strict=True):
        parameter.copy_(value)
    if any(is_sharded(parameter) for parameter in params):
        reshard(model)
    torch.clear_autocast_cache()


@contextmanager
def holding_statistics(networks: Sequence[nn.Module], others: Sequence[nn.Module] = ()) -> Iterator[None]:
    """Keep running statistics of BatchNorm and its relatives still: they move in the clean pass only.

    Args:
        networks: Their normalisation layers are held.
        others: Theirs are none of ours to hold, since somebody else may use them now.

    Raises:
        InputError: If those of others have moved.
    """
    layers = [layer for network in networks for layer in network.modules() if layer.training]
    held: list[Any] = [layer for layer in layers if vars(layer).get("track_running_stats")]
    momenta = [layer.momentum for layer in held]
    means = _moving_means(others) if others else []
    before = [mean.clone() for mean in means]  # torch changes them without counting versions
    for layer in held:
        layer.track_running_stats = False  # BatchNorm: normalise by the batch, store nothing
        layer.momentum = 0.0  # InstanceNorm updates its statistics whenever it has some
    try:
        yield
    finally:
        for layer, momentum in zip(held, momenta, strict=True):
            layer.track_running_stats = True
            layer.momentum = momentum
    if means and any(not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(means, before, strict=True)):
        raise InputError(
            "Expected running statistics to move in the clean pass only, but those of a network without parameters of "
            "this optimizer moved in the perturbed pass. Pass model=nn.ModuleList([…]) with all that the closure calls."
        )


def _moving_means(networks: Sequence[nn.Module]) -> list[Tensor]:
    layers = [layer for network in networks for layer in network.modules() if layer.training]
    return [layer.running_mean for layer in layers if vars(layer).get("track_running_stats")]  # type: ignore[misc]


def total_norm(tensors: Sequence[Tensor]) -> float:
    """Return the L2 norm of all tensors taken together, accumulated in at least float32.

    Args:
        tensors: Gradients, of any shapes, devices and floating types.

    Returns:
        The norm; NaN or infinity if an entry is.

    Example:
        >>> total_norm([torch.tensor([3.0]), torch.tensor([[0.0, 4.0]])])
        5.0
        >>> total_norm([torch.tensor([3e-30]), torch.tensor([4e-30])]) > 0
        True
    """
    kinds = {(type(tensor), tensor.dtype, tensor.device) for tensor in tensors}
    if len(kinds) != 1 or tensors[0].element_size() < 4 or type(tensors[0]) not in PLAIN:
        square = inner(tensors, tensors)
    else:
        # A dot product runs at the speed of memory, unlike a norm on a CPU. For small tensors what counts is the number
        # of calls, so they are put together first; the sum is then also independent of where in memory they lie.
        square, small = 0.0, [tensor.reshape(-1) for tensor in tensors if tensor.numel() < SMALL]
        large = [tensor for tensor in tensors if tensor.numel() >= SMALL]
        for tensor in [*large, torch.cat(small)] if small else large:
            in_place = tensor.is_contiguous() or not tensor.is_contiguous(memory_format=torch.channels_last)
            vector = tensor.reshape(-1) if in_place else tensor.as_strided((tensor.numel(),), (1,))
            square += torch.dot(vector, vector).item()
    if 0 < square < math.inf:
        return math.sqrt(square)
    # Squares leave the range of float32 long before the numbers do: look again, more slowly.
    return math.sqrt(total(_squares_in_float64, tensors))


def _squares_in_float64(tensors: Sequence[Tensor]) -> float:
    return math.fsum(torch.linalg.vector_norm(tensor, dtype=torch.float64).item() ** 2 for tensor in tensors)


def inner(left: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    """Return the inner product of two lists of tensors.

    Args:
        left: Tensors.
        right: Tensors of the same shapes.

    Returns:
        The sum over all entries of all products.
    """
    return total(_inner, left, right)


def _inner(left: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    product = 0.0
    for a, b in zip(left, right, strict=True):
        if a.dtype in (torch.float16, torch.bfloat16):
            a, b = a.float(), b.float()
        if a.stride() == b.stride() and a.is_contiguous(memory_format=torch.channels_last):  # copies nothing
            a, b = a.as_strided((a.numel(),), (1,)), b.as_strided((b.numel(),), (1,))
        product += torch.dot(a.reshape(-1), b.reshape(-1)).item()
    return product


def gradients(params: Iterable[Tensor]) -> list[Tensor]:
    """Return the gradients of those parameters that have one.

    Args:
        params: Parameters.

    Returns:
        Their gradients, in the same order.

    Raises:
        InputError: If one is sparse.
    """
    grads = [parameter.grad for parameter in params if parameter.grad is not None]
    if {grad.layout for grad in grads} - {torch.strided}:
        raise InputError("Expected dense gradients, but got a sparse one. Use nn.Embedding(…, sparse=False).")
    return grads


def finite(value: float, what: str) -> float:
    """Return a number, such as a loss or a norm, if it is one.

    Args:
        value: The number.
        what: Its name, for the error message.

    Returns:
        The number.

    Raises:
        DivergedError: If it is NaN or infinite.
    """
    if not math.isfinite(value):
        raise DivergedError(f"Expected a finite {what}, but got {value}. Lower the learning rate or clip the gradient.")
    return value
