"""What every optimizer here is: a torch optimizer around another one, stepped with a closure."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from surefoot.errors import DivergedError, InputError
from surefoot.optim import _closure as closures
from surefoot.optim._closure import Closure
from surefoot.optim._distributed import nonfinite_gradient
from surefoot.optim._making import Making, check_base, check_nonfinite, check_params
from surefoot.optim._networks import Networks
from surefoot.optim._passes import Passes, finite, gradients, total_norm
from surefoot.optim._step import Ongoing, Step, note_scaler, skip
from surefoot.optim._torch import ASKED_BY_SCALER
from surefoot.optim.facts import StepFacts
from surefoot.optim.rules import Nonfinite, OuterLoss, Rule
from surefoot.schema import LossTerms
from surefoot.seeding import rng_state

if TYPE_CHECKING:
    from torch.amp import GradScaler
    from torch.utils.hooks import RemovableHandle

OWN_STATE = "surefoot"  # key of a state dict under which a wrapper keeps what the base knows nothing of


class Wrapper(Optimizer, metaclass=Making):
    """A torch optimizer around a base optimizer *instance*.

    Parameter groups and state are the base's own, read through to it, so schedulers, ``accelerate`` and
    Lightning see one optimizer, and ``state_dict`` restores everything.

    The closure evaluates the model and returns per-example losses or :class:`~surefoot.schema.LossTerms`; the
    optimizer reduces, differentiates and steps. A closure that calls ``backward()`` itself and returns a scalar
    works too: it computes that scalar with :meth:`loss`, which knows in which pass it is called.

    Args:
        base: Makes the actual step. It must be able to step without a closure.
        nonfinite: What to do when a loss or a gradient is NaN or infinite: ``"raise"`` an error, or ``"skip"``
            the step with one warning. Either way weights and state are those before the step; a skipped one leaves
            the model's buffers as they were, too.
    """

    replays = False  # whether a second pass draws the random numbers of the first
    rank_weight = 1.0  # by what a rank's losses are multiplied, whose batch is smaller or larger than the others'
    accumulates = True  # whether a closure may add to gradients of micro-batches before it: in one pass, it may
    group_options: tuple[str, ...] = ()  # what parameter groups have beside the base's own options
    needs_per_example: bool  # this and the rest are the instance's: Lightning's double asks it for what the class lacks
    rules: dict[str, Rule]
    facts: StepFacts | None
    model: nn.Module | None

    def __init__(self, base: Optimizer, *, nonfinite: Nonfinite = "raise") -> None:
        check_base(base, Wrapper)
        check_nonfinite(nonfinite)
        self.base, self.nonfinite, self.t = base, nonfinite, 0
        vars(self).update({"needs_per_example": False, "rules": {}, "facts": None, "model": None} | vars(self))
        # torch's constructor starts empty groups and state and writes them through to the base: put them back.
        groups, state = base.param_groups, base.state
        super().__init__(list(groups), base.defaults)
        base.param_groups, base.state = groups, state
        self._places: list[Tensor] = []  # perturbed weights
        self._networks = Networks()
        self._ongoing = Ongoing()
        self._passes = Passes()
        self._warned = False
        closures.mark_used(self.parameters())  # what is there from before is no micro-batch of ours

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The base's parameter groups."""
        return self.base.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.base.param_groups = groups

    @property
    def state(self) -> Any:
        """The base's state."""
        return self.base.state

    @state.setter
    def state(self, state: Any) -> None:
        self.base.state = state

    def parameters(self) -> list[Tensor]:
        """Return all parameters of all groups."""
        return [parameter for group in self.base.param_groups for parameter in group["params"]]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters to the base; a group that is refused is not added."""
        check_params(param_group)
        self.prepare_group(param_group)
        self.base.add_param_group(param_group)
        if hasattr(self, "_networks"):
            self._networks.forget()

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before every step, with the gradients to step on in place: it can clip them.

        It may return what it likes, such as the norm that ``clip_grad_norm_`` gives; a pair is for the base's step.
        """

        def call(_: Optimizer, args: Any, kwargs: Any) -> Any:
            result = hook(self, args, kwargs)
            return result if isinstance(result, tuple) else None  # torch fails on anything else

        return self.base.register_step_pre_hook(call)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients; in a loop without closure, a step starts here.

        A second pass will draw the random numbers that are drawn from here on, so call it right before the first one.
        """
        self.base.zero_grad(set_to_none)
        step = self._ongoing.step
        if step is None or not (step.in_closure or step.perturbed):
            self._ongoing.scaler_asked = False
            step = self._begin()
            step.before = rng_state() if self.replays else None
            if self.nonfinite == "skip":
                step.buffers = self._networks.buffers(self.model, self.parameters())

    def prepare_group(self, group: dict[str, Any]) -> None:
        """Give a parameter group the options that it lacks; refuse it if it cannot be optimized."""

    def own_state(self) -> dict[str, Any]:
        """Return what this wrapper remembers beside its base: nested dicts and lists of tensors and plain values."""
        return {"t": self.t, **{name: rule.state_dict() for name, rule in self.rules.items()}}

    def load_own_state(self, state: dict[str, Any]) -> None:
        """Remember what :meth:`own_state` gave."""
        self.t = state["t"]
        for name, rule in self.rules.items():
            rule.load_state_dict(state[name])

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on: the base's state and groups, and the wrapper's own under one key."""
        return {**self.base.state_dict(), OWN_STATE: self.own_state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` gave, or the state of a plain base optimizer."""
        for group in state_dict["param_groups"]:
            self.prepare_group(dict(group))
        own = [{key: group[key] for key in self.group_options if key in group} for group in self.param_groups]
        self.base.load_state_dict({key: value for key, value in state_dict.items() if key != OWN_STATE})
        for group, options in zip(self.param_groups, own, strict=True):
            group.update({key: value for key, value in options.items() if key not in group})
        if OWN_STATE in state_dict:
            self.load_own_state(state_dict[OWN_STATE])

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle the wrapper with its base, which torch's own version would drop."""
        passing = {"_networks": Networks(), "_ongoing": Ongoing(), "_passes": Passes(), "_places": []}
        return {key: value for key, value in self.__dict__.items() if key != "step"} | passing  # a scheduler's patch

    def step(self, closure: Closure | None = None, *, scaler: GradScaler | None = None) -> Tensor | None:  # type: ignore[override]  # closures of ours give tensors
        """Evaluate the closure as often as the method needs and make one step.

        Args:
            closure: Evaluates the model on the batch. Without it, the gradients that are in place are used.
            scaler: Scales the losses and may leave out the step; call its ``update()`` afterwards. Loops without
                a closure call ``scaler.step(optimizer)`` as usual instead.

        Returns:
            The loss at the weights before the step, detached; None without a closure.

        Raises:
            InputError: If a closure came through ``scaler.step``.
            DivergedError: If a loss or a gradient is not finite, unless such steps are to be skipped.
        """
        asked, self._ongoing.scaler_asked = self._ongoing.scaler_asked, False
        innermost: Any = closure
        while isinstance(innermost, partial) and innermost.args:
            innermost = innermost.args[-1]
        if closure is not None and getattr(innermost, "__name__", "") == "do_nothing_closure":
            closure()  # Lightning's, where its user called step() without any: for the hooks that are called behind it
            closure = None
        if isinstance(closure, partial) and self.replays:
            closures.refuse_clipping(closure)
        if closure is not None and asked and scaler is None:
            raise InputError(
                "Expected scaler.step(optimizer) without a closure, whose gradients it would not unscale. "
                "Call optimizer.step(closure, scaler=scaler)."
            )
        step = (self._ongoing.step if closure is None else None) or self._begin()
        if closure is not None:
            if self.nonfinite == "skip":
                step.buffers = self._networks.buffers(self.model, self.parameters())
            step.leftovers = closures.unused(self.parameters())
        try:
            self._take_step(step, closure, scaler)
        except DivergedError as error:
            if self.nonfinite == "raise":
                raise
            skip(self, step, error)
        finally:
            self._ongoing.step = None
            if not step.leftovers:  # else the closure was not evaluated, or refused: they still wait for a step
                closures.mark_used(self.parameters())
        return step.loss

    def _begin(self) -> Step:
        """Start a new step and forget one that was begun but not made."""
        self._ongoing.step = step = Step()
        return step

    @abstractmethod
    def _take_step(self, step: Step, closure: Closure | None, scaler: GradScaler | None) -> None:
        """Fill the gradients, set ``step.loss`` and ``facts``, and end with :meth:`_step_base`."""

    def reduce(self, terms: LossTerms) -> Tensor:
        """Turn loss terms into the scalar that the current pass differentiates."""
        step = self._ongoing.step or self._begin()
        terms, nll = closures.read_losses(terms)
        if terms.counted is not None:
            terms, nll = closures.only_counted(terms, nll)
        if terms.per_example.numel() == 0:
            raise InputError("Expected at least one example, but got an empty batch. Leave empty batches out.")
        (step.perturbed_nll if step.perturbed else step.clean_nll).append(None if nll is None else nll.detach())
        # The outer loss is for the perturbed weights; a step that is not due to climb minimises it where it is.
        outer = self.rules.get("outer") if step.perturbed or not step.due else None
        loss = (outer(terms, nll) if isinstance(outer, OuterLoss) else terms.per_example).mean()
        loss = loss if terms.penalty is None else loss + terms.penalty
        loss = loss if self.rank_weight == 1 else loss * self.rank_weight
        return nonfinite_gradient(loss) if dist.is_available() and dist.is_initialized() else loss

    @property
    def saw_examples(self) -> bool:
        """Whether the loss of the pass that is running has come from :meth:`loss` or :meth:`reduce`."""
        step = self._ongoing.step
        return step is not None and bool(step.perturbed_nll if step.perturbed else step.clean_nll)

    def loss(self, logits: Tensor, labels: Tensor, *, ignore_index: int = -100) -> Tensor:
        """Return the cross-entropy of a batch, for closures that call ``backward()`` themselves.

        Args:
            logits: Shape ``(n, classes)``, or ``(n, classes, …)`` for several labels per example.
            labels: Class indices, shape ``(n,)`` or ``(n, …)``.
            ignore_index: Examples with this label count nowhere.

        Returns:
            A scalar to call ``backward()`` on.
        """
        return self.reduce(LossTerms(F.cross_entropy(logits, labels, reduction="none", ignore_index=ignore_index)))

    def _differentiate(self, step: Step, closure: Closure, scaler: GradScaler | None = None) -> Tensor:
        """Run one pass: clear the gradients, evaluate the closure, fill the gradients, return the loss."""
        params, leftovers = self.parameters(), step.leftovers
        for parameter in params:
            if parameter not in leftovers:
                parameter.grad = None
        torch.clear_autocast_cache()  # of copies from before the last change, or of ones made without gradient
        step.in_closure = True
        step.facts["passes"] = step.facts.get("passes", 0) + 1
        try:
            with torch.enable_grad():
                result: Any = closure()
                terms = closures.terms_of(result)
                if leftovers and (terms is not None or not self.accumulates):
                    closures.refuse(leftovers)
                if terms is not None:
                    result = self.reduce(terms)
                elif self.needs_per_example and not self.saw_examples:
                    raise InputError(f"Expected one loss per example, but got a scalar. {closures.WHAT_TO_RETURN}")
                step.leftovers = {}
                if terms is not None or not closures.was_differentiated(params, leftovers):
                    if terms is None and dist.is_available() and dist.is_initialized():
                        result = nonfinite_gradient(result)
                    (result if scaler is None else scaler.scale(result)).backward()
        finally:
            step.in_closure = False
        value = step.facts["perturbed_loss" if step.perturbed else "loss"] = result.item()
        # A scaler, or ranks that must decide alike, look at the gradient instead.
        if not math.isfinite(value) and scaler is None and not (dist.is_available() and dist.is_initialized()):
            finite(value, "loss at the perturbed weights" if step.perturbed else "loss")
        return torch.as_tensor(result.detach())

    def _step_base(self, step: Step, scaler: GradScaler | None = None) -> bool:
        """Let the base step; return whether it did, which only a scaler prevents."""
        if scaler is None or not scaler.is_enabled():
            self.base.step()
            stepped = True
        else:  # which leaves the step out if a gradient is not finite
            stepped = math.isfinite(total_norm(gradients(self.parameters())))
            scaler.unscale_(self.base)
            scaler.step(self.base)
        torch.clear_autocast_cache()  # what a loop under autocast sees next are the new weights
        if not stepped and step.buffers is not None:
            step.buffers.restore()
        self.t += stepped
        for rule in self.rules.values() if stepped else ():
            if rule.pending:
                rule.commit(self.base.param_groups)
        return stepped


setattr(Wrapper, ASKED_BY_SCALER, property(note_scaler))
