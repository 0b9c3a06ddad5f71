"""Muon for hidden matrices, AdamW or SGD for everything else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.registry import OPTIMIZERS

Kind = Literal["muon", "rest"]
Precision = Literal["bfloat16", "float32"]


@OPTIMIZERS.register("muon", passes=1, reference="Jordan et al. 2024; torch.optim.Muon")
class Muon(Optimizer):
    """Orthogonalised momentum for hidden matrices; AdamW or SGD for head, biases, gains, convolutions.

    Two torch optimizers as one. A group says whose it is by ``group["kind"]``: ``"muon"`` or ``"rest"``. Groups added
    later are the rest's unless they say otherwise.

    Args:
        params: Parameters to be optimized.
        model: Names them, and says which are hidden matrices.
        lr: Learning rate of the hidden matrices.
        momentum: Of the hidden matrices.
        weight_decay: Of the hidden matrices.
        rest: What optimizes everything else.
        rest_lr: Its learning rate.
        rest_weight_decay: Its weight decay.
        precision: In which a hidden matrix is orthogonalised. Torch does it in bfloat16, which graphics cards are made
            for; on a processor without instructions for it float32 is many times faster, and more exact.

    Attributes:
        split: Names of the parameters each of the two has, for the record.

    Raises:
        InputError: If there are no hidden matrices, or nothing else.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        model: nn.Module,
        *,
        lr: float = 0.02,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        rest: Literal["adamw", "sgd"] = "adamw",
        rest_lr: float = 1e-3,
        rest_weight_decay: float = 0.01,
        precision: Precision = "bfloat16",
    ) -> None:
        names = hidden_matrices(model, params)
        chosen = dict(model.named_parameters())
        matrices = [chosen[name] for name in names]
        others = {name: p for name, p in chosen.items() if p.requires_grad and name not in names}
        if not matrices or not others:
            raise InputError(
                f"Expected hidden matrices and other parameters, but got {len(matrices)} and {len(others)}. "
                "Use a network with at least two linear layers, or another optimizer."
            )
        kind_of_muon = torch.optim.Muon if precision == "bfloat16" else Float32Muon
        muon = kind_of_muon(matrices, lr=lr, momentum=momentum, weight_decay=weight_decay)
        values, decay = list(others.values()), rest_weight_decay
        other: Optimizer = torch.optim.AdamW(values, lr=rest_lr, weight_decay=decay)
        if rest == "sgd":
            other = torch.optim.SGD(values, lr=rest_lr, weight_decay=decay, momentum=0.9)
        self.parts: dict[Kind, Optimizer] = {"muon": muon, "rest": other}
        self.split: dict[Kind, list[str]] = {"muon": names, "rest": list(others)}
        for kind, part in self.parts.items():
            for group in part.param_groups:
                group["kind"] = kind
        super().__init__([*muon.param_groups, *other.param_groups], {})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with the defaults of the optimizer they go to."""
        part = self.parts[param_group.setdefault("kind", "rest")]
        super().add_param_group({**part.defaults, **param_group})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # the wrapper evaluates, never this
        """Let each of the two step on its groups."""
        for kind, part in self.parts.items():
            # Linked at every step: loading a state puts new groups and a new state in place.
            part.param_groups = [group for group in self.param_groups if group["kind"] == kind]
            part.state = self.state
            if part.param_groups:
                part.step()

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle with both parts, which torch's own version would drop."""
        return {key: value for key, value in self.__dict__.items() if key != "step"}


class Float32Muon(torch.optim.Muon):
    """Torch's Muon with its defaults, but every matrix is orthogonalised as it is instead of in bfloat16."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # the wrapper evaluates, never this
        """Step against the orthogonalised Nesterov momentum."""
        for group in self.param_groups:
            for weight in (weight for weight in group["params"] if weight.grad is not None):
                state = self.state[weight]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(weight.grad)
                momentum = state["momentum_buffer"].lerp_(weight.grad, 1 - group["momentum"])
                direction = orthogonalised(
                    weight.grad.lerp(momentum, group["momentum"]), group["ns_coefficients"], group["ns_steps"]
                )
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                rows, columns = weight.shape
                weight.sub_(direction, alpha=group["lr"] * math.sqrt(max(1, rows / columns)))


def orthogonalised(matrix: Tensor, coefficients: tuple[float, float, float], steps: int) -> Tensor:
    """Bring all singular values of a matrix near 1 by Newton–Schulz iterations X ← aX + (bA + cA²)X, A = XXᵀ.

    Args:
        matrix: Of any shape but the empty one; computed in its own precision.
        coefficients: a, b and c.
        steps: How many.

    Returns:
        A matrix with the same singular vectors; one of zeros stays so.

    Example:
        >>> orthogonalised(torch.tensor([[0.0, 5.0], [0.0, 0.0]]), (1.5, -0.5, 0.0), 8)  # a rank-one matrix, scaled
        tensor([[0., 1.],
                [0., 0.]])
    """
    a, b, c = coefficients
    flat = matrix if len(matrix) <= matrix.shape[1] else matrix.T
    x: Tensor = flat / flat.norm().clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x if flat is matrix else x.T


def hidden_matrices(model: nn.Module, params: Iterable[Tensor]) -> list[str]:
    """Name the weights that Muon is for: those of all linear layers but the last, the classifier.

    Embeddings, convolutions (more than two dimensions), gains and biases are not among them. Which layer is last
    is taken from the order in which the model defines its layers.

    Args:
        model: Names the parameters.
        params: Those to be optimized.

    Returns:
        Names as in ``model.named_parameters()``.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3), nn.Linear(3, 2))
        >>> hidden_matrices(net, list(net.parameters()))
        ['0.weight', '1.weight']
    """
    linear = [id(module.weight) for module in model.modules() if isinstance(module, nn.Linear)]
    embedded = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    hidden = {id(parameter) for parameter in params} & set(linear[:-1]) - embedded - set(linear[-1:])
    return [name for name, parameter in model.named_parameters() if id(parameter) in hidden]
