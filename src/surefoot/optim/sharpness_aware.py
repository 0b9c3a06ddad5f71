"""The sharpness-aware step: climb, differentiate there, come back, step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim._closure import Closure
from surefoot.optim._distributed import choose_perturbation, passes_for
from surefoot.optim._passes import TINY, clean_gradient, gradients, holding_statistics, total_norm, with_weights
from surefoot.optim._step import Step, evaluate_parts, explicit_pass, use_gradients
from surefoot.optim._wrapper import Wrapper
from surefoot.optim.facts import StepFacts
from surefoot.optim.rules import (
    Ascent,
    Cadence,
    CleanGradient,
    Descent,
    Nonfinite,
    OuterLoss,
    Perturbation,
    ascent_rule,
    check_group,
    find_ascent,
)  # fmt: skip
from surefoot.seeding import replaying, rng_state

if TYPE_CHECKING:
    from torch.amp import GradScaler


@ascent_rule("sam")
class Steepest(Ascent):
    """Where SAM climbs: ε = ρ·g/‖g‖, with one norm over all parameters."""

    def climb(self, clean: CleanGradient, places: list[Tensor]) -> float | None:
        """Write w + ε, in one reading of both."""
        scales = [rho / (clean.norm + TINY) for rho in clean.rhos]
        for weight, grad, place, scale in zip(clean.params, clean.grads, places, scales, strict=True):
            torch.add(weight, grad, alpha=scale, out=place)
        return scales[0] * clean.norm if len(set(scales)) == 1 else None


class EveryKth(Cadence):
    """Climb at steps 0, k, 2k and so on; 1 climbs always, 0 never."""

    def __init__(self, k: int = 1) -> None:
        if k < 0:
            raise InputError(f"Expected to climb at every k-th step with k ≥ 1, or never with 0, but got {k}. Try 1.")
        super().__init__()
        self.k = k

    def due(self, t: int) -> bool:
        """Return whether step ``t`` climbs."""
        return self.k > 0 and t % self.k == 0


class SharpnessAware(Wrapper):
    """Two passes on the same batch: one to find the direction, one for the gradient that is used.

    Between the passes the weights climb as ``ascent`` says. BatchNorm statistics move in the clean pass only, random
    numbers are the same in both, and the weights come back bit for bit, also when the closure raises.

    Args:
        base: Makes the step, on the gradient taken at the perturbed weights, with its weight decay and momentum.
        model: Holds the BatchNorm layers. Without it, the first step looks for the networks that hold the parameters.
        rho: Radius of the climb, ≥ 0. A parameter group may set its own ``"rho"``.
        ascent: Where to climb: a rule, or the name of the optimizer it belongs to.
        outer: Which loss to minimise there.
        descent: What to make of the gradient found there.
        cadence: At which steps to climb.
        stable: Rescale the gradient found there to the norm of the clean one first, as SSAM does.
        m: Let parts of at most m examples climb each on their own; the closure must be :class:`~surefoot.optim.Parts`.
        nonfinite: ``"raise"`` or ``"skip"`` when a loss or a gradient is not finite.
        perturbation: Under DDP, ``"rank"`` lets each rank climb along its own gradient (m-sharpness), and
            ``"synchronised"`` all along their mean. None is ``"rank"``, where the method remembers no gradients.
    """

    accumulates = False
    replays = True
    group_options: tuple[str, ...] = ("rho",)
    detail = False  # set it to True for facts that cost a read of all weights

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float,
        ascent: Ascent | str = "sam",
        outer: OuterLoss | None = None,
        descent: Descent | None = None,
        cadence: Cadence | None = None,
        stable: bool = False,
        m: int | None = None,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        self.model, self.rho, self.stable, self.m = model, rho, stable, m
        self.ascent, self.outer = find_ascent(ascent), outer or OuterLoss()
        self.descent, self.cadence = descent or Descent(), cadence or EveryKth()
        self.rules = {"ascent": self.ascent, "outer": self.outer, "descent": self.descent, "cadence": self.cadence}
        self.prepare_group({})  # which looks at rho
        super().__init__(base, nonfinite=nonfinite)
        self.perturbation = choose_perturbation(perturbation, self.rules, m, self.parameters())
        self._must_replicate = perturbation == "rank"
        self.needs_per_example = self.outer.needs_per_example

    def _take_step(self, step: Step, closure: Closure | None, scaler: GradScaler | None) -> None:
        with torch.no_grad():  # once for all that is not a pass: to switch costs as much as a small product
            if closure is None:
                use_gradients(self, step)
            else:
                evaluate = self._two_passes if self.m is None else partial(evaluate_parts, self, self.m)
                step.loss = evaluate(step, closure, scaler)
                step.facts |= {"clean": step.clean_nll, "perturbed": step.perturbed_nll, "climbed": step.climbed}
                self.facts = StepFacts(**step.facts, damps=self.outer.damps)
            if step.error is not None and scaler is None:
                raise step.error
            self._step_base(step, scaler)

    def _two_passes(self, step: Step, closure: Closure, scaler: GradScaler | None) -> Tensor:
        """Run both passes, or one where no climb is wanted; leave the gradients to step on, return the clean loss."""
        scale = 1.0 if scaler is None else scaler.get_scale()
        step.before = rng_state()
        with self.clean():
            loss = self._differentiate(step, closure, scaler)
        clean = clean_gradient(self, step, scale)
        if (step.error is not None or not clean.params) and self._passes.may_end(self, step, clean):
            return loss
        if not step.climbs:
            self._keep_clean(step, clean)
            for grad in gradients(clean.params) if scale != 1 else ():
                grad.mul_(scale)
            return loss
        with self._perturbed(step, clean, scale):
            self._differentiate(step, closure, scaler)
        return loss

    @contextmanager
    def _perturbed(self, step: Step, clean: CleanGradient, scale: float) -> Iterator[None]:
        """Climb, let a pass run at the perturbed weights, come back, and leave the gradients to step on."""
        step.climbed = bool(step.error is None and step.climbs and clean.params)
        places = self._climb(step, clean) if step.climbed else []
        networks, others = ([self.model], []) if self.model is not None else self._networks.find(self.parameters())
        if self.descent.needs_clean:
            self._passes.keep(clean)
        with (
            holding_statistics(networks, others),
            replaying(step.before),
            with_weights(clean.params[: len(places)], places, self.model),
            nullcontext() if step.apart is None else step.apart.second(self, step),
        ):
            for parameter in self.parameters():
                parameter.grad = None
            if not self.descent.needs_clean:
                clean.grads.clear()  # the next pass can then reuse their memory while it is still in the cache
            step.perturbed = True
            try:
                yield
            except BaseException:
                step.climbed = False  # so that no later step takes it for done
                raise
            finally:
                step.perturbed = False
        if step.error is None:
            self._descend(step, clean, scale)
        elif step.apart is None:  # let a scaler see it, so that it skips the step and lowers its scale
            clean.params[0].grad = torch.full_like(clean.params[0], torch.inf)
        if step.apart is not None and self.m is None:
            self._passes.average(self, step)

    def _climb(self, step: Step, clean: CleanGradient) -> list[Tensor]:
        """Return the perturbed weights, the only extra copy, in memory that is kept from step to step."""
        kinds = [(weight.shape, weight.dtype, weight.device) for weight in clean.params]
        if kinds != [(place.shape, place.dtype, place.device) for place in self._places]:
            self._places = [torch.empty_like(weight) for weight in clean.params]
        length = self.ascent.climb(clean, self._places)
        if self.detail and length is None:
            length = total_norm([place - weight for place, weight in zip(self._places, clean.params, strict=True)])
        step.facts["eps_norm"] = length
        return self._places

    def _descend(self, step: Step, clean: CleanGradient, scale: float) -> None:
        """Turn the perturbed gradients into those to step on, brought to the clean norm first if asked for."""
        grads = gradients(self.parameters())
        norm = step.facts["perturbed_grad_norm"] = total_norm(grads) / scale
        if not norm < torch.inf:
            step.check_finite(norm, "gradient norm at the perturbed weights")
        elif step.climbed:
            for grad in grads if self.stable else ():
                grad.mul_(clean.norm / (norm + TINY))
            if self.descent.needs_clean:
                self.descent.apply(clean, scale)

    def _keep_clean(self, step: Step, clean: CleanGradient) -> None:
        """Turn the gradients of a step without climb into those to step on."""
        if step.error is None:
            self.descent.without_climb(clean)
        if step.apart is not None and self.m is None:
            self._passes.average(self, step, late=True)

    def _begin(self) -> Step:
        if self._passes.model is not self.model:
            self._passes = passes_for(self.model, must_replicate=self._must_replicate)
        for rule in self.rules.values():
            if rule.pending:
                rule.discard()
        self._ongoing.step = step = Step(due=self.cadence.due(self.t))
        return step

    def radius(self, group: dict[str, Any]) -> float:
        """Return the radius of a parameter group at this step."""
        return float(group["rho"])

    def prepare_group(self, group: dict[str, Any]) -> None:
        """Give a parameter group the optimizer's radius, if it has none of its own, and look at both."""
        group.setdefault("rho", self.rho)
        check_group(group)

    def clean(self) -> AbstractContextManager[None]:
        """Surround the clean pass, forward and backward, of a loop without closure that runs on several ranks.

        Where the ranks climb each on their own, nothing is averaged in here. Without it, they climb together.
        """
        step = self._ongoing.step or self._begin()
        if self.perturbation == "rank" and step.due and self._passes.may_climb_apart:
            step.apart = self._passes
        return nullcontext() if step.apart is None else self._passes.unshared()

    @property
    def climbs(self) -> bool:
        """Whether this step needs a perturbed pass. Ask after the clean pass; saves passes in loops without closure."""
        step = self._ongoing.step or self._begin()
        if step.due and step.climbs is None:
            clean_gradient(self, step)
            if step.error is not None and (step.apart is None or self.cadence.by_norm):
                raise step.error  # else this rank must go on and tell the others
        return step.due and bool(step.climbs)

    def perturbed(self, scaler: GradScaler | None = None) -> AbstractContextManager[None]:
        """Surround the second pass of a loop without closure: clean gradients come in, those to step on go out."""
        return explicit_pass(self, scaler)
