"""A curvature matrix in the coordinates of an adaptive optimizer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.curvature.objective import Weights
from surefoot.curvature.operator import Operator, as_operator
from surefoot.errors import InputError


class Preconditioned(Operator):
    r"""Symmetric form :math:`P^{-1/2} A P^{-1/2}` of a preconditioned matrix, with the eigenvalues of :math:`P^{-1}A`.

    Args:
        matrix: Tensor or operator A.
        diagonal: The positive diagonal of P, shape ``(d,)``.

    Example:
        >>> (Preconditioned(torch.diag(torch.tensor([1.0, 8.0])), torch.tensor([1.0, 4.0])).dense()).diagonal()
        tensor([1., 2.])
    """

    def __init__(self, matrix: Tensor | Operator, diagonal: Tensor) -> None:
        inner = as_operator(matrix)
        if diagonal.shape != inner.shape[:1] or not bool((diagonal > 0).all()):
            raise InputError(
                f"Expected a positive diagonal of shape ({inner.shape[0]},), but got shape {tuple(diagonal.shape)} "
                "or values ≤ 0. Take it from adam_diagonal()."
            )
        super().__init__(inner.shape[0], inner.dtype, inner.device)
        self._inner = inner
        self._scale = diagonal.to(inner.device, inner.dtype).rsqrt()

    def _product(self, v: Tensor) -> Tensor:
        return self._scale * (self._inner @ (self._scale * v))


def adam_diagonal(optimizer: torch.optim.Optimizer, model: nn.Module) -> Tensor:
    r"""Read the preconditioner of Adam or AdamW from its state.

    .. math:: P_t = (1 - \beta_1^t) \left( \sqrt{\nu_t / (1 - \beta_2^t)} + \epsilon \right)

    Args:
        optimizer: Adam or AdamW after at least one step.
        model: The model it trains; gives the order of the weights.

    Returns:
        Shape ``(d,)``.

    Raises:
        InputError: If a trainable weight has no second moment yet.
    """
    groups = {p: group for group in optimizer.param_groups for p in group["params"]}
    pieces = []
    for name, p in zip((weights := Weights(model)).names, weights.params, strict=True):
        state = optimizer.state.get(p, {})
        if "exp_avg_sq" not in state:
            raise InputError(
                f"Expected a second moment for {name!r}, but the optimizer has none. Pass the Adam or AdamW that "
                "trains this model, after its first step."
            )
        beta1, beta2 = groups[p]["betas"]
        t = float(state["step"])
        nu = state["exp_avg_sq"].reshape(-1) / (1 - beta2**t)
        pieces.append((1 - beta1**t) * (nu.sqrt() + groups[p]["eps"]))
    return torch.cat(pieces)
