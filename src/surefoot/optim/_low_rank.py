"""Climb with linear layers without moving their weights: exact, and cheap for few rows.

The gradient of a linear layer is δᵀa, with a its inputs and δ the gradients of its outputs, one row per example.
Where rows are few, SAM needs that matrix neither for its norm, ‖δᵀa‖² = Σ (aaᵀ)∘(δδᵀ), nor for the perturbed
outputs, x(W + s·δᵀa)ᵀ = xWᵀ + s·(xaᵀ)δ. So the clean pass computes no weight gradients, no weight is copied, and a
first layer, which sees the same inputs again, reuses its product.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.errors import InputError

LARGE = 65_536  # numbers in a weight: to move a smaller one costs less than to listen


@dataclass
class Call:
    """One use of a layer in the clean pass.

    Attributes:
        inputs: x.
        product: x Wᵀ. It is seen by nobody else, so nothing writes to it.
        leaf: What is added to the outputs and gets their gradient. A leaf, so that it counts what ``backward()``
            brings, as the gradient of a weight does, and not what a closure asks of ``torch.autograd.grad``.
    """

    inputs: Tensor
    product: Tensor
    leaf: Tensor

    def __post_init__(self) -> None:
        """Take down how often the inputs have been written to."""
        self.version = self.inputs._version

    def check(self) -> None:
        """Refuse inputs that were written to after the clean pass, which a product of later inputs needs."""
        if self.inputs._version != self.version:
            raise InputError(
                "Expected the inputs of linear layers to stay as they are during a step, but they were written to. "
                "Set optimizer.low_rank = False."
            )

    def saw(self, inputs: Tensor) -> bool:
        """Say whether this call had the very same inputs."""
        return (
            not inputs.requires_grad
            and inputs.data_ptr() == self.inputs.data_ptr()
            and inputs.shape == self.inputs.shape
            and inputs.stride() == self.inputs.stride()
        )


@dataclass
class Layer:
    """A linear layer, and what one step knows of it."""

    module: nn.Linear
    calls: list[Call] = field(default_factory=list)
    a: Tensor | None = None
    delta: Tensor | None = None
    gram: Tensor | None = None
    square: float = 0.0  # of the norm of the gradient
    scale: float = 0.0
    found: Tensor | None = None  # gradients of the perturbed outputs, where the inputs were those of the clean pass
    found_square: Tensor | None = None  # as ``square``, of the gradient that comes from them
    is_over: bool = False  # the clean pass
    recorded: list[bool] = field(default_factory=list)  # backward passes through it, to be differentiated again

    def forward(self, x: Tensor) -> Tensor:
        """Be the layer in both passes."""
        return self.perturbed(x) if self.is_over else self.listen(x)

    def listen(self, x: Tensor) -> Tensor:
        """Be the layer in the clean pass, remembering inputs and the gradients of outputs."""
        weight, bias = self.module.weight, self.module.bias
        fan_out, fan_in = weight.shape
        pays = x.numel() // fan_in * (fan_in + fan_out) < fan_in * fan_out
        converts = torch.is_autocast_enabled(x.device.type) or x.dtype != weight.dtype
        is_learned = weight.requires_grad and torch.is_grad_enabled()
        if x.ndim < 2 or not pays or converts or not is_learned:
            return F.linear(x, weight, bias)
        product = F.linear(x, weight.detach())
        if not product.requires_grad:  # then it is a leaf of its own
            self.calls.append(Call(x.detach(), product, product.requires_grad_()))
            return _biased(product, bias)
        product.register_hook(partial(_notice, self.recorded))  # not a method: the product would keep its layer alive
        self.calls.append(Call(x.detach(), product, torch.zeros_like(product, requires_grad=True)))
        outputs = product + self.calls[-1].leaf
        return outputs if bias is None else outputs + bias

    def gather(self) -> bool:
        """Put the calls together after the clean pass.

        Returns:
            Whether the gradient is known as two factors; if not, it is to be handled as any other.

        Raises:
            InputError: If the closure has differentiated a derivative: its gradient is not made of those factors.
        """
        if any(self.recorded):
            raise InputError(
                "Expected a loss that is differentiated once, but the closure differentiates through a linear layer "
                "with create_graph=True. Set optimizer.low_rank = False."
            )
        self.is_over = True
        self.calls = heard = [call for call in self.calls if call.leaf.grad is not None]
        if not heard:
            return False
        a = [_rows(call.inputs) for call in heard]
        deltas = [_rows(grad) for call in heard if (grad := call.leaf.grad) is not None]
        self.a = torch.cat(a) if len(a) > 1 else a[0]
        self.delta = torch.cat(deltas) if len(deltas) > 1 else deltas[0]
        if self.module.weight.grad is not None:  # it was used in some other way as well
            self.module.weight.grad.addmm_(self.delta.mT, self.a)
            return False
        self.gram = self.a @ self.a.mT
        self.square = _square(self.gram, self.delta).item()
        return True

    def perturbed(self, x: Tensor) -> Tensor:
        """Be the layer with its weights moved by s·δᵀa."""
        weight, bias = self.module.weight, self.module.bias
        if self.a is None or self.delta is None or self.gram is None:
            return F.linear(x, weight, bias)
        for call in self.calls:
            call.check()
        if len(self.calls) == 1 and self.calls[0].saw(x):
            known = self.calls[0].product.detach()
            product = torch.addmm(_rows(known), self.gram, self.delta, alpha=self.scale).view(known.shape)
            product.requires_grad_().register_post_accumulate_grad_hook(self._find)
            return _biased(product, bias)
        plain = F.linear(x, weight, bias)
        if x.ndim == 2:
            return torch.addmm(plain, x @ self.a.mT, self.delta, alpha=self.scale)
        return plain.add((x @ self.a.mT) @ self.delta, alpha=self.scale)

    def _find(self, product: Tensor) -> None:
        """Make a reused product's gradient that of the weight, during the backward pass: closures may look at it."""
        delta, weight = product.grad, self.module.weight
        if delta is None or self.a is None or self.gram is None:
            return
        product.grad = None  # a closure may differentiate once more
        rows = _rows(delta)
        self.found = rows if self.found is None else self.found + rows
        self.found_square = _square(self.gram, self.found)  # before a product that drives small things from the caches
        grad = rows.mT @ self.a
        weight.grad = grad if weight.grad is None else weight.grad + grad


