"""How strongly weights move logits: the operator norm of each example's Jacobian."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn
from torch.func import jacrev, vmap

from surefoot.curvature.objective import Weights, still, substituted
from surefoot.curvature.perceptron import backward, is_perceptron, record_layers


def jacobian_grams(model: nn.Module, inputs: Tensor, *, chunk: int = 32) -> Tensor:
    r"""Return :math:`J_i J_i^\top` of every example, exactly.

    A perceptron is done layer by layer, for about one gradient in all:
    :math:`\sum_l (\|x_i^l\|^2 + 1)\, \delta_i^l \delta_i^{l\top}`. Any other model takes one Jacobian per example; that
    costs about K gradients and ``chunk · K`` times the memory of the weights. Where that cannot be done for many
    examples at once, which is tried on the first one, it is done for one after another.

    Args:
        model: Any module; held in evaluation mode.
        inputs: Shape ``(n, *shape)``.
        chunk: Examples at a time in the general form.

    Returns:
        Shape ``(n, classes, classes)``.
    """
    if is_perceptron(model):
        return _layerwise(model, inputs)
    params = Weights(model).params
    with still(model):
        pair = model(inputs[:2])
        exact = _gram_of(pair[0], params)
        try:
            first = _vectorised(model, params, inputs[:1])[0]
            if bool((first - exact).norm() <= torch.finfo(exact.dtype).eps ** 0.5 * exact.norm()):
                return torch.cat([_vectorised(model, params, rows) for rows in inputs.split(chunk)])
        except (RuntimeError, NotImplementedError, ValueError):  # an operation that knows no batch of networks
            pass
        alone = torch.allclose(model(inputs[:1])[0], pair[0], rtol=1e-3)
        batches = inputs.split(1) if alone else [inputs]  # examples that see one another stay together
        return torch.stack([_gram_of(row, params) for rows in batches for row in model(rows)])


def _vectorised(model: nn.Module, params: list[Tensor], inputs: Tensor) -> Tensor:
    """Differentiate the logits of many examples at once, each as a batch of one."""

    def logits(values: tuple[Tensor, ...], x: Tensor) -> Tensor:
        with substituted(model, params, values):
            out: Tensor = model(x[None])
        return out[0]

    values = tuple(p.detach() for p in params)
    with warnings.catch_warnings():  # of torch, about operations that it batches in a slow way
        warnings.simplefilter("ignore", UserWarning)
        found = vmap(jacrev(logits), in_dims=(None, 0))(values, inputs)
    flat = torch.cat([j.flatten(2) for j in found], dim=2)
    return (flat @ flat.mT).detach()


def _gram_of(logits: Tensor, params: list[Tensor]) -> Tensor:
    """Differentiate one example's logits by autograd, one after the other."""
    rows = []
    for logit in logits:
        grads = torch.autograd.grad(logit, params, retain_graph=True, allow_unused=True)
        parts = zip(grads, params, strict=True)
        rows.append(torch.cat([(torch.zeros_like(p) if g is None else g).reshape(-1) for g, p in parts]))
    flat = torch.stack(rows)
    return flat @ flat.T


def _layerwise(model: nn.Module, inputs: Tensor) -> Tensor:
    logits, layers = record_layers(model, inputs)
    n, k = logits.shape
    total = torch.zeros(n, k, k, dtype=logits.dtype, device=logits.device)
    ones = torch.eye(k, dtype=logits.dtype, device=logits.device)[:, None, :].expand(k, n, k)
    for layer, carried in zip(layers, backward(layers, ones), strict=True):
        scale = torch.zeros(n, dtype=logits.dtype, device=logits.device)
        if layer.linear.weight.requires_grad:
            scale += layer.inputs.square().sum(1)
        if layer.linear.bias is not None and layer.linear.bias.requires_grad:
            scale += 1
        deltas = carried.transpose(0, 1)
        total += scale[:, None, None] * (deltas @ deltas.mT)
    return total


def jacobian_norms(model: nn.Module, inputs: Tensor, *, chunk: int = 32) -> Tensor:
    r"""Return the operator norm :math:`\|J_\theta(x_i)\|` of each example; its maximum is C_J.

    Args:
        model: Any module.
        inputs: Shape ``(n, *shape)``.
        chunk: Examples at a time where the model is no perceptron.

    Returns:
        Shape ``(n,)``.

    Example:
        >>> jacobian_norms(nn.Linear(2, 3, bias=False), torch.tensor([[3.0, 4.0]]))  # J = xᵀ ⊗ I
        tensor([5.])
    """
    top: Tensor = torch.linalg.eigvalsh(jacobian_grams(model, inputs, chunk=chunk))[:, -1]
    return top.clamp_min(0).sqrt()
