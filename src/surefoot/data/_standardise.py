"""From raw inputs to what a network sees: standardised by the training split, the same way in every split."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from surefoot.data._divide import Array
from surefoot.errors import InputError
from surefoot.scaling import Scaling

Kind = Literal["pixels", "features", "raw"]
KINDS = get_args(Kind)
_CHUNK = 4096  # rows at a time, so that no second copy of the data is made
_FAR = 20.0  # standard deviations
_CONSTANT = 1e-6


def kind_of(inputs: Array, asked: str | None, origin: str) -> Kind:
    """Say what inputs are: bytes are pixels, floats are features, other whole numbers could be anything.

    Args:
        inputs: Of the training split.
        asked: What the user says they are, if anything.
        origin: For error messages.

    Returns:
        ``"pixels"``, ``"features"``, or ``"raw"`` for what must stay as it is, such as tokens.

    Raises:
        InputError: If it cannot be told, or what was asked for does not fit.
    """
    if asked is None and inputs.dtype == np.uint8:
        return "pixels"
    if asked is None and inputs.dtype.kind == "f":
        return "features"
    if asked is None:
        raise InputError(
            f"Expected bytes, which are pixels, or floats, which are features, but got {inputs.dtype} in {origin}, "
            "which could be either, or tokens. Write inputs=features, inputs=pixels or inputs=raw after npz:PATH "
            "(raw leaves them as they are); a function of your own returns it beside the arrays."
        )
    if asked not in KINDS:
        raise InputError(
            f"Expected inputs to be {', '.join(KINDS)}, but got {asked!r}. Leave it out for bytes and floats."
        )
    if asked == "pixels" and not (inputs.dtype.kind in "iuf" and inputs.min() >= 0 and inputs.max() <= 255):
        raise InputError(
            f"Expected pixels in 0…255, but got {inputs.dtype} {inputs.min():g}…{inputs.max():g} in {origin}."
        )
    return asked  # type: ignore[return-value]  # one of KINDS, see above


def measure(train: Array, kind: Kind) -> Scaling | None:
    """Take mean and standard deviation of the training split.

    Pictures ``(n, channels, height, width)`` are measured channel by channel, anything else position by position, so
    that columns of a table may have scales of their own. What does not vary is only shifted.

    Args:
        train: Inputs of the training split.
        kind: What they are.

    Returns:
        How to scale; None for what stays as it is.
    """
    if kind == "raw":
        return None
    values = channels_first(train, kind)
    axes = (0, *range(2, values.ndim)) if values.ndim == 4 or kind == "pixels" else (0,)
    mean = values.mean(axes, dtype=np.float64)
    std = values.std(axes, dtype=np.float64)
    if kind == "pixels":
        mean, std = mean.astype(np.float32), np.maximum(std, _CONSTANT).astype(np.float32)
    else:
        std = np.where(std > _CONSTANT * np.abs(mean), std, 1.0)
    return Scaling(tuple(mean.ravel().tolist()), tuple(std.ravel().tolist()), is_pixels=kind == "pixels")


def to_inputs(raw: Array, scaling: Scaling | None, kind: Kind) -> Tensor:
    """Turn one split's raw inputs into what the network sees."""
    values = channels_first(raw, kind)
    if scaling is None:
        return torch.from_numpy(np.ascontiguousarray(values, np.float32))
    if scaling.is_pixels:
        return scaling.to_inputs(torch.from_numpy(np.ascontiguousarray(values)))
    made = torch.empty(values.shape, dtype=torch.float32)
    for start in range(0, len(values), _CHUNK):  # in double precision: columns may be large and vary little
        chunk = torch.from_numpy(np.ascontiguousarray(values[start : start + _CHUNK], np.float64))
        made[start : start + _CHUNK] = scaling.to_inputs(chunk)
    return made


def check_same_scale(inputs: Tensor, where: str) -> None:
    """Refuse a split that was not scaled as the training split was, such as 0…1 beside 0…255.

    Args:
        inputs: Standardised by the training split.
        where: For error messages.

    Raises:
        InputError: If the typical value is far from every training example, or nothing varies in comparison.
    """
    size = inputs.abs().median().item()
    spread = (inputs - inputs.mean(0)).abs().mean().item()
    if size > _FAR:
        seen = f"half of them are more than {size:,.0f} standard deviations off"
    elif len(inputs) > 1 and 0 < spread < 1 / _FAR:
        seen = f"they vary {1 / spread:,.0f} times less"
    else:
        return
    raise InputError(
        f"Expected inputs on the scale of the training split, but {seen} in {where}. Scale all splits alike, or write "
        "inputs=raw after npz:PATH to leave them as they are."
    )


def channels_first(inputs: Array, kind: Kind) -> Array:
    """Bring pictures ``(n, height, width, channels)``, and those of bytes without channels, into torch's order."""
    if inputs.ndim == 3 and kind == "pixels":
        return inputs[:, None]
    if inputs.ndim == 4 and kind != "raw" and inputs.shape[-1] in (1, 3, 4) and inputs.shape[1] not in (1, 3, 4):
        return inputs.transpose(0, 3, 1, 2)
    return inputs
