"""BatchEnsemble: members that share their weights up to factors of rank one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from surefoot.ensembles._base import Ensemble, at_least_one
from surefoot.ensembles._layers import Weighted, beside, fans, replace_weighted
from surefoot.ensembles._mean import log_mean_probs
from surefoot.ensembles._objective import OfMembers, Sharing, refuse_looking_inside
from surefoot.errors import InputError, OptionError
from surefoot.losses._base import Loss
from surefoot.losses.balcal import BalCAL
from surefoot.moment import Horizon
from surefoot.registry import ENSEMBLES

Init = Literal["normal", "signs"]


class Turn:
    """Whose turn it is: one member's number per row of the batch, or None."""

    member: Tensor | None = None

    def of(self, rows: int) -> Tensor:
        """Return the members of a batch.

        Args:
            rows: Its size.

        Returns:
            One number per row.

        Raises:
            InputError: If nobody said whose turn it is, or of another batch.
        """
        if self.member is None or len(self.member) != rows:
            said = "nobody's" if self.member is None else f"that of {len(self.member)} rows"
            raise InputError(
                f"Expected to know whose turn it is for {rows} rows, but it is {said}. "
                "Call the ensemble instead of the network inside, or a loss that evaluates whole batches."
            )
        return self.member


class MemberLayer(nn.Module):
    """y = ((x∘r_m)W)∘s_m + b_m: a layer whose weights for member m are W∘(r_m s_mᵀ).

    Args:
        layer: Has the shared weights; its bias becomes one per member.
        turn: Says which member each row belongs to.
        members: M.
        lr: Learning rate of factors and biases, relative to that of the weights.
    """

    def __init__(self, layer: Weighted, turn: Turn, members: int, lr: float = 1.0) -> None:
        super().__init__()
        fan_in, fan_out = fans(layer)
        weight, bias = layer.weight, layer.bias
        self.layer, self.turn = layer, turn
        self.r = nn.Parameter(weight.new_ones(members, fan_in))
        self.s = nn.Parameter(weight.new_ones(members, fan_out))
        self.bias = None if bias is None else nn.Parameter(bias.detach().repeat(members, 1))
        layer.register_parameter("bias", None)
        self.own_rules: dict[str, Mapping[str, float]] = {
            "r": {"lr": lr, "weight_decay": 0.0},
            "s": {"lr": lr, "weight_decay": 0.0},
            "bias": {"lr": lr},
        }

    def factors(self, member: Tensor) -> tuple[Tensor, Tensor]:
        """Return r and s of each row."""
        return self.r[member], self.s[member]

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs, each row as its member computes them."""
        member = self.turn.of(len(x))
        r, s = self.factors(member)
        y: Tensor = self.layer(x * beside(r, x, self.layer))
        y = y * beside(s, y, self.layer)
        return y if self.bias is None else y + beside(self.bias[member], y, self.layer)


class SharedByMembers(nn.Module):
    """A network whose layers are shared by members; abstract.

    Args:
        members: M.
    """

    def __init__(self, members: int) -> None:
        super().__init__()
        self.n_members = at_least_one("members", members)
        self.turn = Turn()
        self.network: nn.Module

    @contextmanager
    def assigned(self, member: Tensor) -> Iterator[None]:
        """Let each row of the batches to come belong to a member.

        Args:
            member: Numbers below M, shape ``(n,)``.
        """
        before, self.turn.member = self.turn.member, member
        try:
            yield
        finally:
            self.turn.member = before

    def members(self, inputs: Tensor) -> Tensor:
        """Return the logits of all members, in one pass over the repeated batch.

        Args:
            inputs: Shape ``(n, …)``.

        Returns:
            Shape ``(M, n, classes)``. Train on the mean loss over both: ``logits.flatten(0, 1)`` goes with
            ``labels.repeat(M)``.
        """
        m, n = self.n_members, len(inputs)
        with self.assigned(torch.arange(m, device=inputs.device).repeat_interleave(n)):
            logits: Tensor = self.network(inputs.repeat(m, *[1] * (inputs.ndim - 1)))
        return logits.view(m, n, *logits.shape[1:])

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the log of the members' mean probability."""
        return log_mean_probs(self.members(inputs))


