"""Turns ρ, γ and weight decay while a network trains, so that it ends as sure as it may be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from surefoot.errors import InputError
from surefoot.optim import Wrapper
from surefoot.outputs import are_probs, collect_logits
from surefoot.steering.knobs import Limits, find_knobs
from surefoot.steering.ranks import together
from surefoot.steering.signal import Signal, signal_of

MOST = 0.5  # of log T that one look reacts to: a network far from calibrated is brought near in several
FORGOTTEN = 0.1  # per look, of how much lower the NLL behind the best temperature was once
IGNORED = -100  # torch's label of what counts nowhere


@dataclass(frozen=True)
class Steering:
    """What one look at held-out rows saw and did.

    Attributes:
        signal: What it saw.
        push: How much over-confidence it acted on: log T less its standard error, and at most a half; 0 is nothing.
        restraint: By what the push on ρ and weight decay was multiplied: 1 leaves it, 0 holds them, −1 turns it round,
            because what no temperature repairs has grown worse.
        before: The knobs before, by name.
        after: The knobs after it.
        at_limit: Those that could not go further.
    """

    signal: Signal
    push: float
    restraint: float
    before: Mapping[str, float]
    after: Mapping[str, float]
    at_limit: tuple[str, ...] = ()

    @property
    def is_idle(self) -> bool:
        """Whether the network answers no better than a constant, and all knobs were let go for that."""
        return self.signal.is_idle and self.push < 0

    def __str__(self) -> str:
        """Say it in a line."""
        seen = self.signal
        if not seen.is_known:
            return f"{seen.rows:,} rows tell nothing: all as it was"
        what = "over-confident" if self.push > 0 else "under-confident" if self.push < 0 else "calibrated, up to noise"
        what = "no better than a constant answer" if self.is_idle else what
        did = [
            f"{name} {self.before[name]:.3g} → {new:.3g}" if new != self.before[name] else f"{name} {new:.3g}"
            for name, new in self.after.items()
        ]
        return f"log T {seen.log_temperature:+.3f} ± {seen.error:.3f} on {seen.rows:,} rows, {what}: {', '.join(did)}"

    def to_json(self) -> dict[str, float]:
        """Return all numbers by name, as trackers record them."""
        numbers = {**asdict(self.signal), "push": self.push, "restraint": self.restraint, **self.after}
        return {f"steering/{name}": float(value) for name, value in numbers.items()}


class KeepCalibrated:
    r"""Turns a method's ρ, γ and weight decay against over-confidence on held-out data, once per epoch.

    Used as ``ReduceLROnPlateau`` is: make it around an optimizer, and call :meth:`step` after each validation pass.

    At each look, with log T ± its standard error as :func:`~surefoot.steering.signal_of` measures it,

    .. math:: ρ ← ρ · e^{k_ρ r u},  γ ← γ + k_γ u,  u = \mathrm{sign}(\log T) \max(0, |\log T| − \mathrm{se}),

    |u| at most 1/2, k_ρ = 1, k_γ = 4, and the weight decay as ρ; each within limits at which it stops and from which it
    comes back at once.

    Calibration is not bought with what no temperature repairs. Where the NLL behind the best temperature is d above the
    lowest that it was (which is forgotten by a tenth per look), r = 1 − d/se, from 0 to 1 where ρ would go up: too far
    up, and a network does not learn; from −1 to 1 where it would go down: a network that is not sure enough because
    its labels are noisy would learn them by heart, and needs more of ρ instead. The same holds for the weight decay.

    A network that answers no better than a constant is calibrated and has learned nothing, for which too large a radius
    is one cause: where it is not over-confident either, all knobs are let go, u = −1/2.

    The held-out rows steer the training, so they are no test of calibration any more; keep others for that.

    Args:
        optimizer: CSAM, SAM, any method with a radius, or any optimizer with weight decay; one that a framework has
            wrapped is found inside.
        knobs: What to turn: ``"auto"`` is ρ, γ and weight decay, as far as they are there and not 0. Else names, from
            ``rho``, ``gamma``, ``weight_decay`` and ``lr``, which is turned down.
        speed: By which all gains are multiplied. 1 is for one look per epoch; for four looks, write 0.25.
        limits: Lowest and highest value by name. ρ: an eighth of and four times the method's default; γ: 0 and 8;
            weight decay: a tenth of and 300 times what it is at first.
        schedule: The scheduler, where ``lr`` is turned.

    Attributes:
        facts: What the last look saw and did; None before the first.

    Raises:
        InputError: If there is nothing to turn.

    Example:
        >>> from surefoot.optim import CSAM
        >>> model = nn.Linear(2, 2)
        >>> optimizer = CSAM(torch.optim.SGD(model.parameters(), lr=0.1), model, rho=0.1, gamma=1.0)
        >>> keeper = KeepCalibrated(optimizer)
        >>> logits, labels = torch.tensor([[4.0, 0.0]]).repeat(400, 1), torch.arange(400) % 4 // 3  # 75 % right
        >>> print(keeper.step(logits, labels))
        log T +1.292 ± 0.105 on 400 rows, over-confident: rho 0.1 → 0.165, gamma 1 → 3
    """

    def __init__(
        self,
        optimizer: Any,
        *,
        knobs: str | Sequence[str] = "auto",
        speed: float = 1.0,
        limits: Mapping[str, Limits] | None = None,
        schedule: LRScheduler | None = None,
    ) -> None:
        if not 0 < speed < math.inf:
            raise InputError(f"Expected speed > 0, but got {speed:g}. Leave it out for one look per epoch.")
        self.optimizer, self.speed = _innermost(optimizer), speed
        names = [name.strip() for name in knobs.split(",")] if isinstance(knobs, str) else list(knobs)
        self.knobs = find_knobs(self.optimizer, names, limits or {}, schedule)
        self.looks = 0
        self.facts: Steering | None = None
        self._lowest: float | None = None  # NLL behind the best temperature, as low as it was not long ago

    @torch.no_grad()
    def step(self, logits: Tensor, labels: Tensor) -> Steering:
        """Look at held-out predictions and turn the knobs.

        On several ranks each gives its own rows; all of them see all rows and move alike.

        Args:
            logits: Of held-out rows at the weights of now, shape ``(n, classes)``.
            labels: Class numbers, shape ``(n,)``; rows labelled −100 count nowhere.

        Returns:
            What was seen and done. Where the rows tell nothing, such as logits that are not finite, nothing is turned.

        Raises:
            InputError: If the rows are something else.
        """
        return self._step(together(lambda: _checked(logits, labels)))

    def _step(self, rows: tuple[Tensor, Tensor]) -> Steering:
        signal = signal_of(*rows)
        before = {knob.name: knob.value for knob in self.knobs}
        push = self._push(signal) if signal.is_known else 0.0
        restraint = self._restraint(signal, push) if signal.is_known else 1.0
        if signal.is_known and signal.is_idle and push <= 0:
            push, restraint = -MOST, 1.0
        for knob in self.knobs:
            knob.turn(self.speed * push * (restraint if knob.cautious else 1.0))
        self.looks += 1
        after = {knob.name: knob.value for knob in self.knobs}
        stuck = tuple(knob.name for knob in self.knobs if knob.at_limit)
        self.facts = Steering(signal, push, restraint, before, after, stuck)
        return self.facts

    def step_from(self, model: nn.Module, loader: Iterable[Any]) -> Steering:
        """Run a model over held-out batches, in eval mode, and :meth:`step`.

        Args:
            model: Its modes are afterwards as they were.
            loader: Gives pairs of inputs and labels, or dictionaries with ``labels``; never the test split.

        Returns:
            What was seen and done.
        """

        def rows() -> tuple[Tensor, Tensor]:
            found = collect_logits(model, loader)
            return _checked(torch.from_numpy(found.logits), torch.from_numpy(found.labels))

        return self._step(together(rows))

    def _push(self, signal: Signal) -> float:
        """Return how much over-confidence to act on: what is left of log T when its standard error is taken off."""
        beyond = abs(signal.log_temperature) - signal.error
        return math.copysign(min(MOST, beyond), signal.log_temperature) if beyond > 0 else 0.0

    def _restraint(self, signal: Signal, push: float) -> float:
        """Say how much of a push on ρ is wanted, by what has become of the NLL that no temperature repairs."""
        lowest = signal.refined if self._lowest is None else self._lowest
        worse = signal.refined - lowest
        self._lowest = lowest + FORGOTTEN * worse if worse > 0 else signal.refined
        least = 0.0 if push > 0 else -1.0
        return min(1.0, max(least, 1 - worse / signal.refined_error)) if signal.refined_error > 0 else 1.0

    def state_dict(self) -> dict[str, Any]:
        """Return what it remembers; the knobs themselves are the optimizer's, and in its ``state_dict``."""
        limits = {knob.name: knob.limits for knob in self.knobs}
        return {"looks": self.looks, "lowest": self._lowest, "limits": limits}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Remember what :meth:`state_dict` gave, limits included; load the optimizer's state as well."""
        self.looks, self._lowest = state["looks"], state["lowest"]
        for knob in self.knobs:  # some depend on where the knob was at first
            knob.limits = tuple(state["limits"][knob.name])


