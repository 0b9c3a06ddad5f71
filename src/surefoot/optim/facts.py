"""What a step saw, for whoever asks: sums are made when a fact is read, not before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

LOG_HALF = -math.log(2)  # comparing logarithms with it avoids the rounding of exp at p = 1/2


@dataclass(frozen=True)
class StepFacts:
    """What the last step saw, without any extra pass; what a method does not have is None.

    Attributes:
        loss: Loss before the step, as differentiated in the clean pass.
        passes: Gradients taken, in units of the whole batch.
        perturbed_loss: Loss at the perturbed weights, as differentiated there (CSAM: after damping).
        grad_norm: ‖g‖, of the clean gradient.
        perturbed_grad_norm: Norm of the gradient taken at the perturbed weights.
        eps_norm: ‖ε‖, the length of the climb. Ascent rules for which it costs a read of all weights measure it
            only while ``optimizer.detail`` is True.
        climbed: Whether there was a perturbed pass; methods that save passes do not always make one.
        skipped: Whether the step was left out because something was not finite.
    """

    loss: float
    passes: float
    perturbed_loss: float | None = None
    grad_norm: float | None = None
    perturbed_grad_norm: float | None = None
    eps_norm: float | None = None
    climbed: bool = False
    skipped: bool = False
    damps: bool = field(default=False, repr=False)
    clean: Sequence[Tensor | None] = field(default=(), repr=False)  # −log p_y of each batch; None where it is not known
    perturbed: Sequence[Tensor | None] = field(default=(), repr=False)

    @cached_property
    def p_y(self) -> float | None:
        """Mean probability of the true class at the weights before the step."""
        return _mean(self.clean, _probability)

    @cached_property
    def perturbed_p_y(self) -> float | None:
        """Mean probability p̃_y of the true class at the perturbed weights."""
        return _mean(self.perturbed, _probability)

    @cached_property
    def damped(self) -> float | None:
        """Share of examples with p̃_y > 1/2, which CSAM's outer loss damps."""
        return _mean(self.perturbed, lambda nll: (-nll > LOG_HALF).float()) if self.damps else None

    @cached_property
    def lam(self) -> float | None:
        """λ = (1 − p̃_y)/(1 − p_y) with geometric means over the batch: Tan et al. 2025, Theorem 2."""
        clean, perturbed = self._geometric
        if clean is None or perturbed is None:
            return None
        return _ratio(1 - perturbed, 1 - clean)

    @cached_property
    def lam0(self) -> float | None:
        """λ0 = (1 − p̃_y)/(1 − e^{ρ‖g‖/2} p̃_y), its lower bound in Equation 2, with ρ the length of the climb.

        The bound holds where the loss is not too concave along the climb; it is infinite or negative where
        e^{ρ‖g‖/2} p̃_y ≥ 1, which that condition excludes.
        """
        perturbed = self._geometric[1]
        if perturbed is None or self.eps_norm is None or self.grad_norm is None:
            return None
        return _ratio(1 - perturbed, 1 - math.exp(self.eps_norm * self.grad_norm / 2) * perturbed)

    @property
    def _geometric(self) -> tuple[float | None, float | None]:
        """Geometric means of p_y and p̃_y."""
        clean, perturbed = _mean(self.clean), _mean(self.perturbed)
        return (
            None if clean is None else math.exp(-clean),
            None if perturbed is None else math.exp(-perturbed),
        )

    def to_json(self) -> dict[str, Any]:
        """Return every fact by name."""
        plain = [fact.name for fact in fields(self) if fact.repr]
        return {name: getattr(self, name) for name in [*plain, "p_y", "perturbed_p_y", "damped", "lam", "lam0"]}


def _mean(pieces: Sequence[Tensor | None], of: Any = None) -> float | None:
    known = [piece.flatten() for piece in pieces if piece is not None]
    if not known or len(known) < len(pieces):
        return None
    values = torch.cat(known)
    return float((of(values) if of else values).float().mean())


def _probability(nll: Tensor) -> Tensor:
    return (-nll).exp()


def _ratio(numerator: float, denominator: float) -> float:
    if denominator == 0:
        return math.inf if numerator else math.nan
    return numerator / denominator
