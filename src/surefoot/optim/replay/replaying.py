"""What an optimizer does that repeats the forward pass of a plain loop by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.errors import InputError
from surefoot.optim._closure import Closure, terms_of
from surefoot.optim._networks import Buffers
from surefoot.optim._passes import gradients, holding_statistics
from surefoot.optim._step import Step, explicit_pass, note_scaler
from surefoot.optim._torch import ASKED_BY_SCALER
from surefoot.optim.replay.recorder import Recorder
from surefoot.optim.replay.recording import Claim
from surefoot.optim.replay.refusals import INSTEAD, check_method, check_rehearsal, check_step, refuse
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.schema import LossTerms

if TYPE_CHECKING:
    from torch.amp import GradScaler


class Replaying(SharpnessAware):
    """What ``replay=`` adds to an optimizer, in front of its own class."""

    replay: bool | Callable[..., Any]
    _recorder: Recorder

    def start(self, replay: Any) -> None:
        """Listen to the model and the loss from now on; refuse what cannot be repeated."""
        self.replay = replay
        check_method(self)
        self._repeated = 0  # steps that were
        self._listen()

    def _listen(self) -> None:
        self._recorder = Recorder(self)
        self._recorder.listen("model", self.model)
        self._recorder.listen("loss", self.replay if isinstance(self.replay, nn.Module) else None)

    @property
    def model(self) -> nn.Module | None:
        """The model whose calls are repeated."""
        return self.__dict__.get("model")

    @model.setter
    def model(self, model: nn.Module | None) -> None:
        self.__dict__["model"] = model
        if "_recorder" in self.__dict__:
            check_method(self)
            self._recorder.listen("model", model)

    def loss(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return the loss that the optimizer was given, of an output of the model: cross-entropy if it was given none.

        Args:
            *args: What the loss takes, such as ``logits, labels``.
            **kwargs: What it takes by name.

        Returns:
            A scalar to call ``backward()`` on.

        Raises:
            InputError: If it is not of an output of the model as it is.
        """
        if self._recorder.listens:
            claim = self._recorder.claim(args, kwargs)
            if claim is None:
                raise InputError(
                    f"Expected an output of the optimizer's {type(self.model).__name__} as it was returned, but got "
                    "another tensor: what was done in between could not be repeated. Do it in the model, or in a "
                    "function replay=lambda output, labels: … that optimizer.loss(output, labels) calls. Of DDP or "
                    "torch.compile, give the optimizer what they return."
                )
            args, kwargs = self._recorder.doubled(claim, args, kwargs)
            return self._recorder.accept(claim, self._evaluate(args, kwargs))
        with nullcontext() if torch.is_grad_enabled() or not self._recorder.is_idle else self._aside():
            return self._evaluate(args, kwargs)

    def _evaluate(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        if self.replay is True:
            return super().loss(*args, **kwargs)
        busy, self._recorder.busy = self._recorder.busy, True  # so that a module is not listened to twice
        try:
            result = self.replay(*args, **kwargs)  # type: ignore[operator]  # is not False here
        finally:
            self._recorder.busy = busy
        return self.to_differentiate(result, args, kwargs)

    def to_differentiate(self, result: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
        """Turn what the loss gave into the scalar that the current pass differentiates.

        Args:
            result: What it gave.
            args: What it was given.
            kwargs: What it was given by name.

        Returns:
            A scalar.

        Raises:
            InputError: If it is one already, and the method weighs single examples.
        """
        loss, terms = self.replay, terms_of(result)
        if terms is None and self.needs_per_example:
            if not _is_plain(loss):
                raise InputError(
                    f"Expected one loss per example for {type(self).__name__}, but got a scalar that is not torch's "
                    'cross-entropy as it is. Give a loss with reduction="none", or leave it out: replay=True.'
                )
            each = partial(F.cross_entropy, reduction="none", ignore_index=loss.ignore_index)
            terms = LossTerms(each(*args, **kwargs))
        return result if terms is None else self.reduce(terms)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients, and forget the passes that they came from."""
        old, recorder = self._ongoing.step, self._recorder
        super().zero_grad(set_to_none)
        step = self._ongoing.step
        if not recorder.is_idle:
            return
        if step is not None and old is not None and old.before is None and not recorder.claims:
            # Its loss came first, and waits for backward(): what is known of the loss is known of this step.
            step.clean_nll, step.own, step.buffers = old.clean_nll, old.own, None
        recorder.forget()

    def _take_step(self, step: Step, closure: Closure | None, scaler: GradScaler | None) -> None:
        try:
            if closure is None and not step.climbed and step.due and gradients(self.parameters()):
                self._climb_again(step, scaler)
            super()._take_step(step, closure, scaler)
        finally:
            self._recorder.forget()

    def _climb_again(self, step: Step, scaler: GradScaler | None) -> None:
        """Make the second pass, if this step needs one."""
        if scaler is not None and self.cadence.by_norm:
            raise InputError(f"Expected a closure for {type(self).__name__} with a GradScaler. {INSTEAD}")
        if scaler is None and (not self.climbs or step.facts["grad_norm"] == 0):
            return
        claims = check_step(self, step)
        self._recorder.forget()  # and let go of the gradients
        if self._repeated & (self._repeated + 1) == 0:  # the first, the second, the fourth …
            self._rehearse(step, claims)
        with explicit_pass(self, scaler):
            self._repeat(claims)
        self._repeated += 1

    def _repeat(self, claims: list[Claim]) -> None:
        """Run the passes of these losses once more, at the weights that are in place."""
        passes = list(dict.fromkeys(claim.forward for claim in claims))
        self._recorder.busy = True
        try:
            for forward in passes:
                own = [claim for claim in claims if claim.forward is forward]
                with nullcontext() if forward.shares else self._passes.unshared():
                    losses = self._losses(own)
                    with own[0].backward.restored() if own[0].backward else nullcontext():
                        torch.autograd.backward(losses, [claim.factors[0] for claim in own])
        finally:
            self._recorder.busy = False

    def _losses(self, claims: list[Claim]) -> list[Tensor]:
        forward, losses = claims[0].forward, []
        with forward.again():
            output = self.model(*forward.args, **forward.kwargs)  # type: ignore[misc]  # there is one
        for claim in claims:
            with claim.call.again():
                losses.append(self._evaluate(*claim.arguments(output)))
        return losses

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Let a loss be evaluated beside the step: it leaves nothing in it."""
        step, self._ongoing.step = self._ongoing.step, Step()
        try:
            yield
        finally:
            self._ongoing.step = step

    def _rehearse(self, step: Step, claims: list[Claim]) -> None:
        """Repeat the clean pass, and refuse to go on if that gives another gradient; leave no trace."""
        params, networks = self.parameters(), [self.model] if self.model is not None else []
        clean = [None if each.grad is None else each.grad.detach().clone() for each in params]
        kept, buffers = [each.grad for each in params], Buffers(networks)
        try:
            for each in params:
                each.grad = None
            torch.clear_autocast_cache()
            with self._aside(), holding_statistics(networks), torch.enable_grad():
                self._repeat(claims)
            found = [each.grad for each in params]
        finally:
            buffers.restore()
            for each, grad, values in zip(params, kept, clean, strict=True):
                each.grad = grad if grad is None or values is None else grad.copy_(values)
            torch.clear_autocast_cache()
        check_rehearsal(clean, found)

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle the optimizer without what it has recorded."""
        return {key: value for key, value in super().__getstate__().items() if key != "_recorder"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Listen to the copy of the model."""
        super().__setstate__(state)
        self._listen()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by the name of the class behind it: its own has none."""
        return empty, (type(self).__bases__[1],), self.__getstate__()


def _refuse_scaler(optimizer: Replaying) -> bool:
    """Answer a scaler that is about to unscale the gradients, by a factor that only it knows."""
    step = optimizer._ongoing.step
    if step is None or not step.climbed:
        refuse("optimizer.step(scaler=scaler)", "scaler.step(optimizer)", "Call scaler.update() afterwards, as before.")
    return note_scaler(optimizer)


setattr(Replaying, ASKED_BY_SCALER, property(_refuse_scaler))


def _is_plain(loss: Any) -> TypeGuard[nn.CrossEntropyLoss]:
    """Return whether a loss is torch's cross-entropy as it is, whose examples can be told apart."""
    as_it_is = type(loss) is nn.CrossEntropyLoss and loss.weight is None and loss.label_smoothing == 0
    return as_it_is and loss.reduction == "mean"


@cache
def listening(cls: type[SharpnessAware]) -> Any:
    """Return the same class with ``replay``; everybody takes the one for the other."""
    kind: Any = type(cls)
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    return kind(cls.__name__, (Replaying, cls), names)


def empty(cls: type[SharpnessAware]) -> Any:
    """Return an optimizer with ``replay`` that has no state yet, for copies."""
    made = listening(cls)
    return made.__new__(made)
