"""Climb with linear layers without moving their weights: exact, and cheap for few rows.

The gradient of a linear layer is δᵀa, with a its inputs and δ the gradients of its outputs, one row per example.
Where rows are few, SAM needs that matrix neither for its norm, ‖δᵀa‖² = Σ (aaᵀ)∘(δδᵀ), nor for the perturbed
outputs, x(W + s·δᵀa)ᵀ = xWᵀ + s·(xaᵀ)δ. So the clean pass computes no weight gradients, no weight is copied, and a
first layer, which sees the same inputs again, reuses its product.

A gradient is kept as two factors only where the optimizer itself differentiates: what a closure differentiates gives
it the gradients that it always gives. Who else uses the weight is the business of ``_watched.py``; where somebody
does, the weight moves like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F

from surefoot.errors import InputError

CALLS = 4  # of a layer in one pass: each one more costs a product with the inputs of all others

plainly = torch._C.DisableTorchFunctionSubclass  # let torch's functions take a watched weight for a tensor


@dataclass(frozen=True)
class Call:
    """One use of a layer in the clean pass that the loss depends on.

    Attributes:
        order: Its place among the layer's uses.
        inputs: x.
        product: x Wᵀ. It is seen by nobody else, so nothing writes to it.
        delta: The gradient of the product.
    """

    order: int
    inputs: Tensor
    product: Tensor
    delta: Tensor


class Layer:
    """A linear layer, and what one step knows of it.

    Attributes:
        weight: Its weight.
        keeps: Whether the optimizer itself is differentiating, so that factors may be kept in a gradient's place.
        is_used: Whether the weight was used in another way: in the clean pass, or by a compiled graph.
        scale: s.
        found_square: Squared norm of the gradient at the perturbed weights, where it comes from known factors alone.
    """

    def __init__(self, weight: nn.Parameter) -> None:
        self.weight = weight
        self.keeps = self.is_used = False
        self.scale = self.square = 0.0
        self.found_square: Tensor | None = None
        self._is_over = False  # the clean pass
        self._n_calls = 0  # in this pass
        self._calls: list[Call] = []
        self._a = self._delta = self._gram = self._mark = torch.empty(0)
        self._version = 0
        self._home: Tensor | None = None  # the weight's own values, while it is moved after all

    def __call__(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Be the layer, in both passes."""
        self._n_calls += 1
        return self._perturbed(x, bias) if self._is_over else self._listen(x, bias)

    def _listen(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Be the layer in the clean pass, ready to keep inputs and the gradients of outputs."""
        fan_out, fan_in = self.weight.shape
        pays = x.numel() // fan_in * (fan_in + fan_out) < fan_in * fan_out
        is_learned = self.weight.requires_grad and torch.is_grad_enabled()
        if not (pays and is_learned and _is_ordinary(x, self.weight)):
            return F.linear(x, self.weight, bias)
        return _biased(_listened(x, self.weight, self, self._n_calls), bias)

    def keep(self, call: Call) -> bool:
        """Take down a use of the layer, met while differentiating.

        Returns:
            Whether it was, so that its part of the gradient need not be computed.
        """
        if not self.keeps or self.is_used or len(self._calls) == CALLS:
            return False
        self._calls.append(call)
        return True

    def gather(self) -> bool:
        """Put the calls together after the clean pass.

        Returns:
            Whether the gradient is known as two factors; if not, it is in its place, to be handled as any other.
        """
        self._is_over, self._n_calls = True, 0
        if not self._calls:
            return False
        self._calls.sort(key=lambda call: call.order)
        a = [_rows(call.inputs) for call in self._calls]
        deltas = [_rows(call.delta) for call in self._calls]
        self._a = torch.cat(a) if len(a) > 1 else a[0]
        self._delta = torch.cat(deltas) if len(deltas) > 1 else deltas[0]
        with plainly():
            grad = self.weight.grad
            if grad is not None:
                grad.addmm_(self._delta.mT, self._a)
            elif self.is_used:
                self.weight.grad = self._delta.mT @ self._a
        if grad is not None or self.is_used:
            return False
        self._gram = self._a @ self._a.mT
        self.square = _square(self._gram, self._delta).item()
        self._version, self._mark = self._a._version, self._fingerprint()
        return True

    def _perturbed(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Be the layer with its weights moved by s·δᵀa."""
        if self._home is None and not _is_ordinary(x, self.weight):
            self.use()
        if self._home is not None:
            return F.linear(x, self.weight, bias)
        self._check_inputs()
        if self._saw(x):
            return _biased(_reused(x, self.weight, self), bias)
        plain = F.linear(x, self.weight.view_as(self.weight), bias)  # keeps its values if the weight is moved later
        if x.ndim == 2:
            return torch.addmm(plain, x @ self._a.mT, self._delta, alpha=self.scale)
        return plain.add((x @ self._a.mT) @ self._delta, alpha=self.scale)

    def _saw(self, x: Tensor) -> bool:
        """Return whether the clean pass had the very same inputs."""
        known = self._calls[0].inputs
        return (
            len(self._calls) == 1
            and not x.requires_grad
            and x.data_ptr() == known.data_ptr()
            and x.shape == known.shape
            and x.stride() == known.stride()
        )

    def _fingerprint(self) -> Tensor:
        """Return one number per row of a that depends on all of it: one reading, where a copy would be three."""
        return self._a @ torch.linspace(1, 2, self._a.shape[1], dtype=self._a.dtype, device=self._a.device)

    def _check_inputs(self) -> None:
        """Refuse inputs that were written to after the clean pass, whether or not torch has noticed."""
        if self._a._version != self._version or not torch.equal(self._fingerprint(), self._mark):
            raise InputError(
                "Expected the inputs of linear layers to stay as they are during a step, but they were written to. "
                "Leave low_rank at False."
            )

    def reuse(self) -> Tensor:
        """Return x (W + s·δᵀa)ᵀ for the inputs of the clean pass."""
        known = self._calls[0].product
        return torch.addmm(_rows(known), self._gram, self._delta, alpha=self.scale).view(known.shape)

    def find(self, delta: Tensor, a: Tensor) -> Tensor:
        """Return the weight's gradient from that of a reused product."""
        rows = _rows(delta)
        with plainly():
            is_all = self._n_calls == 1 and self._home is None and self.weight.grad is None
        if self.keeps and is_all:
            self.found_square = _square(self._gram, rows)  # before a product that drives small things from the caches
        return rows.mT @ a

    @torch.no_grad()
    def use(self) -> None:
        """Be ready for any other use of the weight: in the perturbed pass it moves after all."""
        if not self._is_over:
            self.is_used = True
        elif self._home is None:
            with torch.autocast(self.weight.device.type, enabled=False):
                self._check_inputs()
                self._home, self.found_square = self.weight.data, None
                self.weight.data = torch.addmm(self._home, self._delta.mT, self._a, alpha=self.scale)
            torch.clear_autocast_cache()

    def leave(self) -> None:
        """Let the weight have its own values."""
        if self._home is not None:
            self.weight.data, self._home = self._home, None
            torch.clear_autocast_cache()

    def check(self) -> None:
        """Refuse a graph that was compiled around the weight and used in the perturbed pass only: it was not moved."""
        if self.is_used:
            raise InputError(
                "Expected compiled functions to use a weight in both passes or in none, but one uses it in the "
                "perturbed pass only. Leave low_rank at False."
            )


class _Listened(torch.autograd.Function):
    """x Wᵀ, whose gradient by W is kept as two factors where the layer keeps it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, layer: Layer, order: int) -> Tensor:
        product = F.linear(x, weight)
        ctx.save_for_backward(x, weight)
        ctx.layer, ctx.order, ctx.product = layer, order, product.detach()  # itself would keep its own graph alive
        return product

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, weight = ctx.saved_tensors
        delta, by_x, by_weight = grads[0], None, None
        with plainly():
            if ctx.needs_input_grad[0]:
                by_x = (_rows(delta) @ weight).view(x.shape)
            if ctx.needs_input_grad[1]:
                call = Call(ctx.order, x.detach(), ctx.product, delta.detach().contiguous())
                by_weight = None if ctx.layer.keep(call) else _rows(delta).mT @ _rows(x)
        return by_x, by_weight, None, None


class _Reused(torch.autograd.Function):
    """x (W + s·δᵀa)ᵀ from the x Wᵀ of the clean pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, layer: Layer) -> Tensor:
        ctx.save_for_backward(x)  # so that torch sees whether it is written to
        ctx.layer = layer
        return layer.reuse()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        (x,) = ctx.saved_tensors
        return None, ctx.layer.find(grads[0], _rows(x)), None


