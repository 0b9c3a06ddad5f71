"""Perceptrons, plain sequences of linear layers and activations, differentiated layer by layer without autograd.

The trackers' curvature of the default network is made of this: for one of few examples it costs far less than products
that record the network (``benchmarks/curvature.py --parts layerwise``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from surefoot.curvature.objective import still
from surefoot.errors import InputError
from surefoot.structure import sequence

ELEMENTWISE = (
    nn.Tanh, nn.ReLU, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.Identity, nn.Dropout,
)  # fmt: skip


@dataclass(frozen=True)
class LayerRecord:
    """A linear layer with what one data set makes of it.

    Attributes:
        linear: The layer.
        inputs: What goes in, shape ``(n, fan_in)``.
        slope: Derivative of the activation behind it, shape ``(n, fan_out)``; None where there is none.
    """

    linear: nn.Linear
    inputs: Tensor
    slope: Tensor | None = None

    def back(self, cotangent: Tensor) -> Tensor:
        """Carry ∂/∂(what follows the activation) back to the layer's own output."""
        return cotangent if self.slope is None else cotangent * self.slope

    def gram(self, others: Tensor | None = None) -> Tensor:
        """Return the factor of the layer's kernel that comes from its inputs: x′ xᵀ (weights) + 1 (biases).

        Args:
            others: The inputs x′ of other examples, shape ``(m, fan_in)``; by default its own.

        Returns:
            Shape ``(m, n)``; zero where weights and biases are frozen.
        """
        x = self.inputs if others is None else others
        gram = torch.zeros(len(x), len(self.inputs), dtype=x.dtype, device=x.device)
        if self.linear.weight.requires_grad:
            gram = gram + x @ self.inputs.T
        if self.linear.bias is not None and self.linear.bias.requires_grad:
            gram = gram + 1
        return gram


def is_perceptron(model: nn.Module) -> bool:
    """Return whether the model is a sequence of flattening, linear layers (each used once, untied) and activations.

    It must also run as such, see :func:`~surefoot.structure.sequence`, and have no other weights. Ask again before
    every use: hooks may have come since.

    Args:
        model: Any module.

    Returns:
        Whether :func:`record_layers` can take it.

    Example:
        >>> is_perceptron(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))), is_perceptron(nn.Conv2d(1, 1, 1))
        (True, False)
    """
    modules = sequence(model)
    if modules is None or any(type(m) not in (*ELEMENTWISE, nn.Linear, nn.Flatten) for m in modules):
        return False
    linears = [m for m in modules if isinstance(m, nn.Linear)]
    used = [p for linear in linears for p in (linear.weight, linear.bias) if p is not None]
    flat_first = all(
        not isinstance(m, nn.Flatten) or (i == 0 and (m.start_dim, m.end_dim) == (1, -1)) for i, m in enumerate(modules)
    )
    return (
        bool(linears)
        and isinstance(modules[-1], nn.Linear)
        and flat_first
        and [id(p) for p in used] == [id(p) for p in model.parameters()]
        and all(type(p) is nn.Parameter for p in used)
    )


def record_layers(model: nn.Module, inputs: Tensor) -> tuple[Tensor, list[LayerRecord]]:
    """Run a perceptron forward and keep what every layer sees.

    Args:
        model: A perceptron.
        inputs: Shape ``(n, *shape)``.

    Returns:
        Logits ``(n, classes)``, and the layers in order.

    Raises:
        InputError: If the model does not run as a sequence.
    """
    modules = sequence(model)
    if modules is None:
        raise InputError(
            f"Expected a plain sequence of modules, but {type(model).__name__} has a forward of its own or hooks. "
            "Use GaussNewton or Hessian, which take any network."
        )
    layers: list[LayerRecord] = []
    hidden = inputs
    with still(model), torch.no_grad():
        for module in modules:
            if isinstance(module, nn.Linear):
                layers.append(LayerRecord(module, hidden))
                hidden = module(hidden)
            elif isinstance(module, nn.Flatten) or not layers:
                hidden = module(hidden)
            else:
                hidden, slope = _value_and_slope(module, hidden)
                layers[-1] = replace(layers[-1], slope=layers[-1].back(slope))
    return hidden, layers


def _value_and_slope(module: nn.Module, hidden: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        leaf = hidden.detach().requires_grad_()
        out = module(leaf.clone())  # a clone, for activations that work in place
        slope = torch.autograd.grad(out.sum(), leaf)[0]
    return out.detach(), slope


def backward(layers: list[LayerRecord], cotangent: Tensor) -> list[Tensor]:
    """Carry logit cotangents back to the output of every layer.

    Args:
        layers: The layers.
        cotangent: Shape ``(…, n, classes)``.

    Returns:
        One tensor ``(…, n, fan_out)`` per layer, in order.
    """
    carried = [layers[-1].back(cotangent)]
    for layer, after in zip(layers[-2::-1], layers[:0:-1], strict=True):
        carried.append(layer.back(carried[-1] @ after.linear.weight.detach()))
    return carried[::-1]


def forward(layers: list[LayerRecord], changes: list[Tensor]) -> Tensor:
    """Carry changes of every layer's output forward to the logits.

    Args:
        layers: The layers.
        changes: One tensor ``(n, fan_out)`` per layer.

    Returns:
        The change of the logits, shape ``(n, classes)``.
    """
    tangent = changes[0]
    for before, layer, change in zip(layers, layers[1:], changes[1:], strict=False):
        tangent = before.back(tangent) @ layer.linear.weight.detach().T + change
    return layers[-1].back(tangent)
