"""How strongly weights move logits: the operator norm of each example's Jacobian."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from surefoot.curvature.chain import backward, is_chain, layers
from surefoot.curvature.objective import Weights, still


def jacobian_grams(model: nn.Module, inputs: Tensor, *, chunk: int = 32) -> Tensor:
    r"""Give :math:`J_i J_i^\top` of every example, exactly.

    A chain of linear layers is done layer by layer, for about one gradient in all:
    :math:`\sum_l (\|x_i^l\|^2 + 1)\, \delta_i^l \delta_i^{l\top}`. Any other model takes one Jacobian per example; that
    costs about K gradients and ``chunk · K`` times the memory of the weights.

    Args:
        model: Any module; held in evaluation mode.
        inputs: Shape ``(n, *shape)``.
        chunk: Examples at a time in the general form.

    Returns:
        Shape ``(n, classes, classes)``.
    """
    if is_chain(model):
        return _layerwise(model, inputs)
    weights = Weights(model)
    values = dict(zip(weights.names, [p.detach() for p in weights.params], strict=True))

    def logits(values: dict[str, Tensor], x: Tensor) -> Tensor:
        out: Tensor = functional_call(model, values, (x[None],))
        return out[0]

    grams = []
    with still(model):
        for rows in inputs.split(chunk):
            found = vmap(jacrev(logits), in_dims=(None, 0))(values, rows)
            flat = torch.cat([j.flatten(2) for j in found.values()], dim=2)
            grams.append((flat @ flat.mT).detach())
    return torch.cat(grams)


def _layerwise(model: nn.Module, inputs: Tensor) -> Tensor:
    logits, found = layers(model, inputs)
    n, k = logits.shape
    total = torch.zeros(n, k, k, dtype=logits.dtype, device=logits.device)
    ones = torch.eye(k, dtype=logits.dtype, device=logits.device)[:, None, :].expand(k, n, k)
    for layer, carried in zip(found, backward(found, ones), strict=True):
        scale = torch.zeros(n, dtype=logits.dtype, device=logits.device)
        if layer.linear.weight.requires_grad:
            scale += layer.inputs.square().sum(1)
        if layer.linear.bias is not None and layer.linear.bias.requires_grad:
            scale += 1
        deltas = carried.transpose(0, 1)
        total += scale[:, None, None] * (deltas @ deltas.mT)
    return total


def jacobian_norms(model: nn.Module, inputs: Tensor, *, chunk: int = 32) -> Tensor:
    r"""Give the operator norm :math:`\|J_\theta(x_i)\|` of each example; its maximum is C_J.

    Args:
        model: Any module.
        inputs: Shape ``(n, *shape)``.
        chunk: Examples at a time where the model is no chain of linear layers.

    Returns:
        Shape ``(n,)``.

    Example:
        >>> jacobian_norms(nn.Linear(2, 3, bias=False), torch.tensor([[3.0, 4.0]]))  # J = xᵀ ⊗ I
        tensor([5.])
    """
    top: Tensor = torch.linalg.eigvalsh(jacobian_grams(model, inputs, chunk=chunk))[:, -1]
    return top.clamp_min(0).sqrt()
