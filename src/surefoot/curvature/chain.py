"""Networks that are a plain chain of linear layers: what can be computed layer by layer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from surefoot.curvature.objective import Weights, still
from surefoot.errors import InputError
from surefoot.structure import sequence

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
        bend: Its second derivative, where that was asked for.
    """

    linear: nn.Linear
    inputs: Tensor
    slope: Tensor | None = None
    bend: Tensor | None = None

    def back(self, cotangent: Tensor) -> Tensor:
        """Carry ∂/∂(what follows the activation) back to the layer's own output."""
        return cotangent if self.slope is None else cotangent * self.slope


def is_chain(model: nn.Module) -> bool:
    """Return whether the model is a sequence of flattening, linear layers (each used once, untied) and activations.

    It must also run as such, see :func:`~surefoot.structure.sequence`, and have no other weights. Ask again before
    every use: hooks may have come since.

    Args:
        model: Any module.

    Returns:
        Whether :func:`layers` can take it.

    Example:
        >>> is_chain(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))), is_chain(nn.Conv2d(1, 1, 1))
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


def modules_of(model: nn.Module) -> list[nn.Module]:
    """Return the modules of a chain in the order in which they act.

    Raises:
        InputError: If the model does not run as a sequence.
    """
    modules = sequence(model)
    if modules is None:
        raise InputError(
            f"Expected a plain sequence of modules, but {type(model).__name__} has a forward of its own or hooks. "
            "Use GaussNewton or Hessian, which take any network."
        )
    return modules


def split(model: nn.Module) -> tuple[nn.Sequential, nn.Sequential]:
    """Cut a chain before its first linear layer: what comes before it, which has no weights, and the rest."""
    modules = modules_of(model)
    at = next(i for i, module in enumerate(modules) if isinstance(module, nn.Linear))
    return nn.Sequential(*modules[:at]), nn.Sequential(*modules[at:])


def entering(model: nn.Module, inputs: Tensor) -> Tensor:
    """Return what arrives at a chain's first linear layer, shape ``(n, fan_in)``."""
    before, _ = split(model)
    with still(before), torch.no_grad():
        arrived: Tensor = before(inputs)
    return arrived


def is_trained(weight: Tensor | None) -> bool:
    """Return whether there is such a weight or bias, and it is not frozen."""
    return weight is not None and weight.requires_grad


def _derivatives(module: nn.Module, hidden: Tensor, bends: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return an elementwise activation's value, slope and, where asked for, second derivative."""
    with torch.enable_grad():
        leaf = hidden.detach().requires_grad_()
        out = module(leaf.clone())  # a clone, for activations that work in place
        slope = torch.autograd.grad(out.sum(), leaf, create_graph=bends)[0]
        bend: Tensor | None = None
        if bends:
            found = torch.autograd.grad(slope.sum(), leaf, allow_unused=True)[0] if slope.requires_grad else None
            bend = torch.zeros_like(leaf) if found is None else found
    return out.detach(), slope.detach(), None if bend is None else bend.detach()


def _followed(layer: Layer, slope: Tensor, bend: Tensor | None) -> Layer:
    """Put one more activation behind a layer: (f ∘ g)′ = f′ g′ and (f ∘ g)″ = f″ g′² + f′ g″."""
    if bend is not None and layer.slope is not None:
        bend = bend * layer.slope.square() + (0 if layer.bend is None else slope * layer.bend)
    return replace(layer, slope=layer.back(slope), bend=bend)


def layers(model: nn.Module, inputs: Tensor, *, bends: bool = False) -> tuple[Tensor, list[Layer]]:
    """Run the chain forward and keep what every layer sees.

    Args:
        model: A chain.
        inputs: Shape ``(n, *shape)``.
        bends: Keep the activations' second derivatives, too.

    Returns:
        Logits ``(n, classes)``, and the layers in order.
    """
    found: list[Layer] = []
    hidden = inputs
    with still(model), torch.no_grad():
        for module in modules_of(model):
            if isinstance(module, nn.Linear):
                found.append(Layer(module, hidden))
                hidden = module(hidden)
            elif isinstance(module, nn.Flatten) or not found:
                hidden = module(hidden)
            else:
                hidden, slope, bend = _derivatives(module, hidden, bends)
                found[-1] = _followed(found[-1], slope, bend)
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


def row_gram(layer: Layer, known: Tensor | None = None) -> Tensor:
    """Return the factor of the layer's kernel that comes from its inputs, ``(n, n)``: x xᵀ (weights) + 1 (biases).

    Args:
        layer: The layer.
        known: x xᵀ if it is known already.

    Returns:
        Shape ``(n, n)``; zero where both are frozen.
    """
    x = layer.inputs
    gram = torch.zeros(len(x), len(x), dtype=x.dtype, device=x.device)
    if is_trained(layer.linear.weight):
        gram = gram + (x @ x.T if known is None else known)
    if is_trained(layer.linear.bias):
        gram = gram + 1
    return gram


def pull(model: nn.Module, found: list[Layer], cotangent: Tensor) -> Tensor:
    """Return Jᵀ cotangent as a flat vector in the order of the trainable weights.

    Args:
        model: The chain.
        found: Its layers on some data.
        cotangent: Shape ``(n, classes)``.

    Returns:
        Shape ``(d,)``.
    """
    grads = {}
    for layer, d in zip(found, backward(found, cotangent), strict=True):
        grads[id(layer.linear.weight)], grads[id(layer.linear.bias)] = d.T @ layer.inputs, d.sum(0)
    weights = Weights(model)
    return weights.flat([grads[id(p)] for p in weights.params])


def along_gradient(found: list[Layer], cotangent: Tensor) -> tuple[Tensor, Tensor, float]:
    """Differentiate the logits twice along g = Jᵀ cotangent, without forming g.

    A layer's part of g is δᵀx with its inputs x and deltas δ, so multiplying by it is multiplying by Gram matrices:
    x̃ gᵀ = (x̃ xᵀ) δ, and ‖g‖² = Σ (x xᵀ) ∘ (δ δᵀ). For few examples that is far cheaper.

    Args:
        found: The layers, with their bends.
        cotangent: Shape ``(n, classes)``.

    Returns:
        d z / dt and d² z / dt², each ``(n, classes)``, and ‖g‖².
    """
    square = 0.0
    x1 = x2 = torch.zeros_like(found[0].inputs[:, :0])  # the inputs of the first layer stay where they are
    for layer, delta in zip(found, backward(found, cotangent), strict=True):
        weight = layer.linear.weight
        gram = row_gram(layer)
        h1 = gram @ delta
        square += (delta * h1).sum().item()
        h2 = torch.zeros_like(h1)
        if layer is not found[0]:
            w = weight.detach()
            h1, h2 = h1 + x1 @ w.T, x2 @ w.T
            if weight.requires_grad:
                h2 = h2 + 2 * (x1 @ layer.inputs.T) @ delta
        x1, x2 = layer.back(h1), layer.back(h2) + (0 if layer.bend is None else layer.bend * h1.square())
    return x1, x2, square
