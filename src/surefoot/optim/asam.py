"""ASAM: climb further along weights that are large."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim.rules import TINY, Ascent, CleanGradient, Nonfinite, Perturbation, ascent_rule, total_norm
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.registry import OPTIMIZERS


@ascent_rule("asam")
class Adaptive(Ascent):
    """ε = ρ·T²g/‖Tg‖ with T = |w| + η for weights and T = 1 for everything else.

    Args:
        eta: η, keeps zero weights moving.

    Raises:
        InputError: If eta is negative.
    """

    def __init__(self, eta: float = 0.01) -> None:
        if not eta >= 0:
            raise InputError(f"Expected eta ≥ 0, but got {eta:g}. Try eta=0.01.")
        super().__init__()
        self.eta = eta

    def climb(self, clean: CleanGradient, places: list[Tensor]) -> float | None:
        """Write w + ε, with the places themselves as the only scratch paper."""
        self._fill(clean, places, power=1)
        norm = total_norm(places)
        self._fill(clean, places, power=2)
        for weight, place, rho in zip(clean.params, places, clean.rhos, strict=True):
            place.mul_(rho / (norm + TINY)).add_(weight)
        return None

    def _fill(self, clean: CleanGradient, places: list[Tensor], power: int) -> None:
        """Write T^power · g."""
        for weight, grad, place, name in zip(clean.params, clean.grads, places, clean.names, strict=True):
            if name and "weight" not in name:
                place.copy_(grad)
            else:
                torch.abs(weight, out=place).add_(self.eta)
                if power == 2:
                    place.square_()
                place.mul_(grad)


@OPTIMIZERS.register("asam", passes=2, wraps=True, reference="Kwon et al. 2021, arXiv:2102.11600")
class ASAM(SharpnessAware):
    """SAM that climbs further along large weights, so that rescaling layers changes nothing.

    Adaptive SAM, which does not change when layers are rescaled against each other.

    .. math:: ε = ρ T² g / ‖T g‖

    T is |w| + η for parameters with ``weight`` in their name (BatchNorm gains are among them) and 1 for all
    others, as in the authors' code; without a model there are no names, and every parameter counts as a weight.

    Args:
        base: Makes the step.
        model: Names the parameters, holds the BatchNorm layers.
        rho: Radius ρ, about ten times SAM's.
        eta: η.
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

    Example:
        >>> import torch
        >>> w = torch.nn.Parameter(torch.tensor([3.0]))
        >>> optimizer = ASAM(torch.optim.SGD([w], lr=0.5), rho=1.0, eta=0.0)
        >>> optimizer.step(lambda: 0.5 * w**2)  # T = 3, ε = 9 · 3 / 9 = 3
        tensor(4.5000)
        >>> w.data
        tensor([0.])

    Reference: Kwon et al. 2021, arXiv:2102.11600.
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = 0.5,
        eta: float = 0.01,
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        super().__init__(
            base, model, rho=rho, ascent=Adaptive(eta), stable=stable, nonfinite=nonfinite, perturbation=perturbation
        )
