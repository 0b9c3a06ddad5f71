"""What can be turned against over-confidence: the radius ρ, the damping γ, weight decay, the learning rate."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from torch.optim import Optimizer
from torch.optim.lr_scheduler import CyclicLR, LRScheduler, OneCycleLR

from surefoot.errors import InputError
from surefoot.method import TUNED
from surefoot.optim.csam import Damped
from surefoot.optim.sharpness_aware import EveryKth

Limits = tuple[float, float]
UNTURNED = (CyclicLR, OneCycleLR)  # schedulers with rates of their own


class Knob(ABC):
    """A number of an optimizer, and how far to turn it.

    Attributes:
        name: What users call it.
        gain: How far to turn it for an over-confidence of one, log T = 1.
        limits: It stays between them.
        cautious: Whether turning it can cost more than calibration: keep a network from learning, or let it learn by
            heart.
    """

    name: str
    gain: float
    cautious = True

    def __init__(self, optimizer: Optimizer, limits: Limits) -> None:
        low, high = limits
        if not 0 <= low < high < math.inf:
            raise InputError(f"Expected limits 0 ≤ low < high of {self.name}, but got {low:g} and {high:g}. Swap them?")
        self.optimizer, self.limits = optimizer, (float(low), float(high))

    @property
    @abstractmethod
    def value(self) -> float:
        """Where it is."""

    @value.setter
    @abstractmethod
    def value(self, new: float) -> None: ...

    def turn(self, push: float) -> None:
        """Turn it by ``gain * push`` and stop at the limits; without a push it stays, also beyond them."""
        if push:
            low, high = self.limits
            self.value = min(high, max(low, self.turned(self.gain * push)))

    @abstractmethod
    def turned(self, by: float) -> float:
        """Return where it would be."""

    @property
    def at_limit(self) -> bool:
        """Whether it cannot go further one way."""
        return self.value in self.limits


class GroupKnob(Knob):
    """A number that every parameter group has, turned by a factor: the groups keep their proportions.

    Its value is that of the group with the most of it. A group that has none, such as one with ``rho=0``, stays so.
    """

    key: str

    @property
    def value(self) -> float:
        """The largest of all groups."""
        return float(max(group[self.key] for group in self.optimizer.param_groups if self.key in group))

    @value.setter
    def value(self, new: float) -> None:
        old = self.value
        for group in self.optimizer.param_groups:
            if group.get(self.key):
                group[self.key] = scaled(group[self.key], old, new)

    def turned(self, by: float) -> float:
        """Multiply by a factor."""
        return self.value * math.exp(by)


def scaled(value: float, old: float, new: float) -> float:
    """Scale a number as ``old`` becomes ``new``, which is exact for that one itself."""
    return new if value == old else value * (new / old)


class Radius(GroupKnob):
    """The radius ρ of the climb, between an eighth of and four times the method's usual one.

    A method that climbs at every k-th step only may go √k times as far.
    """

    name = key = "rho"
    gain = 1.0

    @classmethod
    def of(cls, optimizer: Optimizer, limits: Limits | None) -> Radius | None:
        """Return the knob where there is a radius to turn: one that is 0 everywhere asks for no climb."""
        if not any(group.get("rho") for group in optimizer.param_groups) or not _steps_per_climb(optimizer):
            return None
        takes = inspect.signature(type(optimizer)).parameters.get("rho")
        first = max(group.get("rho", 0.0) for group in optimizer.param_groups)
        usual = takes.default if takes is not None and isinstance(takes.default, int | float) else first
        return cls(optimizer, limits or (usual / 8, 4 * usual * math.sqrt(_steps_per_climb(optimizer))))


class Damping(Knob):
    """The strength γ of CSAM's damping."""

    name = "gamma"
    gain = 4.0
    cautious = False

    def __init__(self, optimizer: Optimizer, outer: Damped, limits: Limits) -> None:
        super().__init__(optimizer, limits)
        self.outer = outer

    @classmethod
    def of(cls, optimizer: Optimizer, limits: Limits | None) -> Damping | None:
        """Return the knob where the method damps."""
        outer = getattr(optimizer, "outer", None)
        return cls(optimizer, outer, limits or (0.0, 8.0)) if isinstance(outer, Damped) else None

    @property
    def value(self) -> float:
        """γ."""
        return self.outer.gamma

    @value.setter
    def value(self, new: float) -> None:
        self.outer.gamma = new

    def turned(self, by: float) -> float:
        """Add to it."""
        return self.outer.gamma + by


