"""Mean-field variational inference with Flipout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.ensembles._base import Sampled
from surefoot.ensembles._layers import Weighted, beside, fans, replace_weighted
from surefoot.ensembles._objective import LossWrapper, PosteriorLayer, WithKL, refuse_looking_inside
from surefoot.errors import OptionError
from surefoot.losses._base import Loss
from surefoot.moment import Horizon
from surefoot.registry import ENSEMBLES

PriorMean = Literal["tied", "zero"]


def inverse_softplus(value: float) -> float:
    """Return the number whose softplus is ``value``.

    Example:
        >>> round(inverse_softplus(1e-3), 6)
        -6.907255
    """
    return math.log(math.expm1(value))


def gaussian_kl(distance: Tensor, std: Tensor, prior_std: float) -> Tensor:
    r"""Return KL(N(μ, s²) ‖ N(μ₀, σ²)) = log(σ/s) + (s² + (μ − μ₀)²)/(2σ²) − ½, coordinate by coordinate.

    Args:
        distance: μ − μ₀.
        std: s.
        prior_std: σ.

    Returns:
        The same shape.

    Example:
        >>> std = torch.tensor([math.sqrt(1e-3 / 0.999)] * 2, dtype=torch.float64)
        >>> [round(value, 6) for value in gaussian_kl(torch.tensor([0.0, -2.0]), std, 0.1).tolist()]
        [0.700842, 200.700842]
    """
    return math.log(prior_std) - std.log() + (std.square() + distance.square()) / (2 * prior_std**2) - 0.5


def check_prior(std: float, prior_std: float) -> None:
    """Refuse deviations that are not positive."""
    if not (std > 0 and prior_std > 0):
        raise OptionError(f"Expected std > 0 and prior_std > 0, but got {std:g} and {prior_std:g}. Leave them out.")


class Flipout(PosteriorLayer):
    """A layer with weights N(μ, softplus(ϱ)²), drawn once per call and flipped by random signs for each example.

    .. math:: y = xμ + ((x∘R) (σ∘ε))∘S

    with R and S of ±1 per example and feature or channel: each example sees weights from the same posterior, and
    gradients of different examples are not correlated. In evaluation the layer has the weights μ.

    Args:
        layer: Has μ; its bias stays a number.
        std: Of the posterior at the start.
        prior_std: Of the prior.
        prior_mean: ``"tied"`` to the posterior's, or ``"zero"``.
    """

    def __init__(self, layer: Weighted, std: float, prior_std: float, prior_mean: PriorMean) -> None:
        super().__init__()
        self.layer = layer
        self.rho = nn.Parameter(torch.full_like(layer.weight, inverse_softplus(std)))
        self.prior_std, self.prior_mean = prior_std, prior_mean
        # The prior takes the place of weight decay.
        self.own_rules: dict[str, Mapping[str, float]] = {
            "rho": {"weight_decay": 0.0},
            "layer.weight": {"weight_decay": 0.0},
        }

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs at μ, or at what is drawn."""
        mean: Tensor = self.layer(x)
        if not self.is_drawing:
            return mean
        moved = F.softplus(self.rho) * torch.randn_like(self.rho)
        flip_in, flip_out = (beside(_signs(x, fan), x, self.layer) for fan in fans(self.layer))
        return mean + self._multiply(x * flip_in, moved) * flip_out

    def _multiply(self, x: Tensor, weight: Tensor) -> Tensor:
        if isinstance(self.layer, nn.Linear):
            return F.linear(x, weight)
        out: Tensor = self.layer._conv_forward(x, weight, None)
        return out

    def kl(self) -> Tensor:
        """Return the divergence from the prior."""
        mu = self.layer.weight
        distance = torch.zeros_like(mu) if self.prior_mean == "tied" else mu
        return gaussian_kl(distance, F.softplus(self.rho), self.prior_std).sum()


def _signs(x: Tensor, features: int) -> Tensor:
    return 2.0 * torch.randint(2, (len(x), features), device=x.device).to(x.dtype) - 1


def mean_field(
    model: nn.Module, *, std: float = 1e-3, prior_std: float = 0.1, prior_mean: PriorMean = "tied"
) -> nn.Module:
    """Give a network a Gaussian posterior over the weights of its linear layers and convolutions.

    Minimise the mean loss plus ``total_kl(model) / n_train``, and predict with
    :func:`~surefoot.ensembles.sample_predict`. Biases and BatchNorm stay as they are.

    Args:
        model: Changed in place; its weights become the means.
        std: Of the posterior at the start.
        prior_std: Of the prior.
        prior_mean: ``"tied"`` lets the prior be around the posterior's mean, ``"zero"`` around 0.

    Returns:
        The network.
    """
    check_prior(std, prior_std)
    return replace_weighted(model, lambda layer: Flipout(layer, std, prior_std, prior_mean), "vi")


class Twice(LossWrapper):
    """A loss of a network each layer of which is evaluated twice, as Flipout does."""

    @property
    def passes(self) -> float:
        """Two for each of the inner loss's."""
        return 2 * self.inner.passes


@ENSEMBLES.register("vi", reference="Blundell et al. 2015, arXiv:1505.05424; Wen et al. 2018, arXiv:1803.04386")
class MeanField(Sampled):
    """Mean-field variational inference: a Gaussian posterior over every weight, trained with Flipout.

    Args:
        samples: How many to predict with.
        std: See :func:`mean_field`.
        prior_std: Likewise.
        prior_mean: Likewise.
        anneal: Share of the training over which the weight of the divergence grows from 0 to 1.

    Raises:
        OptionError: If anneal is no share.
    """

    def __init__(
        self,
        *,
        samples: int = 5,
        std: float = 1e-3,
        prior_std: float = 0.1,
        prior_mean: PriorMean = "tied",
        anneal: float = 0.8,
    ) -> None:
        super().__init__(samples)
        if not 0 <= anneal <= 1:
            raise OptionError(f"Expected anneal in [0, 1], but got {anneal:g}. Try anneal=0.8.")
        self.std, self.prior_std, self.prior_mean, self.anneal = std, prior_std, prior_mean, anneal

    def check_loss(self, loss: Loss) -> None:
        """Refuse losses that compute with weights of the last layer."""
        refuse_looking_inside(loss, "vi")

    def wrap(self, model: nn.Module, generator: torch.Generator) -> nn.Module:
        """Give the layers a posterior."""
        return mean_field(model, std=self.std, prior_std=self.prior_std, prior_mean=self.prior_mean)

    def objective(self, loss: Loss, model: nn.Module, horizon: Horizon) -> Loss:
        """Add the divergence."""
        return WithKL(Twice(loss), horizon.n_train, round(self.anneal * horizon.n_steps))
