"""What a sharpness-aware optimizer is made of and what it remembers between steps."""

from __future__ import annotations

import math
from typing import Any, TypedDict

from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim._distributed import Perturbation
from surefoot.optim._norms import sum_of_squares, total_norm
from surefoot.optim._now import Now
from surefoot.optim._ranks import AcrossRanks
from surefoot.optim._rules import Ascent, Cadence, Descent, Outer, Rule, find_ascent
from surefoot.optim._surprise import understood
from surefoot.optim._wrapper import Nonfinite, finite
from surefoot.schema import LossTerms
from surefoot.seeding import RngState, rng_state

RHO = 0.2  # default radius of the methods that climb a distance ρ along a gradient: one value, as a class and by name


class Common(TypedDict, total=False):
    """What every sharpness-aware optimizer takes, beside its own options."""

    stable: bool
    nonfinite: Nonfinite
    perturbation: Perturbation | None


class Composed(AcrossRanks):
    """Four rules around a base optimizer; how they are put to work is :class:`SharpnessAware`'s business.

    Attributes:
        detail: Set to True for facts that cost a read of all weights.
        low_rank: Set to True to let large linear layers that see few rows climb without moving their weights, in steps
            with a closure that leaves ``backward()`` to the optimizer: faster there, and the same up to rounding.
    """

    accumulates = False
    group_options: tuple[str, ...] = ("rho",)
    detail = False

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float,
        ascent: Ascent | str = "sam",
        outer: Outer | None = None,
        descent: Descent | None = None,
        cadence: Cadence | None = None,
        stable: bool = False,
        m: int | None = None,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        check_radius(rho)
        if m is not None and m < 1:
            raise InputError(f"Expected m ≥ 1 examples per part, but got {m}. Try m=16, or leave it out.")
        rule = find_ascent(ascent)
        if m is not None and rule.memory:
            raise InputError(
                f"Expected an ascent without memory where parts climb on their own, but got {type(rule).__name__}. "
                "Leave m out."
            )
        super().__init__(base, nonfinite=nonfinite)
        self.model = model
        self.rho = rho
        self.ascent = rule
        self.outer = outer or Outer()
        self.descent = descent or Descent()
        self.cadence = cadence or Cadence()
        self.stable = stable
        self.m = m
        self._settle(perturbation)
        for group in self.param_groups:
            group.setdefault("rho", rho)
            _check_group(group)
        self.needs_per_example = self.outer.needs_per_example
        self._places: list[Tensor] = []  # the perturbed weights: the only extra copy
        self._is_perturbed = False
        self._now = Now()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; without a ``"rho"`` of their own they get the optimizer's."""
        if hasattr(self, "rho"):
            param_group.setdefault("rho", self.rho)
            _check_group(param_group)
        super().add_param_group(param_group)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` gave, or the state of a plain base optimizer."""
        for group in state_dict["param_groups"]:
            _check_group(group)
        super().load_state_dict(state_dict)

    @property
    def _rules(self) -> dict[str, Rule]:
        return {"ascent": self.ascent, "outer": self.outer, "descent": self.descent, "cadence": self.cadence}

    def own_state(self) -> dict[str, Any]:
        """Return the number of steps made and what each rule remembers."""
        return {**super().own_state(), **{name: rule.state_dict() for name, rule in self._rules.items()}}

    def load_own_state(self, state: dict[str, Any]) -> None:
        """Remember what :meth:`own_state` gave."""
        super().load_own_state(state)
        for name, rule in self._rules.items():
            rule.load_state_dict(state[name])

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle without what belongs to a single step."""
        return {
            **super().__getstate__(),
            "_places": [],
            "_now": Now(),
            "_loss": None,
            "_known": (None, None),
        }

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients; in a loop without closure, a clean pass starts here.

        The second pass will draw the random numbers that are drawn from here on, so call it right before the
        first one.
        """
        super().zero_grad(set_to_none)
        if not self._is_perturbed and not self._in_closure:
            self._begin(rng_state())

    def _begin(self, before: RngState | None = None) -> None:
        """Start a new step and forget one that was begun but not made."""
        self._now = Now(before=before)
        for rule in self._rules.values():
            rule.discard()

    @property
    def climbs(self) -> bool:
        """Whether this step needs a perturbed pass. Ask after the clean pass; saves passes in explicit loops."""
        if not self._is_due:
            return False
        if self._now.wanted is None:
            norm = self._decisive_norm()
            if self._now.apart is None or self.cadence.by_norm:  # else this rank must go on and tell the others
                finite(norm, "gradient norm")
            self._now.wanted = self.cadence.wanted(self.t, norm)
        return self._now.wanted

    @property
    def _is_due(self) -> bool:
        if self._now.due is None:
            self._now.due = self.cadence.due(self.t)
        return self._now.due

    def reduce(self, terms: LossTerms) -> Tensor:
        """Turn loss terms into the scalar that the current pass differentiates.

        A step that is not due to climb minimises the outer loss at the weights where it is.
        """
        terms, surprise = understood(terms)
        self._now.seen[self._is_perturbed].append(None if surprise is None else surprise.detach())
        if self._is_perturbed or not self._is_due:
            terms = terms._replace(per_example=self.outer(terms, surprise))
        return self._mean(terms)

    def _norm(self, grads: list[Tensor] | None = None) -> float:
        """Return ‖g‖ of the clean gradients in place; computed once per step."""
        if self._now.norm is None:
            here = grads_of(self._moving()) if grads is None else grads
            if self._now.layers:  # which hold their part as two factors
                square = sum(layer.square for layer in self._now.layers) + sum_of_squares(here)
                self._now.norm = 0.0 if square < 0 else math.sqrt(square)  # rounding may bring a zero below zero
            else:
                self._now.norm = total_norm(here)
        return self._now.norm


def _check_group(group: dict[str, Any]) -> None:
    """Refuse a parameter group that would climb nowhere, or the wrong way."""
    if "rho" in group:
        check_radius(group["rho"])
    if group.get("maximize"):
        raise InputError(
            "Expected a base that minimises, but got maximize=True: what climbs would have to go down. "
            "Leave it out and change the sign of the loss."
        )


def check_radius(rho: float) -> None:
    """Refuse a radius that is negative or no number."""
    if not rho >= 0:
        raise InputError(f"Expected rho ≥ 0, but got {rho:g}. Try rho=0.05.")


def grads_of(params: list[Tensor]) -> list[Tensor]:
    """Return the gradients of those parameters that have one."""
    return [parameter.grad for parameter in params if parameter.grad is not None]
