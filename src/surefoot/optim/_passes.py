"""How passes are made in one process: sums over all parameters, other weights for a while, statistics held still."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from surefoot.errors import DivergedError, InputError
from surefoot.optim._sharded import is_sharded, reshard, total
from surefoot.seeding import replaying

if TYPE_CHECKING:
    from surefoot.optim._step import Step
    from surefoot.optim.rules import CleanGradient
    from surefoot.optim.sharpness_aware import SharpnessAware

PLAIN = {Tensor, nn.Parameter}
SMALL = 16_384  # numbers in a tensor
TINY = 1e-12  # added to norms that are divided by: a zero gradient climbs nowhere


class Passes:
    """The two passes of a step, in one process."""

    model: Any = ()  # whose passes these are; nobody's yet

    def clean(self, optimizer: SharpnessAware, step: Step) -> AbstractContextManager[None]:
        """Surround the clean pass, forward and backward."""
        return nullcontext()

    def unshared(self) -> AbstractContextManager[None]:
        """Surround passes whose gradients stay in this process."""
        return nullcontext()

    @contextmanager
    def perturbed(
        self, optimizer: SharpnessAware, step: Step, clean: CleanGradient, places: Sequence[Tensor]
    ) -> Iterator[None]:
        """Surround the perturbed pass: hold statistics, draw the same random numbers, put the weights elsewhere.

        Args:
            optimizer: Whose step it is.
            step: What is known of it.
            clean: The parameters that climb.
            places: Their perturbed values; none where nothing climbs.
        """
        found, model = optimizer._networks, optimizer.model
        networks = [model] if model is not None else found.of(None, optimizer.parameters())
        others = () if model is not None else found.others()
        with holding_statistics(networks, others), replaying(step.before):
            if not places:
                yield
                return
            with with_weights(clean.params, places, model):
                yield

    def may_end(self, optimizer: SharpnessAware, step: Step, clean: CleanGradient) -> bool:
        """Return whether a step may end with its clean pass, if that has gone wrong or found no gradient."""
        return True

    def agree(self, norm: float) -> float:
        """Return ‖g‖ for decisions that all processes must make alike."""
        return norm

    def average(self, optimizer: SharpnessAware, step: Step, *, late: bool = False) -> None:
        """Average what processes have found each on their own."""


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
    held = [(layer, layer.momentum) for layer in norms_in_training(networks)]
    means = [mean for layer in norms_in_training(others) if (mean := layer.running_mean) is not None]
    before = [mean.clone() for mean in means]  # torch changes them without counting versions
    for layer, _ in held:
        layer.track_running_stats = False  # BatchNorm: normalise by the batch, store nothing
        layer.momentum = 0.0  # InstanceNorm updates its statistics whenever it has some
    try:
        yield
    finally:
        for layer, momentum in held:
            layer.track_running_stats = True
            layer.momentum = momentum
    if means and any(not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(means, before, strict=True)):
        raise InputError(
            "Expected running statistics to move in the clean pass only, but those of a network without parameters of "
            "this optimizer moved in the perturbed pass. Pass model=nn.ModuleList([…]) with all that the closure calls."
        )


def norms_in_training(networks: Sequence[nn.Module]) -> list[Any]:
    """Return the layers with running statistics that move: looked for at every step, since layers come and go."""
    seen = set(networks)
    stack, found = list(networks), []
    while stack:
        module = stack.pop()
        if module.training and vars(module).get("track_running_stats") and "momentum" in vars(module):
            found.append(module)
        for child in module.children():
            if child not in seen:
                seen.add(child)
                stack.append(child)
    return found


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
    norm = math.sqrt(sum_of_squares(tensors))
    if 0 < norm < math.inf:
        return norm
    # Squares leave the range of float32 long before the numbers do: look again, more slowly.
    return math.sqrt(total(_squares_in_float64, tensors))


def _squares_in_float64(tensors: Sequence[Tensor]) -> float:
    return math.fsum(torch.linalg.vector_norm(tensor, dtype=torch.float64).item() ** 2 for tensor in tensors)


def sum_of_squares(tensors: Sequence[Tensor]) -> float:
    """Return the squared L2 norm of all tensors taken together.

    A dot product runs at the speed of memory, unlike a norm on a CPU. For small tensors what counts is the number of
    calls, so they are put together first; that also makes the sum independent of where in memory they lie.

    Args:
        tensors: Of any shapes, devices and floating types.

    Returns:
        The sum of the squares of all entries.
    """
    kinds = {(type(tensor), tensor.dtype, tensor.device) for tensor in tensors}
    if len(kinds) != 1 or next(iter(kinds))[0] not in PLAIN or tensors[0].element_size() < 4:
        return inner(tensors, tensors)
    small = [tensor.reshape(-1) for tensor in tensors if tensor.numel() < SMALL]
    large = [tensor for tensor in tensors if tensor.numel() >= SMALL]
    square = 0.0
    for tensor in [*large, torch.cat(small)] if small else large:
        if tensor.is_contiguous():
            vector = tensor.view(-1)
        elif tensor.is_contiguous(memory_format=torch.channels_last):
            vector = tensor.as_strided((tensor.numel(),), (1,))
        else:
            vector = tensor.reshape(-1)
        square += torch.dot(vector, vector).item()
    return square


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


def finite_loss(loss: Tensor, what: str, scaler: Any) -> float:
    """Return a loss's value; a scaler, or ranks that must decide alike, look at the gradient instead of it."""
    value = loss.item()
    if not math.isfinite(value) and scaler is None and not (dist.is_available() and dist.is_initialized()):
        finite(value, what)
    return value
