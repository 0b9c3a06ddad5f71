"""CSAM: SAM that damps over-confident examples at the perturbed point."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim.facts import LOG_HALF
from surefoot.optim.rules import GAMMA, RHO, Ascent, Nonfinite, OuterLoss, Perturbation
from surefoot.optim.sharpness_aware import EveryKth, SharpnessAware
from surefoot.registry import OPTIMIZERS
from surefoot.schema import LossTerms


class Damped(OuterLoss):
    """Damp the examples whose true class has more than half of the probability.

    Args:
        gamma: Strength γ of the damping; 0 leaves the loss as it is.

    Raises:
        InputError: If gamma is negative.
    """

    needs_per_example = True
    damps = True
    memory = ("gamma",)  # as a radius is: what was turned while training goes on where it was

    def __init__(self, gamma: float = GAMMA) -> None:
        if not gamma >= 0:
            raise InputError(f"Expected gamma ≥ 0, but got {gamma:g}. Try gamma=1.")
        super().__init__()
        self.gamma = gamma

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take γ over; a state of before it was kept leaves it as it is."""
        super().load_state_dict({"gamma": self.gamma, **state})

    def __call__(self, terms: LossTerms, nll: Tensor | None) -> Tensor:
        """Return one loss per example."""
        if self.gamma == 0:
            return terms.per_example
        if nll is None:
            raise InputError(
                "Expected to know p_y of each example, but got losses that are not torch's cross-entropy as it is: "
                "class weights, label smoothing, a sum over tokens, or another loss. Return LossTerms(losses, "
                'log_py=-cross_entropy(logits, labels, reduction="none")), from surefoot.'
            )
        return damp(terms.per_example, nll, self.gamma)


@OPTIMIZERS.register("csam", passes=2, wraps=True, reference="Tan et al. 2025, Algorithm 1")
class CSAM(SharpnessAware):
    r"""SAM that damps examples it is already sure of, by (1 + p_y)^-gamma, at the perturbed point.

    Calibrated SAM: climbs like SAM on the plain loss, then descends on

    .. math:: \tilde ℓ = -\log p̃_y  \text{ if } p̃_y ≤ 1/2,  \text{ else } -(1 + p̃_y)^{-γ} \log p̃_y

    with p̃_y the probability of the true class at the perturbed weights. The weight is part of the loss and is
    differentiated with it. With another loss ℓ than cross-entropy, the same weight multiplies ℓ.

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Radius ρ of the climb. A small radius goes with a larger gamma.
        gamma: Strength γ of the damping, in [0, 2] in the paper; 0 is SAM exactly.
        ascent: Where to climb: a rule, or the name of the optimizer it belongs to, such as ``"asam"``.
        every: Climb at every k-th step only; the others minimise the damped loss where they are. 0 never climbs: the
            damped loss alone, at the cost of the base.
        m: Let parts of m examples climb each on their own (m-sharpness); see :class:`~surefoot.optim.Parts`.
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

    Reference: Tan et al. 2025, "Towards Understanding the Calibration Benefits of Sharpness-Aware Minimization",
    Algorithm 1 and Equation 4.
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = RHO,
        gamma: float = GAMMA,
        ascent: Ascent | str = "sam",
        every: int = 1,
        m: int | None = None,
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        outer = Damped(gamma)
        super().__init__(
            base,
            model,
            rho=rho,
            ascent=ascent,
            outer=outer,
            cadence=EveryKth(every),
            m=m,
            stable=stable,
            nonfinite=nonfinite,
            perturbation=perturbation,
        )


def damp(loss: Tensor, nll: Tensor, gamma: float) -> Tensor:
    """Multiply a loss by (1 + p_y)^−γ where p_y > 1/2.

    Args:
        loss: One loss per example.
        nll: −log p_y of each example: the very same tensor, if that is the loss.
        gamma: Strength of the damping.

    Returns:
        One loss per example.

    Example:
        >>> loss = -torch.tensor([0.4, 0.5, 0.8, 0.99], dtype=torch.float64).log()
        >>> [round(value, 6) for value in damp(loss, loss, 1.0).tolist()]
        [0.916291, 0.693147, 0.123969, 0.00505]
    """
    # 1/(1 + p) is the sigmoid of −log p, and ℓ·sigmoid(ℓ) a function of its own: one node to differentiate, not six.
    damped = F.silu(loss) if nll is loss and gamma == 1 else nll.sigmoid() ** gamma * loss
    return torch.where(nll < -LOG_HALF, damped, loss)
