"""Sound Lipschitz constants of margins for multi-layer perceptrons, and the certificate they give."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from surefoot.errors import InputError
from surefoot.margins.margin import true_margin
from surefoot.margins.robust import Norm, check_ball
from surefoot.modes import in_eval_mode
from surefoot.structure import sequence

# Activations whose slope is at most one; GELU and SiLU go above it (1.129 and 1.100).
SLOPES: dict[type[nn.Module], float] = {
    nn.Tanh: 1.0, nn.ReLU: 1.0, nn.Sigmoid: 0.25, nn.Softplus: 1.0, nn.LeakyReLU: 1.0, nn.ELU: 1.0,
    nn.GELU: 1.13, nn.SiLU: 1.1, nn.Identity: 1.0, nn.Dropout: 1.0, nn.Flatten: 1.0,
}  # fmt: skip


def spectral_bound(matrix: Tensor) -> float:
    """Upper bound on the largest singular value, in float64: the value from a full decomposition plus its rounding.

    Args:
        matrix: Shape ``(rows, columns)``.

    Returns:
        A number not below the true norm.
    """
    top = float(torch.linalg.matrix_norm(matrix.double(), ord=2))
    return top * (1 + 1e-12 * max(matrix.shape))


def margin_lipschitz(model: nn.Module, labels: Tensor, *, norm: Norm = "l2", n_inputs: int | None = None) -> Tensor:
    r"""Global Lipschitz constants of the true margin of a perceptron, sound on any ball.

    :math:`L_m \le \max_{j \ne y} \|w_y - w_j\|_2 \prod_l c_l \|W_l\|_2`, with the layers before the last, their
    activations' slopes c_l and the last layer's rows w. For linf balls this is times the square root of the input
    size, because :math:`\|\delta\|_2 \le \sqrt{d}\,\|\delta\|_\infty`.

    Args:
        model: A sequence of flattening, linear layers and activations with a bounded slope.
        labels: Class indices, shape ``(n,)``.
        norm: Of the ball.
        n_inputs: Input size; by default that of the first layer.

    Returns:
        One constant per label, float64.

    Raises:
        InputError: If the network is of another kind.

    Example:
        >>> model = nn.Linear(1, 2, bias=False)
        >>> _ = model.load_state_dict({"weight": torch.tensor([[3.0], [1.0]])})
        >>> margin_lipschitz(model, torch.tensor([0]))
        tensor([2.], dtype=torch.float64)
    """
    parts = sequence(model) or []
    linears = [part for part in parts if type(part) is nn.Linear]
    strange = [type(part).__name__ for part in parts if not _is_bounded(part)]
    if strange or not linears or type(parts[-1]) is not nn.Linear or not _is_flat_first(parts):
        raise InputError(
            f"Expected a plain sequence of flattening, linear layers and activations, without hooks, but got "
            f"{', '.join(strange) or type(model).__name__}. There is no certificate for this network; use "
            "attacked_margin for an upper bound."
        )
    scale = 1.0
    for part in parts[:-1]:
        scale *= spectral_bound(part.weight.detach()) if isinstance(part, nn.Linear) else SLOPES[type(part)]
    if norm == "linf":
        scale *= (n_inputs or linears[0].in_features) ** 0.5
    rows = linears[-1].weight.detach().double()
    between: Tensor = torch.linalg.vector_norm(rows[:, None, :] - rows[None, :, :], dim=-1).amax(1)
    return scale * between[labels]


def _is_bounded(part: nn.Module) -> bool:
    """Return whether a part is linear, or an activation whose slope is at most what the table says."""
    if isinstance(part, nn.LeakyReLU):
        return type(part) in SLOPES and abs(part.negative_slope) <= 1
    if isinstance(part, nn.ELU):
        return type(part) in SLOPES and abs(part.alpha) <= 1
    if isinstance(part, nn.Softplus):  # torch cuts it off at the threshold, with a jump: 2e-9 by default
        return type(part) in SLOPES and math.exp(-part.threshold) <= 1e-15 * part.beta
    return type(part) in SLOPES or type(part) is nn.Linear


def _is_flat_first(parts: list[nn.Module]) -> bool:
    """Return whether all is flattened before the first linear layer, so that this one sees the whole input."""
    first = next(i for i, part in enumerate(parts) if type(part) is nn.Linear)
    flattened = [(i, part) for i, part in enumerate(parts) if isinstance(part, nn.Flatten)]
    return all(i < first and (part.start_dim, part.end_dim) == (1, -1) for i, part in flattened)


def certified_margin(model: nn.Module, inputs: Tensor, labels: Tensor, *, epsilon: float, norm: Norm = "l2") -> Tensor:
    r"""Lower bound :math:`m - \varepsilon L_m` on the robust margin of a perceptron: a certificate.

    Args:
        model: As for :func:`margin_lipschitz`.
        inputs: Shape ``(n, *shape)``.
        labels: Shape ``(n,)``.
        epsilon: Radius.
        norm: Of the ball.

    Returns:
        Shape ``(n,)``, float64.
    """
    check_ball(epsilon, norm)
    with in_eval_mode(model), torch.no_grad():
        clean = true_margin(model(inputs), labels)
    return clean - epsilon * margin_lipschitz(model, labels, norm=norm)
