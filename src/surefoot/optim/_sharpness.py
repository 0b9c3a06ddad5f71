"""The sharpness-aware step: climb, look at the loss there, come back, step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from surefoot.batches import batches
from surefoot.errors import DivergedError, InputError
from surefoot.optim._closure import Closure, Parts
from surefoot.optim._composed import Common as Common
from surefoot.optim._composed import Composed, check_radius, grads_of
from surefoot.optim._low_rank import Layer, keeping
from surefoot.optim._norms import TINY, sum_of_squares, total_norm
from surefoot.optim._now import Now, joined
from surefoot.optim._perturb import standing_at
from surefoot.optim._rules import Ascent, Cadence, Pair, Slope
from surefoot.optim._statistics import holding_statistics
from surefoot.optim._watched import large_weights, unwatch, watching
from surefoot.optim._wrapper import finite, finite_loss
from surefoot.seeding import replaying, rng_state

if TYPE_CHECKING:
    from torch.amp import GradScaler


HOW_TO_CLIMB = """Expected a step that climbs, but got step() after one backward(): {base} would step alone. Write
    optimizer.step(lambda: cross_entropy(model(inputs), labels, reduction="none"))
in the place of both, or put a second pass between them:
    with optimizer.perturbed():
        optimizer.loss(model(inputs), labels).backward()
    optimizer.step()"""


class SharpnessAware(Composed):
    """Two passes on the same batch: one to find the direction, one for the gradient that is used.

    Between the passes the weights climb as ``ascent`` says. BatchNorm statistics move in the clean pass only,
    dropout draws the same masks in both, as does whatever else draws from the global generators of torch, NumPy and
    Python, and the weights come back bit for bit, also when the closure raises.

    Args:
        base: Makes the step with the gradient taken at the perturbed weights. Weight decay and momentum are its
            business: they act at the weights before the climb.
        model: Holds the BatchNorm layers. Without it, the networks that hold the parameters are looked for at the
            first step, which takes about a tenth of a second once.
        rho: Radius of the climb, ≥ 0. A parameter group may set its own ``"rho"``.
        ascent: Where to climb: a rule, or the name of the optimizer it belongs to.
        outer: Which loss to minimise there.
        descent: What to make of the gradient found there.
        cadence: At which steps to climb.
        stable: Rescale the gradient found there to the norm of the clean one first, as SSAM does.
        m: Split the batch into parts of at most m examples, all of one size, that climb each on their own; the
            closure must be a :class:`~surefoot.optim.Parts`.
        nonfinite: ``"raise"`` or ``"skip"`` when a loss or a gradient is not finite.
        perturbation: In a model that is replicated by DDP, ``"rank"`` lets each rank climb along its own gradient
            (m-sharpness; the clean pass shares nothing), ``"synchronised"`` lets all climb along their mean. None
            is ``"rank"``, as the authors of SAM have it, where the method remembers no gradients.

    Raises:
        InputError: If rho or m has no meaning, or the method cannot climb rank by rank.
    """

    @contextmanager
    def perturbed(self, scaler: GradScaler | None = None) -> Iterator[None]:
        """Stand at the perturbed weights: enter with the clean gradients in place, leave with those to step on.

        Args:
            scaler: Scaled the clean loss, and will scale the perturbed one.

        Yields:
            Nothing. In a step that does not climb, the weights stay where they are.

        Raises:
            InputError: If there are no gradients to climb along, or none of this pass at its end, or if its loss has
                not come from the optimizer, where the method makes something of single examples.

        Example:
            >>> w = torch.nn.Parameter(torch.tensor([1.0, 1.0]))
            >>> from surefoot import SAM
            >>> optimizer = SAM(torch.optim.SGD([w], lr=0.1), rho=0.05)
            >>> curvature = torch.tensor([1.0, 10.0])
            >>> (0.5 * curvature * w**2).sum().backward()
            >>> with optimizer.perturbed():
            ...     (0.5 * curvature * w**2).sum().backward()
            >>> optimizer.step()
            >>> w.data
            tensor([ 0.8995, -0.0498])
        """
        # Gradients may have been clipped since they were looked at.
        self._now.norm = self._now.agreed = self._now.error = None
        self._now.layers = []
        with torch.no_grad():
            slope = self._slope(scale_of(scaler))
            if not slope.params and self._now.apart is None:
                raise InputError("Expected gradients to climb along, but got none. Call backward() on the loss first.")
            with self._perturbed(slope, scale_of(scaler)), torch.enable_grad():
                yield
                self._check_second_pass()

    def _check_second_pass(self) -> None:
        """Refuse to leave the perturbed weights without what a loop without closure went there for."""
        if not self._has_gradients() and self._now.apart is None:
            raise InputError(
                "Expected gradients at the perturbed weights, but got none. "
                "Call backward() on the loss inside `with optimizer.perturbed():`."
            )
        if self.needs_per_example and not self._now.seen[1]:
            raise InputError(f"{self._not_told} inside `with optimizer.perturbed():`.")

    @property
    def _not_told(self) -> str:
        name = type(self).__name__
        return (
            f"Expected the loss of {name}, which weighs single examples, to come from the optimizer, but got another. "
            "Call optimizer.loss(model(inputs), labels).backward(), or optimizer.reduce(LossTerms(…)).backward()"
        )

    @contextmanager
    def _perturbed(self, slope: Slope, scale: float) -> Iterator[None]:
        self._note_overflow(self._decisive_norm(), "gradient norm")
        climbs = self.climbs if self._now.error is None else False
        self._now.climbed = climbs and bool(slope.params or self._now.layers)
        there = standing_at(slope.params, self._climb(slope), self.model) if self._now.climbed else nullcontext()
        passing = self._second_context(slope)
        networks = self._networks.of(self.model, self.parameters())
        with (
            holding_statistics(networks, self._networks.others(self.model)),
            replaying(self._now.before),
            there,
            passing,
        ):
            self._clear()
            if not self.descent.needs_clean:
                slope.release()
            self._is_perturbed = True
            try:
                yield
            except BaseException:
                self._now.climbed = False  # so that no later step takes it for done
                raise
            finally:
                self._is_perturbed = False
        if self._now.error is None:
            self._descend(slope, scale)
        elif self._now.apart is None:  # let a scaler see it, so that it skips the step and lowers its scale
            slope.params[0].grad = torch.full_like(slope.params[0], torch.inf)
        self._meet_again()

    def _slope(self, scale: float = 1.0) -> Slope:
        """Gather the clean gradient and its norm, free of a scaler's scale."""
        moving = self._moving()
        grads = grads_of(moving)
        if scale != 1:
            torch._foreach_mul_(grads, 1 / scale)
            self._now.norm = self._now.agreed = None
        indices: list[int] = []
        rhos: list[float] = []
        first = 0
        for group in self.param_groups:
            here = [index for index, p in enumerate(group["params"], first) if p.grad is not None]
            indices += here
            rhos += [self.radius(group)] * len(here)
            first += len(group["params"])
        return Slope(moving, grads, rhos, indices, self._norm(grads), self.t, self.model)

    def radius(self, group: dict[str, Any]) -> float:
        """Return the radius of a parameter group at this step."""
        rho = float(group["rho"])
        check_radius(rho)  # somebody may have changed it
        return rho

    def _climb(self, slope: Slope) -> list[Tensor]:
        """Fill the buffers with the perturbed weights."""
        fits = len(self._places) == len(slope.params) and all(
            place.shape == parameter.shape and place.dtype == parameter.dtype and place.device == parameter.device
            for place, parameter in zip(self._places, slope.params, strict=True)
        )
        if not fits:
            self._places = [torch.empty_like(parameter) for parameter in slope.params]
        self._now.eps_norm = self.ascent.climb(slope, self._places) if slope.params else None
        if self._now.layers:
            self._scale(self._now.layers, slope)
            same = len({group["rho"] for group in self.param_groups}) == 1
            self._now.eps_norm = self._now.layers[0].scale * slope.norm if same else None
        elif self.detail and self._now.eps_norm is None:
            self._now.eps_norm = total_norm(torch._foreach_sub(self._places, slope.params))
        return self._places

    def _scale(self, layers: list[Layer], slope: Slope) -> None:
        """Tell layers that are not moved how far to climb."""
        radii = {id(parameter): self.radius(group) for group in self.param_groups for parameter in group["params"]}
        weights: list[Tensor] = [layer.weight for layer in layers]
        hidden = Slope(weights, [], [radii[id(weight)] for weight in weights], [], slope.norm, slope.t, slope.model)
        for layer, scale in zip(layers, self.ascent.scales(hidden) or [], strict=True):
            layer.scale = scale

    def _descend(self, slope: Slope, scale: float) -> None:
        """Turn the perturbed gradients into those to step on, brought to the clean norm first if asked for."""
        moving = self._moving()
        self._now.perturbed_norm = norm = self._perturbed_norm(moving) / scale
        self._note_overflow(norm, "gradient norm at the perturbed weights")
        if self._now.error is not None or not self._now.climbed:
            return
        if self.stable:
            torch._foreach_mul_(grads_of(moving), slope.norm / (norm + TINY))
        if self.descent.needs_clean:
            # A parameter with a gradient in one pass only: without a perturbed one it does not move, without a
            # clean one it steps on the perturbed one.
            both = [i for i, parameter in enumerate(slope.params) if parameter.grad is not None]
            params, clean = [slope.params[i] for i in both], [slope.grads[i] for i in both]
            grads = grads_of(params)
            if scale != 1:
                torch._foreach_mul_(grads, 1 / scale)
            self.descent.combine(Pair(clean, grads, params, [slope.indices[i] for i in both], slope.norm))
            if scale != 1:
                torch._foreach_mul_(grads_of(params), scale)

    def _perturbed_norm(self, moving: list[Tensor]) -> float:
        """Return the norm of the perturbed gradients, without reading those that are products of two known factors."""
        known = {layer.weight: layer.found_square for layer in self._now.layers if layer.found_square is not None}
        if known:
            rest = [parameter for parameter in moving if parameter not in known]
            square = sum(value.item() for value in known.values()) + sum_of_squares(grads_of(rest))
            if 0 < square < math.inf:
                return math.sqrt(square)
        return total_norm(grads_of(moving))

    def _check_may_coast(self, slope: Slope) -> None:
        """Refuse a step on clean gradients where a climb is wanted; there is none along a gradient of zero."""
        if self._now.error is not None or slope.norm == 0:
            return
        if self.climbs:
            raise InputError(HOW_TO_CLIMB.format(base=type(self.base).__name__))
        if self.needs_per_example and not any(self._now.seen):
            raise InputError(f"{self._not_told}.")

    def _coast(self, slope: Slope) -> None:
        """Turn the gradients of a step without climb into those to step on."""
        if self._now.error is None:
            self.descent.coast(slope)
        self._meet_again(late=True)

    def _note_overflow(self, norm: float, what: str) -> None:
        """Remember that something is not finite; the step itself, or a scaler, decides what to do about it."""
        try:
            finite(norm, what)
        except DivergedError as error:
            self._now.error = self._now.error or error

    @torch.no_grad()  # once for all that is not a pass: to switch costs as much as a small product
    def _take_step(self, closure: Closure | None, scaler: GradScaler | None) -> None:
        if closure is not None:
            self._begin()
            evaluate = self._evaluate if self.m is None else self._evaluate_parts
            self._loss = evaluate(closure, scaler)
            self.facts = self._now.facts(self.outer.damps)
        elif not self._now.climbed:
            slope = self._slope()
            self._note_overflow(self._decisive_norm(), "gradient norm")
            self._check_may_coast(slope)
            self._coast(slope)
        if self._now.error is not None and scaler is None:
            raise self._now.error
        if self._step_base(scaler):
            self.descent.after(self.param_groups)
            for rule in self._rules.values():
                rule.commit()
        self._now = Now()

    def _evaluate(self, closure: Closure, scaler: GradScaler | None) -> Tensor:
        """Run both passes, or one where no climb is wanted; leave the gradients to step on, give the clean loss."""
        self._now.layers = self._layers() if scaler is None else []
        with watching(self._now.layers):
            return self._run_passes(closure, scaler)

    def _run_passes(self, closure: Closure, scaler: GradScaler | None) -> Tensor:
        scale = scale_of(scaler)
        self._now.before = rng_state()
        with self.clean():
            loss = self._differentiate(closure, scaler)
        self._gather()
        self._now.loss = finite_loss(loss, "loss", scaler)
        self._now.passes = 1
        slope = self._slope(scale)
        self._note_overflow(self._decisive_norm(), "gradient norm")
        if self._ends_early(slope):
            return loss
        if not self.climbs:
            self._coast(slope)
            if scale != 1:
                torch._foreach_mul_(grads_of(self._moving()), scale)
            return loss
        with self._perturbed(slope, scale):
            second = self._second_pass(closure, scaler)
        for layer in self._now.layers:
            layer.check()
        self._now.perturbed_loss = finite_loss(second, "loss at the perturbed weights", scaler)
        return loss

    def _layers(self) -> list[Layer]:
        """Return the layers that listen in the clean pass: those that need not be moved, in a step that climbs."""
        is_scaled = type(self.ascent).scales is not Ascent.scales and not self.descent.needs_clean
        if not (is_scaled and self.low_rank and self._is_due and type(self.cadence).wanted is Cadence.wanted):
            return []
        return [Layer(weight) for weight in large_weights(self.model, self.parameters())]

    def _backward(self, loss: Tensor) -> None:
        with keeping(self._now.layers):
            super()._backward(loss)

    def _gather(self) -> None:
        """Keep the layers whose gradients are known as factors; the others go on as any parameter."""
        gathered = [(layer, layer.gather()) for layer in self._now.layers]
        for layer, is_known in gathered:
            if not is_known:
                unwatch(layer)
        self._now.layers = [layer for layer, is_known in gathered if is_known]
        self._now.low_rank = len(self._now.layers)

    def _second_pass(self, closure: Closure, scaler: GradScaler | None) -> Tensor:
        self._now.passes += 1
        return self._differentiate(closure, scaler)

    def _evaluate_parts(self, closure: Closure, scaler: GradScaler | None) -> Tensor:
        """Let every part of m examples climb on its own, and average the gradients that they find."""
        if not isinstance(closure, Parts) or self.m is None:
            raise InputError(
                f"Expected a closure that can evaluate parts of {self.m} examples, but got {type(closure).__name__}. "
                "Pass Parts(lambda part: losses(inputs[part], labels[part]), n=len(labels))."
            )
        n = len(closure)
        sums: dict[Tensor, Tensor] = {}
        parts: list[tuple[float, Now]] = []
        losses: list[Tensor] = []
        with nullcontext() if self._replicas is None else self._replicas.apart():
            for part in batches(n, self.m):
                share = (part.stop - part.start) / n
                self._now = Now()
                losses.append(share * self._evaluate(partial(closure, part), scaler))
                parts.append((share, self._now))
                for parameter, grad in zip(moving := self._moving(), grads_of(moving), strict=True):
                    added = sums[parameter].add_(grad, alpha=share) if parameter in sums else grad.mul_(share)
                    sums[parameter], parameter.grad = added, None
        for parameter, total in sums.items():
            parameter.grad = total
        self._now = joined(parts)
        if self._replicas is not None:
            self._meet(self._replicas)
        return torch.stack(losses).sum()


def scale_of(scaler: GradScaler | None) -> float:
    """Return the factor by which a scaler has multiplied the loss."""
    return scaler.get_scale() if scaler is not None and scaler.is_enabled() else 1.0
