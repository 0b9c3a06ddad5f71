"""RST: toss a coin at each step, SAM or not."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim.rules import RHO, Ascent, Cadence, Nonfinite, Perturbation
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.registry import OPTIMIZERS
from surefoot.seeding import generator


class Coin(Cadence):
    """Climb at step t with probability p(t), a straight line from ``p`` to ``p_end`` over ``n_steps``.

    A step's toss depends on the seed and on t alone, so a step that is repeated tosses the same.

    Args:
        p: Probability at the start.
        p_end: Probability at the end and after it; None for the same throughout.
        n_steps: Length of the line.
        seed: Of the tosses.

    Raises:
        InputError: If a probability is not one, or a line has no length.
    """

    memory = ("seed",)

    def __init__(self, p: float, p_end: float | None = None, n_steps: int | None = None, seed: int = 0) -> None:
        super().__init__()
        end = p if p_end is None else p_end
        if not (0 <= p <= 1 and 0 <= end <= 1):
            raise InputError(f"Expected probabilities p and p_end in [0, 1], but got {p:g} and {end:g}. Try p=0.5.")
        if end != p and (n_steps is None or n_steps < 1):
            raise InputError(f"Expected the number of steps from p to p_end, but got {n_steps}. Write n_steps=…")
        self.p, self.p_end, self.n_steps, self.seed = p, end, n_steps or 1, seed

    def probability(self, t: int) -> float:
        """Return p(t)."""
        done = min(1.0, t / self.n_steps)
        return (1 - done) * self.p + done * self.p_end

    def due(self, t: int) -> bool:
        """Toss the coin of step ``t``."""
        toss = torch.rand((), generator=generator(self.seed, f"rst/{t}"), dtype=torch.float64)
        return toss.item() < self.probability(t)


@OPTIMIZERS.register("rst", passes="1 + p", wraps=True, reference="Zhao et al. 2022, arXiv:2203.09962")
class RST(SharpnessAware):
    """SAM with probability p at each step, otherwise the base alone.

    Randomised sharpness-aware training: SAM with probability p(t), otherwise the base alone.

    The expected cost is 1 + p passes per step. ``facts.climbed`` says what was tossed.

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Radius ρ of the climb.
        p: Probability of a SAM step, at the start.
        p_end: Probability at the end; None keeps p.
        n_steps: Steps from p to p_end.
        seed: Of the tosses.
        ascent: Where to climb.
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

    Reference: Zhao et al. 2022, "Randomized Sharpness-Aware Training for Boosting Computational Efficiency".
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = RHO,
        p: float = 0.5,
        p_end: float | None = None,
        n_steps: int | None = None,
        seed: int = 0,
        ascent: Ascent | str = "sam",
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        super().__init__(
            base,
            model,
            rho=rho,
            ascent=ascent,
            cadence=Coin(p, p_end, n_steps, seed),
            stable=stable,
            nonfinite=nonfinite,
            perturbation=perturbation,
        )