class Decay(GroupKnob):
    """The weight decay, between a tenth and three hundred times what it is at first."""

    name = key = "weight_decay"
    gain = 1.0

    @classmethod
    def of(cls, optimizer: Optimizer, limits: Limits | None) -> Decay | None:
        """Return the knob where weights decay at all."""
        first = max((group.get("weight_decay") or 0.0 for group in optimizer.param_groups), default=0.0)
        return cls(optimizer, limits or (first / 10, first * 300)) if first else None


class Rate(GroupKnob):
    """The learning rate, lowered against over-confidence and never raised above what it is at first.

    Most schedulers compute each rate from the last one or from those they started with, so both are turned.
    """

    name = key = "lr"
    gain = -1.0
    cautious = False

    def __init__(self, optimizer: Optimizer, schedule: LRScheduler | None, limits: Limits | None) -> None:
        if schedule is None and any("initial_lr" in group for group in optimizer.param_groups):
            raise InputError("Expected the scheduler, which would undo what is done to lr. Pass schedule=scheduler.")
        if schedule is not None and (isinstance(schedule, UNTURNED) or not hasattr(schedule, "base_lrs")):
            raise InputError(
                f"Expected a scheduler that goes by the rates it started with, but got {type(schedule).__name__}, "
                "which would undo what is done to lr. Turn another knob."
            )
        self.schedule = schedule
        rates = schedule.base_lrs if schedule else [group["lr"] for group in optimizer.param_groups]
        first = float(max(rates))
        super().__init__(optimizer, limits or (first / 1000, first))

    @property
    def value(self) -> float:
        """The largest of all groups, before the scheduler's factor."""
        return float(max(self.schedule.base_lrs)) if self.schedule else super().value

    @value.setter
    def value(self, new: float) -> None:
        old = self.value
        for group in self.optimizer.param_groups:
            group["lr"] = scaled(group["lr"], old, new)
        if self.schedule:
            self.schedule.base_lrs = [scaled(float(rate), old, new) for rate in self.schedule.base_lrs]


AUTO = ("rho", "gamma", "weight_decay")
NAMES = tuple(name for name in TUNED if name not in ("none", "auto"))


def _steps_per_climb(optimizer: Optimizer) -> int:
    """Return k of a method that climbs at every k-th step; 0 is one that is told never to, as ``csam:every=0``."""
    cadence = getattr(optimizer, "cadence", None)
    return cadence.k if isinstance(cadence, EveryKth) else 1


def find_knobs(
    optimizer: Optimizer, names: Sequence[str], limits: Mapping[str, Limits], schedule: LRScheduler | None = None
) -> list[Knob]:
    """Find what there is to turn.

    Args:
        optimizer: Has it.
        names: Which ones; ``["auto"]`` for ρ, γ and weight decay, as far as they are there.
        limits: By name, for those that shall have others than the usual ones.
        schedule: Sets the learning rate, if that is to be turned.

    Returns:
        At least one.

    Raises:
        InputError: If there is none, or one that was named is not there.
    """
    auto = list(names) == ["auto"]
    wanted = AUTO if auto else names
    if unknown := [name for name in (*wanted, *limits) if name not in NAMES]:
        raise InputError(f"Expected knobs among {', '.join(NAMES)}, or auto, but got {unknown[0]!r}. Write auto.")
    made: dict[str, Knob | None] = {
        "rho": Radius.of(optimizer, limits.get("rho")) if "rho" in wanted else None,
        "gamma": Damping.of(optimizer, limits.get("gamma")) if "gamma" in wanted else None,
        "weight_decay": Decay.of(optimizer, limits.get("weight_decay")) if "weight_decay" in wanted else None,
        "lr": Rate(optimizer, schedule, limits.get("lr")) if "lr" in wanted else None,
    }
    found = [knob for name in wanted if (knob := made[name]) is not None]
    missing = [name for name in wanted if made[name] is None]
    if not found or (missing and not auto):
        named = missing[0] if missing and not auto else "rho, gamma or weight_decay"
        raise InputError(
            f"Expected an optimizer with {named} above 0 to steer, but {_name(optimizer)} has none. "
            "Take CSAM(optimizer, model), or name a knob that it has."
        )
    return found


def _name(optimizer: Optimizer) -> str:
    inner = getattr(optimizer, "base", None)
    return type(inner if type(optimizer).__name__ == "Plain" else optimizer).__name__
