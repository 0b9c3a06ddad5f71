"""Muon for hidden matrices, AdamW or SGD for everything else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.registry import OPTIMIZERS

Kind = Literal["muon", "rest"]


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
        muon = torch.optim.Muon(matrices, lr=lr, momentum=momentum, weight_decay=weight_decay)
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
