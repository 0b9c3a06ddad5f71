"""What a network is known to compute: only where its modules are torch's own and nothing was put in their way."""

from __future__ import annotations

from torch import nn
from torch.nn.modules import module as torch_module

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
RUNNING = ("forward", "__call__", "__iter__", "__getattr__", "__getattribute__", "_call_impl", "_wrapped_call_impl")

# Two derivatives everywhere, in evaluation mode. Softplus, which is cut at a threshold, and ELU, CELU, SELU and
# Softsign, which have one derivative only, are left out.
SMOOTH = (
    nn.Linear, nn.Bilinear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d,
    nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.Tanh, nn.Sigmoid,
    nn.GELU, nn.SiLU, nn.Mish, nn.LogSigmoid, nn.Softmax, nn.LogSoftmax, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d,
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.Flatten, nn.Unflatten, nn.Identity,
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d,
)  # fmt: skip


def sequence(model: nn.Module) -> list[nn.Module] | None:
    """Take nested sequences apart, where running the parts one after another is running the model.

    That is so for ``nn.Sequential`` and for subclasses that change nothing about how it runs. A ``forward`` of one's
    own, in the class or put on the instance, and hooks of any kind, global ones included, may compute anything.

    Args:
        model: Any module.

    Returns:
        The modules in the order in which they act, each without hooks, or None. What a module of a type that is not
        torch's own does is not known: look at ``type(module)``.

    Example:
        >>> [type(part).__name__ for part in sequence(nn.Sequential(nn.Flatten(), nn.Sequential(nn.Tanh())))]
        ['Flatten', 'Tanh']
        >>> class Doubled(nn.Sequential):
        ...     def forward(self, x):
        ...         return 2 * super().forward(x)
        >>> sequence(Doubled(nn.Tanh())) is None
        True
    """
    if _hooked_globally() or not _untouched(model):
        return None
    if not isinstance(model, nn.Sequential):
        return [model]
    if any(getattr(type(model), name) is not getattr(nn.Sequential, name) for name in RUNNING):
        return None
    found: list[nn.Module] = []
    for child in model:
        inside = sequence(child)
        if inside is None:
            return None
        found += inside
    return found


def rough_part(model: nn.Module) -> str:
    """Name what is not known to have two derivatives; a kink may hide in any ``forward``.

    Args:
        model: Any module, looked at in evaluation mode.

    Returns:
        Names of types, or empty where the model is a sequence of layers that are known to be smooth.

    Example:
        >>> rough_part(nn.Sequential(nn.Linear(2, 2), nn.Tanh())), rough_part(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
        ('', 'ReLU')
    """
    parts = sequence(model)
    if parts is None:
        return type(model).__name__
    return ", ".join(dict.fromkeys(type(part).__name__ for part in parts if type(part) not in SMOOTH))


def _untouched(module: nn.Module) -> bool:
    """Tell if a module has no hooks, no attribute that hides a method, and the forward that its class came with."""
    owner = next(cls for cls in type(module).__mro__ if "forward" in vars(cls))
    made, given = (str(getattr(thing, "__module__", "")).partition(".")[0] for thing in (owner, vars(owner)["forward"]))
    hidden = any(hasattr(type(module), name) for name in vars(module))
    return made == given and not hidden and not any(getattr(module, name) for name in HOOKS)


def _hooked_globally() -> bool:
    """Return whether there are hooks that run for every module."""
    return any(getattr(torch_module, f"_global{name}", None) for name in HOOKS)
