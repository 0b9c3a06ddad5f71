"""Dense curvature matrices by torch.func, the slow way; imports nothing from the package."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, hessian, jacrev

with warnings.catch_warnings():  # torch's forward mode warns about torch itself when it is first used
    warnings.simplefilter("ignore", DeprecationWarning)
    hessian(torch.sin)(torch.zeros(()))


def flat_function(model: nn.Module, function: Callable[[nn.Module], Tensor]) -> tuple[Callable, Tensor]:
    """Turn a function of the model into one of its flat trainable weights."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    sizes = [p.numel() for _, p in named]

    def of_weights(theta: Tensor) -> Tensor:
        pieces = zip(named, theta.split(sizes), strict=True)
        values = {name: piece.view_as(p) for (name, p), piece in pieces}
        # a copy: functional_call does not give a module that has two names its weights back
        return function(lambda x: functional_call(copy.deepcopy(model), values, (x,)))

    return of_weights, torch.cat([p.detach().reshape(-1) for _, p in named])


def dense_hessian(model: nn.Module, x: Tensor, y: Tensor, loss: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Hessian of the mean loss."""
    of_weights, theta = flat_function(model, lambda call: loss(call(x), y).mean())
    return hessian(of_weights)(theta)


def dense_gradient(model: nn.Module, x: Tensor, y: Tensor, loss: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Gradient of the mean loss."""
    of_weights, theta = flat_function(model, lambda call: loss(call(x), y).mean())
    return jacrev(of_weights)(theta)


def difference_hessian(model: nn.Module, x: Tensor, y: Tensor, loss: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Hessian by central differences of the gradient, for networks with LayerNorm.

    torch.func's second derivatives of LayerNorm are silently wrong (torch 2.13: off by 0.067 where the Hessian of the
    tiny transformer in the tests has entries of order 0.1), also by jacrev(jacrev).
    """
    of_weights, theta = flat_function(model, lambda call: loss(call(x), y).mean())
    gradient, step = jacrev(of_weights), 1e-5
    shifts = step * torch.eye(len(theta), dtype=theta.dtype)
    return torch.stack([(gradient(theta + s) - gradient(theta - s)) / (2 * step) for s in shifts], dim=1)


def dense_jacobian(model: nn.Module, x: Tensor) -> Tensor:
    """Jacobian of the logits, shape (n, K, d)."""
    of_weights, theta = flat_function(model, lambda call: call(x))
    return jacrev(of_weights)(theta)


def dense_softmax_gauss_newton(model: nn.Module, x: Tensor) -> Tensor:
    """(1/n) Σ Jᵀ (diag p − p pᵀ) J, written out; quicker than the general one."""
    jacobian, probs = dense_jacobian(model, x), model(x).detach().softmax(1)
    middle = torch.diag_embed(probs) - probs[:, :, None] * probs[:, None, :]
    return torch.einsum("nkd,nkl,nle->de", jacobian, middle, jacobian) / len(x)


def dense_gauss_newton(model: nn.Module, x: Tensor, y: Tensor, loss: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """(1/n) Σ Jᵀ H_z J with H_z by two differentiations of the loss."""
    jacobian = dense_jacobian(model, x)
    with torch.no_grad():
        logits = model(x)
    total = torch.zeros(jacobian.shape[-1], jacobian.shape[-1], dtype=jacobian.dtype)
    for row in range(len(x)):
        middle = hessian(lambda z, i=row: loss(z[None], y[i : i + 1])[0])(logits[row])
        total += jacobian[row].T @ middle @ jacobian[row] / len(x)
    return total
