r"""The Hessian of a loss in the logits: the middle factor of the Gauss–Newton matrix."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from surefoot.curvature.objective import LossFunction, cross_entropy, mse, total_loss

LogitProduct = Callable[[Tensor], Tensor]


def softmax_product(probs: Tensor, v: Tensor) -> Tensor:
    r"""Multiply by :math:`H_z = \mathrm{diag}(p) - pp^\top`, row by row.

    Adding a number to a row of ``v`` changes nothing, so the likeliest class is brought to 0 first: where its
    probability is within rounding of 1, what is left would otherwise be rounding too.

    Args:
        probs: Shape ``(n, classes)``.
        v: Shape ``(n, classes)``.

    Returns:
        Shape ``(n, classes)``.

    Example:
        >>> softmax_product(torch.tensor([[0.7, 0.3]]), torch.tensor([[1.0, 0.0]]))  # 0.7 · 0.3 = 0.21
        tensor([[ 0.2100, -0.2100]])
    """
    v = v - v.gather(-1, probs.argmax(-1, keepdim=True))
    return probs * (v - (probs * v).sum(-1, keepdim=True))


def logit_gradient(loss: LossFunction, logits: Tensor, labels: Tensor, n: int) -> Tensor:
    """Return ∂L/∂z of a chunk.

    Args:
        loss: One value per example, or ``LossTerms``.
        logits: Shape ``(rows, classes)``.
        labels: Shape ``(rows,)``.
        n: Number of examples in all chunks.

    Returns:
        Shape ``(rows, classes)``.
    """
    leaf = logits.detach().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(total_loss(loss, leaf, labels, n), leaf)[0]


def logit_product(loss: LossFunction, logits: Tensor, labels: Tensor, n: int) -> LogitProduct:
    r"""Return the map :math:`v \mapsto \tfrac1n H_z v` of a chunk, ``H_z`` being block-diagonal over examples.

    Cross-entropy and the squared error have it in closed form (label smoothing has cross-entropy's); any other loss
    is differentiated twice in its logits. Losses that are not convex there (focal loss, entropy penalty) give a
    matrix that is not positive semi-definite.

    Args:
        loss: One value per example, or ``LossTerms``.
        logits: Shape ``(rows, classes)``.
        labels: Shape ``(rows,)``.
        n: Number of examples in all chunks.

    Returns:
        A function of a tensor like ``logits``.
    """
    logits = logits.detach()
    if loss is cross_entropy:
        probs = logits.softmax(-1)
        return lambda v: softmax_product(probs, v) / n
    if loss is mse:
        return lambda v: v * (2.0 / logits.shape[-1] / n)
    leaf = logits.clone().requires_grad_()
    slope = torch.autograd.grad(total_loss(loss, leaf, labels, n), leaf, create_graph=True)[0]

    def product(v: Tensor) -> Tensor:
        if not slope.requires_grad:
            return torch.zeros_like(v)
        given = torch.autograd.grad(slope, leaf, v, retain_graph=True, allow_unused=True)[0]
        return torch.zeros_like(v) if given is None else given

    return product