def _notice(recorded: list[bool], _: Tensor) -> None:
    """Note whether a backward pass is recorded: then the weight has a part in it that listening misses."""
    recorded.append(torch.is_grad_enabled())


def _biased(product: Tensor, bias: Tensor | None) -> Tensor:
    """Give a product's outputs, a tensor of their own: activations may write to it."""
    return product.clone() if bias is None else product + bias


def _square(gram: Tensor, delta: Tensor) -> Tensor:
    return torch.dot(gram.view(-1), (delta @ delta.mT).view(-1))


def _rows(tensor: Tensor) -> Tensor:
    return tensor.flatten(0, -2) if tensor.ndim > 2 else tensor


def linear_layers(model: nn.Module | None, params: Iterable[Tensor]) -> list[nn.Linear]:
    """Find the layers whose weights may be perturbed without being moved.

    Plain ``nn.Linear`` with a weight that is large enough to matter, that no other module shares and nobody listens
    to, in a model that is neither compiled nor distributed.

    Args:
        model: The network.
        params: What is optimized.

    Returns:
        The layers.
    """
    if model is None or (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return []
    modules = list(model.modules())
    if any(hasattr(module, "_orig_mod") or module._compiled_call_impl is not None for module in modules):
        return []
    optimized = {id(parameter) for parameter in params}
    uses: dict[int, int] = {}
    for module in modules:
        for parameter in module._parameters.values():
            uses[id(parameter)] = uses.get(id(parameter), 0) + 1
    return [m for m in modules if type(m) is nn.Linear and _is_plain(m, optimized, uses)]


def _is_plain(module: nn.Linear, optimized: set[int], uses: dict[int, int]) -> bool:
    weight = module.weight
    listened = weight._backward_hooks or getattr(weight, "_post_accumulate_grad_hooks", None)
    return (
        id(weight) in optimized
        and uses[id(weight)] == 1
        and weight.numel() >= LARGE
        and type(weight) is nn.Parameter
        and weight.dtype in (torch.float32, torch.float64)
        and "forward" not in module.__dict__
        and not listened
    )


@contextmanager
def acting(layers: Sequence[Layer]) -> Iterator[None]:
    """Let layers take the places of their modules for a while.

    Args:
        layers: The layers.
    """
    for layer in layers:
        layer.module.__dict__["forward"] = layer.forward  # past nn.Module's own, slower way of setting attributes
    try:
        yield
    finally:
        for layer in layers:
            del layer.module.__dict__["forward"]
