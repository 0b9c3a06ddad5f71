"""Who listens to a plain loop: by hooks on the model, on the loss and on the parameters.

Nothing is guessed. The tensors that a forward pass returned carry a mark; a loss belongs to the pass if it was computed
from these very tensors; how much it counts is the gradient that arrived at it; and gradients that hold anything else,
or have been changed since backward(), are known by when they came and how often they were written to.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import torch
from torch import Tensor, nn

from surefoot.optim.replay.recording import Call, Claim, Forward, Key, Place, tensors, version

if TYPE_CHECKING:
    from surefoot.optim.replay.replaying import Replaying

MARK = "recorded_by"  # of a tensor that a recorded pass returned: whose, which pass, where in its output, its version


class Note(NamedTuple):
    """A gradient as a backward pass left it."""

    grad: Tensor
    version: int
    turn: int  # how many losses of ours had been differentiated until then
    holds_more: bool  # than gradients of losses of ours


class Hook:
    """A hook that keeps nobody alive. A copy of it, which goes with a copy of its module, does nothing."""

    def __init__(self, recorder: Recorder | None = None, name: str = "") -> None:
        self._recorder = None if recorder is None else ref(recorder)
        self._name = name

    def __call__(self, *args: Any) -> Any:
        """Tell the recorder, if there still is one."""
        recorder = None if self._recorder is None else self._recorder()
        return None if recorder is None else getattr(recorder, self._name)(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy nothing."""
        return Hook, ()


