"""Robust margins: the smallest true margin within a ball around each input."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from surefoot.errors import InputError, OptionError
from surefoot.margins.margin import true_margin
from surefoot.modes import in_eval_mode
from surefoot.structure import sequence

Norm = Literal["l2", "linf"]


def check_ball(epsilon: float, norm: str) -> None:
    """Refuse a radius or a norm that makes no ball."""
    if epsilon < 0 or not math.isfinite(epsilon) or norm not in ("l2", "linf"):
        raise OptionError(f"Expected epsilon ≥ 0 and norm l2 or linf, but got {epsilon} and {norm!r}. Try 0.1 and l2.")


def _dual_norm(gradient: Tensor, norm: Norm) -> Tensor:
    flat = gradient.flatten(1)
    lengths: Tensor = flat.norm(dim=1) if norm == "l2" else flat.abs().sum(1)
    return lengths


def margin_gradient(model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return true margins and their gradients in the inputs, the runner-up held fixed.

    Args:
        model: In evaluation mode.
        inputs: Shape ``(n, *shape)``.
        labels: Shape ``(n,)``.

    Returns:
        Margins ``(n,)`` and gradients like ``inputs``.
    """
    x = inputs.detach().requires_grad_()
    with torch.enable_grad():
        m = true_margin(model(x), labels)
        gradient = torch.autograd.grad(m.sum(), x)[0]
    return m.detach(), gradient


def first_order_margin(
    model: nn.Module, inputs: Tensor, labels: Tensor, *, epsilon: float, norm: Norm = "l2"
) -> Tensor:
    r"""First-order estimate over all rivals: :math:`\min_j [z_y - z_j - \varepsilon \|\nabla_x (z_y - z_j)\|_*]`.

    Neither an upper nor a lower bound, except for a linear model, where it is the robust margin itself.

    Args:
        model: Any module.
        inputs: Shape ``(n, *shape)``.
        labels: Shape ``(n,)``.
        epsilon: Radius.
        norm: Of the ball; the dual norm is taken of the gradient (l1 for linf).

    Returns:
        Shape ``(n,)``, float64.

    Example:
        >>> model = nn.Linear(1, 2, bias=False)
        >>> _ = model.load_state_dict({"weight": torch.tensor([[3.0], [1.0]])})
        >>> first_order_margin(model, torch.tensor([[1.0]]), torch.tensor([0]), epsilon=0.5)  # 2 (1 − 0.5)
        tensor([1.], dtype=torch.float64)
    """
    check_ball(epsilon, norm)
    x = inputs.detach().requires_grad_()
    with in_eval_mode(model), torch.enable_grad():
        z = model(x).double()
        own = z.gather(1, labels[:, None])[:, 0]
        best = torch.full((len(x),), torch.inf, dtype=torch.float64, device=z.device)
        for j in range(z.shape[1]):
            lead = own - z[:, j]
            gradient = torch.autograd.grad(lead.sum(), x, retain_graph=True)[0]
            value = lead.detach() - epsilon * _dual_norm(gradient.double(), norm)
            best = torch.where(labels == j, best, torch.minimum(best, value))
    return best


def attacked_margin(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    *,
    epsilon: float,
    norm: Norm = "l2",
    n_steps: int = 20,
) -> tuple[Tensor, Tensor]:
    r"""Upper bound on the robust margin: the smallest margin that projected gradient descent meets.

    It starts at the clean input, so it never exceeds the clean margin. The true infimum may be smaller: this is an
    attack, not a certificate.

    Args:
        model: Any module.
        inputs: Shape ``(n, *shape)``.
        labels: Shape ``(n,)``.
        epsilon: Radius; no clamping to a pixel range.
        norm: Of the ball.
        n_steps: Steps of size 2.5 ε / n_steps, the last ones smaller.

    Returns:
        Margins ``(n,)`` in float64, and the inputs where they were met.
    """
    check_ball(epsilon, norm)
    x = inputs.detach().clone()
    shape = (-1, *[1] * (x.ndim - 1))
    with in_eval_mode(model):
        best, gradient = margin_gradient(model, x, labels)
        best_x = x.clone()
        for step in range(n_steps if epsilon > 0 else 0):
            size = 2.5 * epsilon / n_steps * (1 - step / (2 * n_steps))
            if norm == "l2":
                length = gradient.flatten(1).norm(dim=1).clamp_min(torch.finfo(x.dtype).tiny).view(shape)
                x = x - size * gradient / length
            else:
                x = x - size * gradient.sign()
            x = _project(x, inputs, epsilon, norm)
            margins, gradient = margin_gradient(model, x, labels)
            better = margins < best
            best = torch.where(better, margins, best)
            best_x = torch.where(better.view(shape), x, best_x)
    return best, best_x


def _project(x: Tensor, centre: Tensor, epsilon: float, norm: Norm) -> Tensor:
    delta = x - centre
    if norm == "linf":
        return centre + delta.clamp(-epsilon, epsilon)
    length = delta.flatten(1).norm(dim=1).clamp_min(torch.finfo(x.dtype).tiny)
    moved: Tensor = centre + delta * (epsilon / length).clamp_max(1.0).view(-1, *[1] * (x.ndim - 1))
    return moved


def linear_margin(model: nn.Module, inputs: Tensor, labels: Tensor, *, epsilon: float, norm: Norm = "l2") -> Tensor:
    """Exact robust margin of a linear model: the first-order form, which is exact there.

    Args:
        model: ``nn.Linear``, or a sequence of flattening and one linear layer.
        inputs: Shape ``(n, *shape)``.
        labels: Shape ``(n,)``.
        epsilon: Radius.
        norm: Of the ball.

    Returns:
        Shape ``(n,)``, float64.

    Raises:
        InputError: If the model is not linear.
    """
    if not is_linear(model):
        raise InputError(
            f"Expected a linear model, but got {type(model).__name__}. Use attacked_margin for an upper bound or "
            "certified_margin for a lower one."
        )
    return first_order_margin(model, inputs, labels, epsilon=epsilon, norm=norm)


def is_linear(model: nn.Module) -> bool:
    """Return whether a model is one linear layer, perhaps after flattening, and nothing else comes in between."""
    parts = sequence(model)
    if parts is None:
        return False
    rest = [part for part in parts if type(part) not in (nn.Flatten, nn.Identity)]
    return len(rest) == 1 and type(rest[0]) is nn.Linear
