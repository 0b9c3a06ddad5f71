"""How an optimizer is made: around a base instance, or from parameters and the base's class as elsewhere."""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError


class Making(type):
    """Lets ``SAM(params, torch.optim.SGD, rho=0.1, lr=0.1)`` mean ``SAM(torch.optim.SGD(params, lr=0.1), rho=0.1)``.

    Every SAM library has the first form. Options that the wrapper does not know go to the base; where both have one of
    that name, it is the wrapper's.
    """

    own_base = False  # whether an optimizer takes parameters and makes its base itself

    def __call__(cls, *args: Any, **options: Any) -> Any:
        """Make the base first if it is given as a class; ``replay=`` is for all that climb, and no option of a run."""
        if "replay" in options:
            from surefoot.optim.replay import make  # which builds on what is made here

            return make(cls, options.pop("replay"), args, options)
        kind = options.pop("base_optimizer", None)
        if kind is None and len(args) > 1 and not isinstance(args[1], nn.Module | None):
            kind, args = args[1], (args[0], *args[2:])
        first = args[0] if args else options.get("params")
        if kind is not None:
            options.pop("params", None)
            base, options = cls._with_base(first, kind, options)
            return super().__call__(base, *args[1:], **options)
        if not cls.own_base and hasattr(first, "__iter__"):
            raise InputError(f"Expected a torch optimizer to wrap, but got parameters. {cls._how}")
        return super().__call__(*args, **options)

    def _with_base(cls, params: Any, kind: Any, options: dict[str, Any]) -> tuple[Optimizer, dict[str, Any]]:
        got = kind.__name__ if inspect.isclass(kind) else type(kind).__name__
        if cls.own_base:
            raise InputError(
                f"Expected no base for {cls.__name__}, which is its own, but got {got}. "
                f"Write {cls.__name__}(params, model, lr=0.1)."
            )
        if not callable(kind) or isinstance(params, Optimizer):
            raise InputError(f"Expected a model beside the base, but got {got}. {cls._how}")
        if options.pop("adaptive", False):  # as the first of those libraries calls it
            raise InputError("Expected a method, but got adaptive=True. Write ASAM(…), from surefoot.optim.")
        taken = inspect.signature(cls.__init__).parameters  # type: ignore[misc]  # of this class, whichever it is
        own = {name: value for name, value in options.items() if name in taken}
        return kind(params, **{name: value for name, value in options.items() if name not in own}), own

    @property
    def _how(cls) -> str:
        name = cls.__name__
        base = "torch.optim.SGD"
        return f"Write {name}({base}(params, lr=0.1), model), or {name}(params, {base}, lr=0.1, model=model)."

    @property
    def __signature__(cls) -> inspect.Signature:
        """What the class itself takes."""
        own = inspect.signature(cls.__init__)  # type: ignore[misc]  # of this class, whichever it is
        return own.replace(parameters=list(own.parameters.values())[1:])


def check_base(base: Any, wrapper: type[Optimizer]) -> None:
    """Refuse a base that is a wrapper itself, no optimizer, or one that evaluates closures, as LBFGS does."""
    if isinstance(base, wrapper) or not isinstance(base, Optimizer):
        raise InputError(
            f"Expected a plain torch optimizer as base, but got {type(base).__name__}. "
            "Pass an instance, such as torch.optim.SGD(model.parameters(), lr=0.1)."
        )
    takes = list(inspect.signature(type(base).step).parameters.values())[1:]
    if any(each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD for each in takes):
        raise InputError(
            f"Expected a base that steps on the gradients in place, but got {type(base).__name__}, which evaluates "
            "a closure itself. Take torch.optim.SGD or AdamW."
        )


def check_params(group: dict[str, Any]) -> None:
    """Refuse a group of parameters that are not made of real numbers; what is no tensor is left for torch to refuse."""
    params = group["params"]
    if not isinstance(params, Tensor | set):  # torch refuses sets
        group["params"] = params = list(params)
    for given in [params] if isinstance(params, Tensor) else params:
        parameter = given[1] if isinstance(given, tuple) else given  # some come with their names
        if isinstance(parameter, Tensor) and not parameter.is_floating_point():
            raise InputError(
                f"Expected parameters of a real floating type, but got {parameter.dtype}. "
                "Leave it out of the optimizer, or split a complex parameter with torch.view_as_real."
            )


def check_nonfinite(nonfinite: str) -> None:
    """Refuse anything but the two things that can be done about what is not finite."""
    if nonfinite not in ("raise", "skip"):
        raise InputError(f'Expected nonfinite to be "raise" or "skip", but got {nonfinite!r}. Leave it out.')
