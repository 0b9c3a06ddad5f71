"""What is known of the step that is going on."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from surefoot.errors import DivergedError
from surefoot.optim._distributed import Replicas
from surefoot.optim._facts import StepFacts
from surefoot.optim._low_rank import Layer
from surefoot.seeding import RngState

Seen = Tensor | None  # −log p_y of the examples of one reduction, or None where it is not known


@dataclass
class Now:
    """Collected from the clean pass until the step is made; a step that fails leaves nothing else behind."""

    before: RngState | None = None  # of the global generators, at the start of the clean pass
    due: bool | None = None
    apart: Replicas | None = None  # while the gradients in place are this rank's alone
    agreed: float | None = None  # ‖g‖ for decisions that must be alike on all ranks
    wanted: bool | None = None
    climbed: bool = False
    norm: float | None = None
    perturbed_norm: float | None = None
    eps_norm: float | None = None
    loss: float = 0.0
    perturbed_loss: float | None = None
    passes: float = 0
    low_rank: int = 0
    layers: list[Layer] = field(default_factory=list)  # that climb without moving
    seen: tuple[list[Seen], list[Seen]] = field(default_factory=lambda: ([], []))  # clean, perturbed
    sampled: bool = False  # whether the clean pass stood at a sample, in a method that draws one
    error: DivergedError | None = None

    def facts(self, damps: bool) -> StepFacts:
        """Say what the step saw.

        Args:
            damps: Whether the outer loss damps examples.

        Returns:
            The facts.
        """
        return StepFacts(
            loss=self.loss,
            passes=self.passes,
            perturbed_loss=self.perturbed_loss,
            grad_norm=self.norm,
            perturbed_grad_norm=self.perturbed_norm,
            eps_norm=self.eps_norm,
            climbed=self.climbed,
            low_rank=self.low_rank,
            damps=damps,
            clean=_known(self.seen[0]),
            perturbed=_known(self.seen[1]),
        )


def _known(seen: list[Seen]) -> tuple[Tensor, ...]:
    """Return −log p_y of all examples of a pass; nothing where that of some is not known."""
    known = tuple(each for each in seen if each is not None)
    return known if len(known) == len(seen) else ()


def joined(parts: list[tuple[float, Now]]) -> Now:
    """Put the sub-batches of one step together: losses and norms are averaged, examples are concatenated.

    Args:
        parts: Each one's share of the batch, and what was known of it.

    Returns:
        What is known of the whole.
    """

    def mean(name: str) -> float | None:
        values = [getattr(now, name) for _, now in parts]
        known = all(value is not None for value in values)
        return sum(share * value for (share, _), value in zip(parts, values, strict=True)) if known else None

    return Now(
        due=parts[0][1].due,
        climbed=any(now.climbed for _, now in parts),
        norm=mean("norm"),
        perturbed_norm=mean("perturbed_norm"),
        eps_norm=mean("eps_norm"),
        loss=mean("loss") or 0.0,
        perturbed_loss=mean("perturbed_loss"),
        passes=mean("passes") or 0.0,
        low_rank=min(now.low_rank for _, now in parts),
        error=next((now.error for _, now in parts if now.error is not None), None),
        seen=([t for _, now in parts for t in now.seen[0]], [t for _, now in parts for t in now.seen[1]]),
    )