def _innermost(optimizer: Any) -> Optimizer:
    """Find the optimizer inside what a framework has put around it."""
    found: Any = optimizer
    while not isinstance(found, Wrapper) and hasattr(found, "optimizer"):
        found = found.optimizer
    if not isinstance(found, Optimizer):
        raise InputError(f"Expected an optimizer, but got a {type(optimizer).__name__}. Pass CSAM(optimizer, model).")
    return found


def _checked(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows that count, or say what is wrong with them."""
    if logits.ndim != 2 or logits.shape[1] < 2 or labels.shape != logits.shape[:1] or labels.is_floating_point():
        raise InputError(
            f"Expected logits (n, classes) and class numbers (n,), but got {tuple(logits.shape)} and "
            f"{tuple(labels.shape)} of {labels.dtype}. Give one row of logits per label, flat."
        )
    counted = labels != IGNORED
    logits, labels = logits[counted].detach(), labels[counted].long()
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < logits.shape[1]:
        raise InputError(
            f"Expected labels in 0…{logits.shape[1] - 1}, but got {int(labels.min())} to {int(labels.max())}. "
            "Number the classes from 0."
        )
    if len(labels) and logits.isfinite().all() and are_probs(logits.double(), atol=1e-3):
        raise InputError("Expected logits, but got probabilities. Pass what goes into the softmax.")
    return logits, labels
