"""The small parts that a sharpness-aware step is put together from.

An :class:`Ascent` says where to climb, an :class:`OuterLoss` which loss to minimise there, a :class:`Descent` what to
make of the gradient found there, and a :class:`Cadence` at which steps to climb at all. The base optimizer makes
the step. A new variant usually is one of these, in a file of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from surefoot.errors import InputError, UnknownNameError
from surefoot.optim._passes import TINY, CleanGradient, gradients, inner, total_norm
from surefoot.registry import OPTIMIZERS
from surefoot.schema import LossTerms

__all__ = [
    "ASCENTS", "GAMMA", "RHO", "TINY", "Along", "Ascent", "Cadence", "CleanGradient", "Descent", "GradientPair",
    "Nonfinite", "OuterLoss", "Perturbation", "Rule", "ascent_rule", "check_group", "find_ascent", "inner",
    "total_norm",
]  # fmt: skip

Nonfinite = Literal["raise", "skip"]  # what to do when a loss or a gradient is not finite
Perturbation = Literal["rank", "synchronised"]  # how the ranks of a distributed run climb
# Default radius of the methods that climb a distance ρ along a gradient, and strength of CSAM's damping: the pair with
# the smallest NLL over a perceptron, a CNN and a transformer; docs/optimizers.md has the table.
RHO = 0.1
GAMMA = 1.0


class Rule:
    """A part of a step that may remember things between steps.

    What it remembers is named in ``memory``: numbers, or lists with one tensor (or None) per parameter. A rule
    must not change these while a step is still going on, since the step may fail or be skipped: it prepares them
    under the same name in ``pending``, and they become valid when the step has been made.
    """

    memory: tuple[str, ...] = ()
    shares = False  # whether there is something to share, beside gradients, with ranks that climbed elsewhere

    def __init__(self) -> None:
        self.pending: dict[str, Any] = {}
        self._spare: dict[str, Any] = {}

    @property
    def remembers_gradients(self) -> bool:
        """Whether something is remembered for each parameter, rather than a few numbers."""
        return any(isinstance(getattr(self, name), list) for name in self.memory)

    def to_share(self) -> dict[Tensor, Tensor]:
        """Return what ranks that climbed each on their own average, beside their gradients, before they step."""
        return {}

    def commit(self, groups: Sequence[dict[str, Any]] = ()) -> None:
        """Take over what was prepared, when the base has stepped; the old values become room for the next step's.

        Args:
            groups: The base's parameter groups, for a rule that has more to do then.
        """
        for name, value in self.pending.items():
            self._spare[name] = getattr(self, name)
            setattr(self, name, value)
        self.pending = {}

    def discard(self) -> None:
        """Forget what was prepared by a step that was not made."""
        self._spare.update(self.pending)
        self.pending = {}

    def state_dict(self) -> dict[str, Any]:
        """Return what the rule remembers."""
        return {name: getattr(self, name) for name in self.memory}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember what :meth:`state_dict` gave."""
        self.pending, self._spare = {}, {}
        if missing := [name for name in self.memory if name not in state]:
            raise InputError(
                f"Expected the state of {type(self).__name__} with {', '.join(missing)}, but got {list(state)}. "
                "Load a state that this kind of optimizer saved."
            )
        for name in self.memory:
            value = state[name]
            is_list = isinstance(value, list)
            setattr(self, name, [None if v is None else v.clone() for v in value] if is_list else value)

    def room(self, name: str, indices: list[int], like: list[Tensor]) -> list[Tensor]:
        """Prepare new values of a memory that is a list of tensors.

        Args:
            name: The memory's name.
            indices: Places of the parameters that get a new value; the others keep theirs.
            like: One tensor per such parameter, to take shape and device from.

        Returns:
            One tensor per such parameter, to be overwritten.
        """
        memory: list[Tensor | None] = getattr(self, name)
        spare: list[Tensor | None] = self._spare.pop(name, None) or []
        length = max([*indices, len(memory) - 1, -1]) + 1
        olds = memory + [None] * (length - len(memory))
        spare += [None] * (length - len(spare))
        prepared = olds.copy()
        fresh = []
        for index, model in zip(indices, like, strict=True):
            new = spare[index]
            if new is None or new is olds[index] or new.shape != model.shape or new.device != model.device:
                new = torch.empty_like(model)
            prepared[index] = new
            fresh.append(new)
        self.pending[name] = prepared
        return fresh

    def recall(self, name: str, indices: list[int], like: list[Tensor]) -> list[Tensor | None]:
        """Return the values of a memory that is a list of tensors; None where there is none yet."""
        memory: list[Tensor | None] = getattr(self, name)
        found = [memory[index] if index < len(memory) else None for index in indices]
        return [old if old is None else old.to(new.device) for old, new in zip(found, like, strict=True)]