class BatchEnsembleNetwork(SharedByMembers):
    """A network as M members that share all weights but rank-one factors and biases.

    Args:
        model: Its linear layers and convolutions are replaced in place; other layers, BatchNorm among them, are
            shared by the members as they are.
        members: M.
        init: ``"normal"`` draws r and s from N(1, std²), ``"signs"`` lets them be ±1.
        std: Standard deviation of the former.
        fast_lr: Learning rate of r, s and biases relative to that of W, where our own loop makes the optimizer.
        generator: Draws r and s.

    Raises:
        OptionError: If std or fast_lr is negative.

    Example:
        >>> net = nn.Linear(2, 2, bias=False)
        >>> net.weight.data = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
        >>> both = BatchEnsembleNetwork(net, members=1)
        >>> both.network.r.data, both.network.s.data = torch.tensor([[1.0, -1.0]]), torch.tensor([[0.5, 2.0]])
        >>> both.members(torch.tensor([[1.0, 2.0]])).data
        tensor([[[-1.5000, -4.0000]]])
    """

    def __init__(
        self,
        model: nn.Module,
        members: int = 4,
        *,
        init: Init = "normal",
        std: float = 0.5,
        fast_lr: float = 0.5,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(members)
        if not (std >= 0 and fast_lr >= 0):
            raise OptionError(f"Expected std ≥ 0 and fast_lr ≥ 0, but got {std:g} and {fast_lr:g}. Leave them out.")

        def make(layer: Weighted) -> nn.Module:
            made = MemberLayer(layer, self.turn, members, fast_lr)
            for factor in (made.r, made.s):
                draw_factors(factor, init, std, generator)
            return made

        self.network = replace_weighted(model, make, "batch_ensemble")


@torch.no_grad()
def draw_factors(factor: Tensor, init: Init, std: float, generator: torch.Generator | None) -> None:
    """Fill a tensor with N(1, std²), or with +1 and −1 at even odds."""
    if init == "normal":
        factor.copy_(1 + std * torch.randn(factor.shape, generator=generator))
    else:
        factor.copy_(2.0 * torch.randint(2, factor.shape, generator=generator) - 1)


def refuse_other_heads(loss: Loss, what: str) -> None:
    """Refuse losses that need more of a network than logits, row by row.

    Args:
        loss: The method's loss.
        what: The ensemble.

    Raises:
        InputError: If the loss does.
    """
    refuse_looking_inside(loss, what)
    if isinstance(loss, BalCAL):
        raise InputError(
            f"Expected a loss that leaves the network its one head for {what}, but got balcal. "
            "Combine it with deep, snapshot, swa, mc_dropout or vi instead."
        )


@ENSEMBLES.register("batch_ensemble", reference="Wen et al. 2020, arXiv:2002.06715")
class BatchEnsemble(Ensemble):
    """Members that share their weights up to factors of rank one, trained together.

    Args:
        members: M.
        sharing: How a batch is given to the members.
        init: See :class:`BatchEnsembleNetwork`.
        std: Likewise.
        fast_lr: Likewise.
    """

    def __init__(
        self,
        *,
        members: int = 4,
        sharing: Sharing = "repeat",
        init: Init = "normal",
        std: float = 0.5,
        fast_lr: float = 0.5,
    ) -> None:
        super().__init__()
        self.n_members, self.sharing = at_least_one("members", members), sharing
        self.init, self.std, self.fast_lr = init, std, fast_lr

    def check_loss(self, loss: Loss) -> None:
        """Refuse losses with heads of their own."""
        refuse_other_heads(loss, "batch_ensemble")

    def wrap(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        """Give every layer factors for every member."""
        return BatchEnsembleNetwork(
            model, self.n_members, init=self.init, std=self.std, fast_lr=self.fast_lr, generator=generator
        )

    def objective(self, loss: Loss, model: nn.Module, horizon: Horizon) -> Loss:
        """Show the batch to all members."""
        return OfMembers(loss, self.n_members, self.sharing)
