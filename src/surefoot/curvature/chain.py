"""Networks that are a plain chain of linear layers: what can be computed layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from surefoot.curvature.objective import Weights, still

ELEMENTWISE = (
    nn.Tanh, nn.ReLU, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.Identity, nn.Dropout,
)  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A linear layer with what one data set makes of it.

    Attributes:
        linear: The layer.
        inputs: What goes in, shape ``(n, fan_in)``.
        slope: Derivative of the activation behind it, shape ``(n, fan_out)``; None where there is none.
    """

    linear: nn.Linear
    inputs: Tensor
    slope: Tensor | None

    def back(self, cotangent: Tensor) -> Tensor:
        """Carry ∂/∂(what follows the activation) back to the layer's own output."""
        return cotangent if self.slope is None else cotangent * self.slope


def _modules(model: nn.Module) -> Iterator[nn.Module]:
    if isinstance(model, nn.Sequential):
        for child in model:
            yield from _modules(child)
    else:
        yield model


def is_chain(model: nn.Module) -> bool:
    """Say whether the model is a sequence of flattening, linear layers (each used once, untied) and activations.

    Args:
        model: Any module.

    Returns:
        Whether :func:`layers` can take it.

    Example:
        >>> is_chain(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))), is_chain(nn.Conv2d(1, 1, 1))
        (True, False)
    """
    modules = list(_modules(model))
    linears = [m for m in modules if isinstance(m, nn.Linear)]
    own = [p for linear in linears for p in linear.parameters()]
    flat_first = all(not isinstance(m, nn.Flatten) or (i == 0 and m.start_dim == 1) for i, m in enumerate(modules))
    known = all(type(m) in (*ELEMENTWISE, nn.Linear, nn.Flatten) for m in modules)
    hooked = any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    return (
        bool(linears)
        and isinstance(modules[-1], nn.Linear)
        and known
        and flat_first
        and not hooked
        and len(own) == len({id(p) for p in own})
    )


def layers(model: nn.Module, inputs: Tensor) -> tuple[Tensor, list[Layer]]:
    """Run the chain forward and keep what every layer sees.

    Args:
        model: A chain.
        inputs: Shape ``(n, *shape)``.

    Returns:
        Logits ``(n, classes)``, and the layers in order.
    """
    found: list[Layer] = []
    hidden = inputs
    with still(model), torch.no_grad():
        for module in _modules(model):
            if isinstance(module, nn.Linear):
                found.append(Layer(module, hidden, None))
                hidden = module(hidden)
            elif isinstance(module, nn.Flatten) or not found:
                hidden = module(hidden)
            else:
                with torch.enable_grad():
                    leaf = hidden.detach().requires_grad_()
                    out = module(leaf)
                    slope = torch.autograd.grad(out.sum(), leaf)[0]
                hidden = out.detach()
                found[-1] = replace(found[-1], slope=found[-1].back(slope))
    return hidden, found


def backward(found: list[Layer], cotangent: Tensor) -> list[Tensor]:
    """Carry logit cotangents back to the output of every layer.

    Args:
        found: The layers.
        cotangent: Shape ``(…, n, classes)``.

    Returns:
        One tensor ``(…, n, fan_out)`` per layer, in order.
    """
    carried = [found[-1].back(cotangent)]
    for layer, after in zip(found[-2::-1], found[:0:-1], strict=True):
        carried.append(layer.back(carried[-1] @ after.linear.weight.detach()))
    return carried[::-1]


def forward(found: list[Layer], moves: list[Tensor]) -> Tensor:
    """Carry changes of every layer's output forward to the logits.

    Args:
        found: The layers.
        moves: One tensor ``(n, fan_out)`` per layer.

    Returns:
        The change of the logits, shape ``(n, classes)``.
    """
    tangent = moves[0]
    for before, layer, move in zip(found, found[1:], moves[1:], strict=False):
        tangent = before.back(tangent) @ layer.linear.weight.detach().T + move
    return found[-1].back(tangent)


def row_gram(layer: Layer, entering: Tensor | None = None) -> Tensor:
    """Give the factor of the layer's kernel that comes from its inputs, ``(n, n)``: x xᵀ (weights) + 1 (biases).

    Args:
        layer: The layer.
        entering: x xᵀ if it is known already.

    Returns:
        Shape ``(n, n)``; zero where both are frozen.
    """
    x = layer.inputs
    gram = torch.zeros(len(x), len(x), dtype=x.dtype, device=x.device)
    if layer.linear.weight.requires_grad:
        gram = gram + (x @ x.T if entering is None else entering)
    if layer.linear.bias is not None and layer.linear.bias.requires_grad:
        gram = gram + 1
    return gram


def pull(model: nn.Module, found: list[Layer], cotangent: Tensor) -> Tensor:
    """Give Jᵀ cotangent as a flat vector in the order of the trainable weights.

    Args:
        model: The chain.
        found: Its layers on some data.
        cotangent: Shape ``(n, classes)``.

    Returns:
        Shape ``(d,)``.
    """
    grads: dict[int, Tensor] = {}
    for layer, d in zip(found, backward(found, cotangent), strict=True):
        grads[id(layer.linear.weight)] = d.T @ layer.inputs
        if layer.linear.bias is not None:
            grads[id(layer.linear.bias)] = d.sum(0)
    weights = Weights(model)
    return weights.flat([grads[id(p)] for p in weights.params])