class Ascent(Rule, ABC):
    """Where to climb."""

    @abstractmethod
    def climb(self, clean: CleanGradient, places: list[Tensor]) -> float | None:
        """Write w + ε for every parameter.

        Args:
            clean: Weights, gradients and radii.
            places: To be filled, one per parameter.

        Returns:
            ‖ε‖ where it is known without reading all weights again, else None.
        """


class Along(Ascent):
    """Climb along a direction made from the gradient, ε = ρ·d/‖d‖."""

    def towards(
        self, places: list[Tensor], directions: Sequence[Tensor], clean: CleanGradient, norm: float
    ) -> float | None:
        """Write w + ρ·d/norm."""
        for weight, d, place, rho in zip(clean.params, directions, places, clean.rhos, strict=True):
            torch.add(weight, d, alpha=rho / (norm + TINY), out=place)
        return clean.rhos[0] * norm / (norm + TINY) if len(set(clean.rhos)) == 1 else None


class OuterLoss(Rule):
    """Which loss to minimise at the perturbed weights: the loss itself."""

    needs_per_example = False
    damps = False

    def __call__(self, terms: LossTerms, nll: Tensor | None) -> Tensor:
        """Return one loss per example.

        Args:
            terms: Of the examples that count.
            nll: Their −log p_y; None where it is not known.

        Returns:
            The losses.
        """
        return terms.per_example


@dataclass
class GradientPair:
    """Clean and perturbed gradients of the parameters that have both."""

    clean: list[Tensor]
    perturbed: list[Tensor]
    params: list[Tensor] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    clean_norm: float = 0.0


class Descent(Rule):
    """What to make of the gradient at the perturbed weights: step on it as it is."""

    needs_clean = False

    def combine(self, pair: GradientPair) -> None:
        """Change the perturbed gradients in place to those to step on."""

    def without_climb(self, clean: CleanGradient) -> None:
        """Change the gradients of a step that does not climb in place to those to step on."""

    def apply(self, clean: CleanGradient, scale: float = 1.0) -> None:
        """Combine the gradients of the parameters that have both, with the perturbed ones in place.

        A parameter with a gradient in one pass only: without a perturbed one it does not move, without a clean one it
        steps on the perturbed one.

        Args:
            clean: The clean gradient.
            scale: By which a scaler has multiplied the perturbed ones.
        """
        both = [i for i, parameter in enumerate(clean.params) if parameter.grad is not None]
        params = [clean.params[i] for i in both]
        grads = gradients(params)
        for grad in grads if scale != 1 else ():
            grad.mul_(1 / scale)
        indices = [clean.indices[i] for i in both]
        self.combine(GradientPair([clean.grads[i] for i in both], grads, params, indices, clean.norm))
        for grad in gradients(params) if scale != 1 else ():
            grad.mul_(scale)


class Cadence(Rule):
    """At which steps to climb: at all of them."""

    by_norm = False  # whether ``wanted`` is asked, with a ‖g‖ on which ranks must then agree

    def due(self, t: int) -> bool:
        """Say before the clean pass whether step ``t`` may climb."""
        return True

    def wanted(self, t: int, norm: float) -> bool:
        """Say after the clean pass, knowing ‖g‖, whether a step that is due does climb."""
        return True


A = TypeVar("A", bound=type[Ascent])
ASCENTS: dict[str, type[Ascent]] = {}


def ascent_rule(name: str) -> Callable[[A], A]:
    """Register an ascent rule, so that ``csam:ascent=<name>`` finds it."""

    def decorate(rule: A) -> A:
        ASCENTS[name] = rule
        return rule

    return decorate


def find_ascent(rule: str | Ascent) -> Ascent:
    """Return an ascent rule by its name.

    Args:
        rule: The name of the optimizer it belongs to, or a rule.

    Returns:
        A rule with its default options.

    Raises:
        UnknownNameError: If there is no such rule.
    """
    if isinstance(rule, Ascent):
        return rule
    OPTIMIZERS.load()
    if rule not in ASCENTS:
        raise UnknownNameError(f"Unknown ascent {rule!r}. Write ascent={' or ascent='.join(sorted(ASCENTS))}.")
    return ASCENTS[rule]()


def check_group(group: dict[str, Any]) -> None:
    """Refuse a parameter group that would climb nowhere, or the wrong way."""
    if not group["rho"] >= 0:
        raise InputError(f"Expected rho ≥ 0, but got {group['rho']:g}. Try rho=0.05.")
    if group.get("maximize"):
        raise InputError(
            "Expected a base that minimises, but got maximize=True: what climbs would have to go down. "
            "Leave it out and change the sign of the loss."
        )