_listened: Callable[..., Tensor] = _Listened.apply
_reused: Callable[..., Tensor] = _Reused.apply


@contextmanager
def keeping(layers: Sequence[Layer]) -> Iterator[None]:
    """Differentiate for the optimizer: layers may keep factors instead of gradients.

    Args:
        layers: The layers.
    """
    for layer in layers:
        layer.keeps = True
    try:
        yield
    finally:
        for layer in layers:
            layer.keeps = False


def _is_ordinary(x: Tensor, weight: Tensor) -> bool:
    """Return whether a linear layer of these is a product of two matrices and nothing else."""
    return (
        x.ndim >= 2
        and type(x) in (Tensor, nn.Parameter)
        and (x.dtype, x.device, x.layout) == (weight.dtype, weight.device, weight.layout)
        and not torch.is_autocast_enabled(x.device.type)
        and not torch._C._are_functorch_transforms_active()
        and forward_ad._current_level < 0
    )


def _biased(product: Tensor, bias: Tensor | None) -> Tensor:
    """Return a product's outputs, a tensor of their own: activations may write to it."""
    return product.clone() if bias is None else product + bias


def _square(gram: Tensor, delta: Tensor) -> Tensor:
    return torch.dot(gram.view(-1), (delta @ delta.mT).view(-1))


def _rows(tensor: Tensor) -> Tensor:
    return tensor.flatten(0, -2) if tensor.ndim > 2 else tensor
