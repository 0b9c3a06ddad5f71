"""Rank-1 Bayesian network: BatchEnsemble whose factors have a posterior."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.ensembles._base import Sampled, at_least_one
from surefoot.ensembles._layers import Weighted, replace_weighted
from surefoot.ensembles._objective import OfMembers, PosteriorLayer, Sharing, WithKL
from surefoot.ensembles.batch_ensemble import (
    Init,
    MemberLayer,
    SharedByMembers,
    Turn,
    draw_factors,
    refuse_other_heads,
)
from surefoot.ensembles.flipout import check_prior, gaussian_kl, inverse_softplus
from surefoot.errors import OptionError
from surefoot.losses._base import Loss
from surefoot.moment import Horizon
from surefoot.registry import ENSEMBLES

LIMIT = 10.0  # a factor beyond it is cut off
JITTER = 0.1  # spread of the standard deviations at the start, before softplus


class RankOneLayer(MemberLayer, PosteriorLayer):
    """A member layer with r, s ~ N(μ, softplus(ϱ)²), drawn for every example and cut off at ±10.

    Args:
        layer: Has the shared weights.
        turn: Says which member each row belongs to.
        members: M.
        std: Of the posterior at the start.
        prior_std: Of the prior, whose mean is 1.
        generator: Draws the spread of ϱ.
    """

    r_rho: nn.Parameter
    s_rho: nn.Parameter

    def __init__(
        self, layer: Weighted, turn: Turn, members: int, std: float, prior_std: float, generator: torch.Generator | None
    ) -> None:
        super().__init__(layer, turn, members)
        self.prior_std = prior_std
        for name, factor in (("r_rho", self.r), ("s_rho", self.s)):
            noise = nn.init.trunc_normal_(torch.empty(factor.shape), std=JITTER, a=-0.2, b=0.2, generator=generator)
            self.register_parameter(name, nn.Parameter((inverse_softplus(std) + noise).to(factor)))
            self.own_rules[name] = {"weight_decay": 0.0}

    def factors(self, member: Tensor) -> tuple[Tensor, Tensor]:
        """Draw r and s for each row; where nothing is drawn, give their means."""
        return self._draw(self.r, self.r_rho, member), self._draw(self.s, self.s_rho, member)

    def _draw(self, mu: Tensor, rho: Tensor, member: Tensor) -> Tensor:
        factor = mu[member]
        if self.is_drawing:
            factor = factor + F.softplus(rho)[member] * torch.randn_like(factor)
        return factor.clamp(-LIMIT, LIMIT)

    def kl(self) -> Tensor:
        """Return the divergence from N(1, prior_std²), summed over members."""
        pairs = (self.r, self.r_rho), (self.s, self.s_rho)
        return torch.stack([gaussian_kl(mu - 1, F.softplus(rho), self.prior_std).sum() for mu, rho in pairs]).sum()


class Rank1Network(SharedByMembers):
    """A network as a mixture of M Gaussian posteriors over rank-one factors.

    Minimise the mean loss over :meth:`members` plus ``total_kl(model) / n_train``; predict with
    :func:`~surefoot.ensembles.sample_predict`. Without drawing, each member has its mean factors.

    Args:
        model: Its linear layers and convolutions are replaced in place.
        members: M.
        init: Of the means: ``"signs"`` lets them be ±1, ``"normal"`` draws from N(1, 0.5²).
        std: Of the posterior at the start.
        prior_std: Of the prior, whose mean is 1.
        generator: Draws the start.
    """

    def __init__(
        self,
        model: nn.Module,
        members: int = 4,
        *,
        init: Init = "signs",
        std: float | None = None,
        prior_std: float = 0.1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(members)
        std = math.sqrt(1e-3 / (1 - 1e-3)) if std is None else std
        check_prior(std, prior_std)

        def make(layer: Weighted) -> nn.Module:
            made = RankOneLayer(layer, self.turn, members, std, prior_std, generator)
            for factor in (made.r, made.s):
                draw_factors(factor, init, 0.5, generator)
            return made

        self.network = replace_weighted(model, make, "rank1")


@ENSEMBLES.register("rank1", reference="Dusenberry et al. 2020, arXiv:2005.07186")
class Rank1(Sampled):
    """BatchEnsemble with a Gaussian posterior over its factors: the rank-1 Bayesian network.

    Args:
        members: M.
        samples: Of each member, to predict with.
        sharing: How a batch is given to the members.
        init: See :class:`Rank1Network`.
        prior_std: Likewise.
        anneal: Share of the training over which the weight of the divergence grows from 0 to 1.

    Raises:
        OptionError: If anneal is no share.
    """

    def __init__(
        self,
        *,
        members: int = 4,
        samples: int = 1,
        sharing: Sharing = "repeat",
        init: Init = "signs",
        prior_std: float = 0.1,
        anneal: float = 0.8,
    ) -> None:
        super().__init__(samples)
        if not 0 <= anneal <= 1:
            raise OptionError(f"Expected anneal in [0, 1], but got {anneal:g}. Try anneal=0.8.")
        self.n_members, self.sharing = at_least_one("members", members), sharing
        self.init, self.prior_std, self.anneal = init, prior_std, anneal

    def check_loss(self, loss: Loss) -> None:
        """Refuse losses with heads of their own."""
        refuse_other_heads(loss, "rank1")

    def wrap(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        """Give every layer a posterior over factors for every member."""
        return Rank1Network(model, self.n_members, init=self.init, prior_std=self.prior_std, generator=generator)

    def objective(self, loss: Loss, model: nn.Module, horizon: Horizon) -> Loss:
        """Show the batch to all members, and add the divergence."""
        return WithKL(
            OfMembers(loss, self.n_members, self.sharing), horizon.n_train, round(self.anneal * horizon.n_steps)
        )