class Recorder:
    """Listens to a model, to a loss, and to the gradients of an optimizer's parameters.

    Args:
        optimizer: Whose second pass repeats what is recorded.
    """

    def __init__(self, optimizer: Replaying) -> None:
        self._optimizer = ref(optimizer)
        self._handles: dict[str, list[Any]] = {}
        self._watched: dict[Tensor, Any] = {}
        self._kinds = list(dict.fromkeys(["cpu", *(each.device.type for each in optimizer.parameters())]))
        self._count = 0  # of losses
        self.busy = False  # while passes are repeated
        self._watch(optimizer.parameters())
        self.forget()

    def forget(self) -> None:
        """Let go of everything that was recorded."""
        self.claims: list[Claim] = []  # that were differentiated, in the order in which they were evaluated
        self._notes: dict[Tensor, Note] = {}
        self._turn = 0  # how many losses of ours have been differentiated
        self._others = False  # whether a gradient has arrived at an output from elsewhere
        self._starting: Forward | None = None
        self._claiming: Claim | None = None

    def listen(self, role: str, module: nn.Module | None) -> None:
        """Listen to the calls of a module, the ``"model"`` or the ``"loss"``, and to no other one in this role."""
        for handle in self._handles.pop(role, ()):
            handle.remove()
        if module is not None:
            self._handles[role] = [
                module.register_forward_pre_hook(Hook(self, f"begin_{role}"), prepend=True, with_kwargs=True),
                module.register_forward_hook(Hook(self, f"end_{role}"), with_kwargs=True),
            ]

    def _watch(self, params: Iterable[Tensor]) -> None:
        """Listen to the gradients of parameters that were not listened to yet, or were frozen until now."""
        for parameter in params:
            if parameter.requires_grad and parameter not in self._watched:
                hook = Hook(self, "gradient_comes")
                self._watched[parameter] = parameter.register_post_accumulate_grad_hook(hook)

    @property
    def is_idle(self) -> bool:
        """Whether a pass is one of a plain loop: not in a closure, not at perturbed weights, not repeated."""
        optimizer = self._optimizer()
        step = None if optimizer is None else optimizer._ongoing.step
        return not (self.busy or (step is not None and (step.in_closure or step.perturbed)))

    @property
    def listens(self) -> bool:
        """Whether what begins now is recorded."""
        return torch.is_grad_enabled() and self.is_idle and not torch.compiler.is_compiling()

    def begin_model(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note what the model is given."""
        self._starting = None
        optimizer = self._optimizer()
        if optimizer is None or not self.listens:
            return
        self._watch(optimizer.parameters())
        self._others = False
        self._starting = Forward(args, kwargs, self._kinds)
        self._starting.start(model)

    def end_model(self, model: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Mark what the model returns."""
        forward, self._starting = self._starting, None
        if forward is not None:
            for place, tensor in tensors(output):
                forward.places.append(place)
                setattr(tensor, MARK, (self, forward, place, version(tensor)))
                if tensor.requires_grad:
                    tensor.register_hook(partial(self._output_gets, forward, place))

    def _output_gets(self, forward: Forward, place: Place, grad: Tensor) -> None:
        if not forward.is_ours(place, grad) and self.is_idle:
            self._others = True

    def begin_loss(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Take up a loss of a recorded pass; other uses of the module are left alone."""
        self._claiming = self.claim(args, kwargs) if self.listens else None
        return None if self._claiming is None else self.doubled(self._claiming, args, kwargs)

    def end_loss(self, module: nn.Module, args: Any, kwargs: Any, result: Any) -> Any:
        """Watch the loss, if it is a scalar: of more than one number, what is made is not known."""
        claim, self._claiming = self._claiming, None
        optimizer = self._optimizer()
        if claim is None or optimizer is None or not isinstance(result, Tensor) or result.ndim > 0:
            return None
        return self.accept(claim, optimizer.to_differentiate(result, args, kwargs))

    def claim(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Claim | None:
        """Find the forward pass that a loss belongs to; None if it was not given one's outputs as they are."""
        passes: list[Forward] = []
        outputs: dict[Key, Place] = {}
        given: list[tuple[Key, Any]] = [*enumerate(args), *kwargs.items()]
        for key, value in given:
            inside = list(tensors(value))
            marks: list[Any] = [getattr(tensor, MARK, None) for _, tensor in inside]
            if not any(tensor.requires_grad for _, tensor in inside):
                continue  # labels, weights
            for (place, tensor), mark in zip(inside, marks, strict=True):
                if mark is None or mark[0] is not self or mark[3] != version(tensor):
                    return None
                if not isinstance(value, Tensor) and mark[2] != place:
                    return None
                passes.append(mark[1])
            if not isinstance(value, Tensor):
                if len(inside) != len(passes[-1].places):
                    return None
                passes[-1].was_taken_whole = True
            outputs[key] = marks[0][2] if isinstance(value, Tensor) else ()
        if not passes or any(each is not passes[0] for each in passes):
            return None
        bare = tuple(None if key in outputs else value for key, value in enumerate(args))
        rest = {key: None if key in outputs else value for key, value in kwargs.items()}
        self._count += 1
        return Claim(self._count, passes[0], Call(bare, rest, self._kinds), outputs)

    def doubled(self, claim: Claim, args: Iterable[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        """Return the arguments of a loss with doubles in the place of outputs, by which its gradient is told apart."""

        def double(value: Any) -> Any:
            is_output = isinstance(value, Tensor) and value.requires_grad
            return claim.forward.double(getattr(value, MARK)[2], value) if is_output else value

        return tuple(map(double, args)), {key: double(value) for key, value in kwargs.items()}

    def accept(self, claim: Claim, loss: Tensor) -> Tensor:
        """Wait for the gradient of a loss; return it."""
        loss.register_hook(partial(self._loss_gets, claim))
        return loss

    def _loss_gets(self, claim: Claim, grad: Tensor) -> None:
        claim.arrives(grad)
        self._turn += 1
        if claim not in self.claims:
            self.claims.append(claim)
            self.claims.sort(key=lambda each: each.number)

    def gradient_comes(self, parameter: Tensor) -> None:
        """Note a gradient as it is now, and whether it came from a loss of ours."""
        grad = parameter.grad
        if grad is None or not self.is_idle:
            return
        old, now = self._notes.get(parameter), version(grad)
        holds_more = self._others or self._turn == (0 if old is None else old.turn)
        holds_more |= old is not None and old.grad is grad and old.holds_more
        holds_more |= getattr(grad, "used_version", None) == now - 1  # added to what the last step has used
        self._notes[parameter] = Note(grad, now, self._turn, holds_more)

    def find_changed(self, params: Iterable[Tensor], writes: int) -> bool:
        """Return whether a gradient is another one than backward() left, which DDP then writes to ``writes`` times."""
        for parameter in params:
            if (grad := parameter.grad) is not None:
                note = self._notes.get(parameter)
                if note is None and writes:
                    continue  # other ranks have used the parameter, this one has not
                if note is None or note.grad is not grad or version(grad) != note.version + writes:
                    return True
        return False

    def find_more(self) -> bool:
        """Return whether a gradient holds more than those of losses of ours."""
        return any(note.holds_more for parameter, note in self._notes.items() if parameter.grad is note.grad)
