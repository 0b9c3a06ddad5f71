"""CSAM: SAM that damps over-confident examples at the perturbed point."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim._cadence import Every
from surefoot.optim._composed import RHO
from surefoot.optim._facts import LOG_HALF
from surefoot.optim._rules import Ascent, Outer
from surefoot.optim._sharpness import Common, SharpnessAware
from surefoot.optim._wrapper import Wrapper
from surefoot.registry import OPTIMIZERS
from surefoot.schema import LossTerms


class Damped(Outer):
    """Damp the examples whose true class has more than half of the probability.

    Args:
        gamma: Strength γ of the damping; 0 leaves the loss as it is.

    Raises:
        InputError: If gamma is negative.
    """

    needs_per_example = True
    damps = True

    def __init__(self, gamma: float = 1.0) -> None:
        if not gamma >= 0:
            raise InputError(f"Expected gamma ≥ 0, but got {gamma:g}. Try gamma=1.")
        super().__init__()
        self.gamma = gamma

    def __call__(self, terms: LossTerms, surprise: Tensor | None) -> Tensor:
        """Return one loss per example."""
        if self.gamma == 0:
            return terms.per_example
        if surprise is None:
            raise InputError(
                "Expected to know p_y of each example, but got losses that are not torch's cross-entropy as it is: "
                "class weights, label smoothing, a sum over tokens, or another loss. Return LossTerms(losses, "
                'log_py=-cross_entropy(logits, labels, reduction="none")), from surefoot.'
            )
        return damp(terms.per_example, surprise, self.gamma)


class CSAM(SharpnessAware):
    r"""Calibrated SAM: climbs like SAM on the plain loss, then descends on

    .. math:: \tilde ℓ = -\log p̃_y  \text{ if } p̃_y ≤ 1/2,  \text{ else } -(1 + p̃_y)^{-γ} \log p̃_y

    with p̃_y the probability of the true class at the perturbed weights. The weight is part of the loss and is
    differentiated with it. With another loss ℓ than cross-entropy, the same weight multiplies ℓ.

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Radius ρ of the climb. A small radius goes with a larger gamma.
        gamma: Strength γ of the damping, in [0, 2] in the paper; 0 is SAM exactly.
        ascent: Where to climb: a rule, or the name of the optimizer it belongs to, such as ``"asam"``.
        every: Climb at every k-th step only; the others minimise the damped loss where they are.
        m: Let parts of m examples climb each on their own (m-sharpness); see :class:`~surefoot.optim.Parts`.
        **common: ``stable``, ``nonfinite``, ``perturbation``: see :class:`SharpnessAware`.

    Reference: Tan et al. 2025, "Towards Understanding the Calibration Benefits of Sharpness-Aware Minimization",
    Algorithm 1 and Equation 4.
    """  # noqa: D415 - the sentence goes on after the formula

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = RHO,
        gamma: float = 1.0,
        ascent: Ascent | str = "sam",
        every: int = 1,
        m: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        outer = Damped(gamma)
        super().__init__(base, model, rho=rho, ascent=ascent, outer=outer, cadence=Every(every), m=m, **common)


def damp(loss: Tensor, surprise: Tensor, gamma: float) -> Tensor:
    """Multiply a loss by (1 + p_y)^−γ where p_y > 1/2.

    Args:
        loss: One loss per example.
        surprise: −log p_y of each example: the very same tensor, if that is the loss.
        gamma: Strength of the damping.

    Returns:
        One loss per example.

    Example:
        >>> loss = -torch.tensor([0.4, 0.5, 0.8, 0.99], dtype=torch.float64).log()
        >>> [round(value, 6) for value in damp(loss, loss, 1.0).tolist()]
        [0.916291, 0.693147, 0.123969, 0.00505]
    """
    # 1/(1 + p) is the sigmoid of −log p, and ℓ·sigmoid(ℓ) a function of its own: one node to differentiate, not six.
    damped = F.silu(loss) if surprise is loss and gamma == 1 else surprise.sigmoid() ** gamma * loss
    return torch.where(surprise < -LOG_HALF, damped, loss)


@OPTIMIZERS.register("csam", passes=2, wraps=True, reference="Tan et al. 2025, Algorithm 1")
def csam(
    base: Optimizer,
    model: nn.Module,
    *,
    rho: float = RHO,
    gamma: float = 1.0,
    ascent: str = "sam",
    every: int = 1,
    m: int | None = None,
    stable: bool = False,
) -> Wrapper:
    """SAM that damps examples it is already sure of, by (1 + p_y)^-gamma, at the perturbed point."""
    return CSAM(base, model, rho=rho, gamma=gamma, ascent=ascent, every=every, m=m, stable=stable)
