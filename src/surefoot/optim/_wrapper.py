"""What every optimizer here is: a torch optimizer around another one, stepped with a closure."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from surefoot.errors import DivergedError, InputError
from surefoot.optim._checks import called_by_scaler, check_is_real, does_nothing, needs_closure
from surefoot.optim._closure import WHAT_TO_RETURN, Closure, terms_of
from surefoot.optim._distributed import is_distributed, telling
from surefoot.optim._facts import StepFacts
from surefoot.optim._hooks import bare_step, hooks_may_return, told_if_heard
from surefoot.optim._leftovers import Leftovers, mark_used, refuse, unused, was_differentiated
from surefoot.optim._making import Making
from surefoot.optim._norms import total_norm
from surefoot.optim._statistics import Buffers, Networks
from surefoot.optim._surprise import understood
from surefoot.schema import LossTerms

if TYPE_CHECKING:
    from torch.amp import GradScaler
    from torch.utils.hooks import RemovableHandle

Nonfinite = Literal["raise", "skip"]
OWN_STATE = "surefoot"  # key of a state dict under which a wrapper keeps what the base knows nothing of


class Wrapper(Optimizer, metaclass=Making):
    """A torch optimizer around a base optimizer *instance*.

    Parameter groups and state are the base's own, read through to it, so schedulers, ``accelerate`` and
    Lightning see one optimizer, and ``state_dict`` restores everything.

    The closure evaluates the model and returns per-example losses or :class:`~surefoot.schema.LossTerms`; the
    optimizer reduces, differentiates and steps. A closure that calls ``backward()`` itself and returns a scalar
    works too: it computes that scalar with :meth:`loss`, which knows in which pass it is called.

    The form that other SAM libraries have, ``SAM(params, torch.optim.SGD, rho=0.1, lr=0.1)``, works as well: options
    that the wrapper does not know go to the base.

    Args:
        base: Makes the actual step. It must be able to step without a closure.
        nonfinite: What to do when a loss or a gradient is NaN or infinite: ``"raise"`` an error, or ``"skip"``
            the step with one warning. Either way weights and state are those before the step; a skipped one leaves
            the model's buffers as they were, too.

    Raises:
        InputError: If the base is no plain torch optimizer or its parameters are not real numbers.
    """

    needs_per_example = False
    accumulates = True  # whether a closure may add to gradients of micro-batches before it: in one pass, it may
    group_options: tuple[str, ...] = ()  # what parameter groups have beside the base's own options
    facts: StepFacts | None = None
    model: nn.Module | None = None
    low_rank = False  # only those that climb have such a path, see Composed

    def __init__(self, base: Optimizer, *, nonfinite: Nonfinite = "raise") -> None:
        if isinstance(base, Wrapper) or not isinstance(base, Optimizer):
            raise InputError(
                f"Expected a plain torch optimizer as base, but got {type(base).__name__}. "
                "Pass an instance, such as torch.optim.SGD(model.parameters(), lr=0.1)."
            )
        if needs_closure(base):
            raise InputError(
                f"Expected a base that steps on the gradients in place, but got {type(base).__name__}, which evaluates "
                "a closure itself. Take torch.optim.SGD or AdamW."
            )
        if nonfinite not in ("raise", "skip"):
            raise InputError(f'Expected nonfinite to be "raise" or "skip", but got {nonfinite!r}. Leave it out.')
        self.base = base
        self.nonfinite = nonfinite
        # torch's constructor starts empty groups and state and writes them through to the base: put them back.
        groups, state = base.param_groups, base.state
        super().__init__(list(groups), base.defaults)
        base.param_groups, base.state = groups, state
        for parameter in self.parameters():
            check_is_real(parameter)
        self.t = 0
        self._networks = Networks()
        self._kept: Buffers | None = None
        mark_used(self.parameters())  # what is there from before is no micro-batch of ours
        self._leftovers: Leftovers = {}
        self._reduced = False
        self._in_closure = False
        self._warned = False

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; on a double of Lightning's, which has this class but not its attributes, the original's."""
        original = self.__dict__.get("_optimizer")
        if original is not None and name in original.__dict__:
            setattr(original, name, value)
        else:
            super().__setattr__(name, value)

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

    def parameters(self) -> Iterable[Tensor]:
        """Go through all parameters of all groups."""
        return (parameter for group in self.param_groups for parameter in group["params"])

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters to the base; a group that is refused is not added."""
        params = param_group["params"]
        if not isinstance(params, Tensor | set):  # torch refuses sets
            param_group["params"] = params = list(params)
        for parameter in [params] if isinstance(params, Tensor) else params:
            check_is_real(parameter[1] if isinstance(parameter, tuple) else parameter)  # some come with their names
        self.base.add_param_group(param_group)
        if hasattr(self, "_networks"):
            self._networks.forget()

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before every step, with the gradients to step on in place: it can clip them."""
        return self.base.register_step_pre_hook(partial(_as_if_called_by, self, hook))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""
        self.base.zero_grad(set_to_none)
        if not self._in_closure:
            self._keep_buffers()

    def _keep_buffers(self) -> None:
        """Copy the buffers where a step may have to be undone; a step starts here."""
        undone = self.nonfinite == "skip"
        self._kept = Buffers(self._networks.of(self.model, self.parameters())) if undone else None

    def own_state(self) -> dict[str, Any]:
        """Return what this wrapper remembers beside its base: nested dicts and lists of tensors and plain values."""
        return {"t": self.t}

    def load_own_state(self, state: dict[str, Any]) -> None:
        """Remember what :meth:`own_state` gave."""
        self.t = state["t"]

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on: the base's state and groups, and the wrapper's own under one key."""
        return {**self.base.state_dict(), OWN_STATE: self.own_state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what :meth:`state_dict` gave, or the state of a plain base optimizer."""
        own = [{key: group[key] for key in self.group_options if key in group} for group in self.param_groups]
        self.base.load_state_dict({key: value for key, value in state_dict.items() if key != OWN_STATE})
        for group, options in zip(self.param_groups, own, strict=True):
            group.update({key: value for key, value in options.items() if key not in group})
        if OWN_STATE in state_dict:
            self.load_own_state(state_dict[OWN_STATE])

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle the wrapper with its base, which torch's own version would drop."""
        passing: dict[str, Any] = {"_networks": Networks(), "_kept": None, "_leftovers": {}}
        return {key: value for key, value in self.__dict__.items() if key != "step"} | passing  # a scheduler's patch

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take up a copied or pickled state."""
        self.__dict__.update(state)
        self._patch_step_function()

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """Say what torch puts around ``step``: here, only what somebody listens to."""
        return told_if_heard(func)

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
        if closure is not None and called_by_scaler():
            raise InputError(
                "Expected scaler.step(optimizer) without a closure, whose gradients it would not unscale. "
                "Call optimizer.step(closure, scaler=scaler)."
            )
        if closure is not None and does_nothing(closure):
            closure()  # for the hooks that are called behind it
            closure = None
        self._loss: Tensor | None = None
        if closure is not None:
            self._keep_buffers()
            self._leftovers = unused(self.parameters())
        try:
            self._take_step(closure, scaler)
        except DivergedError as error:
            if self.nonfinite == "raise":
                raise
            self._skip(error)
        finally:
            self._kept = None
            if not self._leftovers:  # else the closure was not evaluated, or refused: they still wait for a step
                mark_used(self.parameters())
        return self._loss

    @abstractmethod
    def _take_step(self, closure: Closure | None, scaler: GradScaler | None) -> None:
        """Fill the gradients, set ``_loss`` and ``facts``, and end with :meth:`_step_base`."""

    def reduce(self, terms: LossTerms) -> Tensor:
        """Turn loss terms into the scalar that the current pass differentiates."""
        return self._mean(understood(terms)[0])

    def _mean(self, terms: LossTerms) -> Tensor:
        self._reduced = True
        loss = terms.per_example.mean()
        return telling(loss if terms.penalty is None else loss + terms.penalty)

    def loss(self, logits: Tensor, labels: Tensor, *, ignore_index: int = -100) -> Tensor:
        """Return the cross-entropy of a batch, reduced as the current pass needs it.

        This is the criterion for closures that call ``backward()`` themselves.

        Args:
            logits: Shape ``(n, classes)``, or ``(n, classes, …)`` for several labels per example.
            labels: Class indices, shape ``(n,)`` or ``(n, …)``.
            ignore_index: Examples with this label do not count: neither in the mean nor in what the optimizer makes of
                single examples.

        Returns:
            A scalar to call ``backward()`` on.
        """
        losses = F.cross_entropy(logits, labels, reduction="none", ignore_index=ignore_index)
        return self.reduce(LossTerms(losses))

    def _differentiate(self, closure: Closure, scaler: GradScaler | None = None) -> Tensor:
        """Run one pass: clear the gradients, evaluate the closure, fill the gradients, return the loss."""
        self._reduced = False
        self._in_closure = True
        leftovers = self._leftovers
        self._clear(but=leftovers)
        torch.clear_autocast_cache()  # of copies from before the last change, or of ones made without gradient
        try:
            with torch.enable_grad():
                result: Any = closure()
                terms = terms_of(result)
                if not self.accumulates or terms is not None:
                    refuse(leftovers)
                if terms is not None:
                    result = self.reduce(terms)
                elif self.needs_per_example and not self._reduced:
                    raise InputError(f"Expected one loss per example, but got a scalar. {WHAT_TO_RETURN}")
                self._leftovers = {}
                if terms is not None or not self._has_gradients(leftovers):
                    result = telling(result) if terms is None else result
                    self._backward(result if scaler is None else scaler.scale(result))
        finally:
            self._in_closure = False
        loss: Tensor = result.detach()
        return loss

    def _backward(self, loss: Tensor) -> None:
        """Differentiate what a closure returned."""
        loss.backward()

    def _has_gradients(self, leftovers: Leftovers | None = None) -> bool:
        """Return whether a closure has called ``backward()`` itself."""
        return was_differentiated(self.parameters(), leftovers or {})

    def _clear(self, but: Leftovers | None = None) -> None:
        """Clear the gradients, without the bookkeeping of ``zero_grad``."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if not but or parameter not in but:
                    parameter.grad = None

    def _moving(self) -> list[Tensor]:
        """Return the parameters that have a gradient."""
        moving = [parameter for parameter in self.parameters() if parameter.grad is not None]
        for parameter in moving:
            if parameter.grad.layout != torch.strided:  # type: ignore[union-attr]  # has one, see above
                raise InputError("Expected dense gradients, but got a sparse one. Use nn.Embedding(…, sparse=False).")
        return moving

    def _gradient_norm(self, scaler: GradScaler | None = None) -> float:
        """Return the norm of the gradients to step on; under a scaler, which has its own check, it may be infinite."""
        norm = total_norm([parameter.grad for parameter in self._moving()])  # type: ignore[misc]  # those that move have one
        return norm if scaler is not None else finite(norm, "gradient norm")

    def _step_base(self, scaler: GradScaler | None = None) -> bool:
        """Let the base step; say whether it did, which only a scaler prevents."""
        with hooks_may_return(self.base):
            if scaler is None or not scaler.is_enabled():
                bare_step(self.base)()
                stepped = True
            else:
                scaler.unscale_(self.base)
                found = scaler._found_inf_per_device(self.base)
                stepped = not sum(value.item() for value in found.values())
                scaler.step(self.base)
        torch.clear_autocast_cache()  # what a loop under autocast sees next are the new weights
        if not stepped and self._kept is not None:
            self._kept.restore()
        self.t += stepped
        return stepped

    def _skip(self, error: DivergedError) -> None:
        if self._kept is None:
            raise InputError(
                "Expected optimizer.zero_grad() at the start of a step that may be skipped, but it was not called: "
                f"buffers cannot be put back. {error}"
            ) from error
        self._kept.restore()
        self.base.zero_grad()
        loss = float("nan") if self._loss is None else self._loss.item()
        self.facts = StepFacts(loss=loss, passes=1, skipped=True)
        if not self._warned:
            self._warned = True
            warnings.warn(f"A step was skipped, and later ones like it will be without a word: {error}", stacklevel=3)


def _as_if_called_by(wrapper: Wrapper, hook: Callable[..., Any], _: Optimizer, args: Any, kwargs: Any) -> Any:
    """Call a hook that was registered with the wrapper, from the base."""
    return hook(wrapper, args, kwargs)


def finite_loss(loss: Tensor, what: str, scaler: GradScaler | None) -> float:
    """Return a loss's value; a scaler, or ranks that must decide alike, look at the gradient instead of it."""
    value = loss.item()
    return value if math.isfinite(value) or scaler is not None or is_distributed() else finite(value, what)


def finite(value: Tensor | float, what: str) -> float:
    """Return a scalar's value.

    Args:
        value: A loss or a norm.
        what: Its name, for the error message.

    Returns:
        The value.

    Raises:
        DivergedError: If it is NaN or infinite.
    """
    number = value.item() if isinstance(value, Tensor) else value
    if not math.isfinite(number):
        raise DivergedError(
            f"Expected a finite {what}, but got {number}. Lower the learning rate or clip the gradient."
        )
    return number
