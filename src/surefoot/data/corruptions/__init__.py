"""Common corruptions of pictures: fifteen of the benchmark and four more, each at five published strengths.

A corruption is a function ``f(x, c, generator)``: pictures ``x`` with values in [0, 1] and shape
``(n, channels, height, width)``, the parameters ``c`` of one severity, and a generator for all that it draws. It
works on the whole batch at once. What it gives is clipped and truncated to bytes here, once for all.

Strengths are those made for 32×32 pictures (CIFAR-10-C). Larger pictures need stronger ones.

Reference: Hendrycks and Dietterich 2019, arXiv:1903.12261.
"""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.errors import InputError
from surefoot.registry import CORRUPTIONS

SEVERITIES = (1, 2, 3, 4, 5)
_NEARLY = 1e-3  # of a byte: what float32 loses of a whole number before it is truncated


def corrupt(pixels: Tensor, name: str, severity: int, generator: torch.Generator) -> Tensor:
    """Corrupt pictures the way CIFAR-10-C was made.

    The result is what bytes can hold, ⌊255 · clip(f(x), 0, 1)⌋, for floats as well.

    Args:
        pixels: Shape ``(n, channels, height, width)`` with one channel or three; bytes, or floats in [0, 1].
        name: A registered corruption, such as ``"fog"``; or one of your own as ``module:function``, which gets the
            severity itself for its parameters.
        severity: From 1, mild, to 5.
        generator: Of all random draws. The same state and the same pictures give the same result.

    Returns:
        Corrupted pictures of the same shape and type.

    Raises:
        InputError: If the pixels are not pictures or there is no such severity.

    Example:
        >>> grey = torch.tensor([51, 102, 230], dtype=torch.uint8).view(1, 1, 1, 3)  # 0.2, 0.4, 0.9
        >>> corrupt(grey, "contrast", 2, torch.Generator()).flatten().tolist()  # half way to the mean, 127⅔
        [89, 114, 178]
    """
    if severity not in SEVERITIES:
        raise InputError(f"Expected a severity from 1 to 5, but got {severity}. Choose one of these.")
    part = CORRUPTIONS[name]
    x = _as_fractions(pixels)
    published = part.facts.get("severities")
    c = published[severity - 1] if published else severity
    if not len(x):
        return pixels.clone()
    made: Tensor = part.build(x, c, generator)
    y = (made.clamp(0, 1) * 255 + _NEARLY).floor()
    return y.to(torch.uint8) if pixels.dtype == torch.uint8 else (y / 255).to(pixels.dtype)


def _as_fractions(pixels: Tensor) -> Tensor:
    if pixels.ndim != 4 or pixels.shape[1] not in (1, 3):
        raise InputError(
            f"Expected pictures (n, channels, height, width) with 1 or 3 channels, but got {tuple(pixels.shape)}. "
            "Only pictures can be corrupted."
        )
    if pixels.dtype == torch.uint8:
        return pixels.float() / 255
    if not pixels.is_floating_point() or not ((pixels >= 0) & (pixels <= 1)).all():
        raise InputError(
            f"Expected pixels as bytes or as floats in [0, 1], but got {pixels.dtype} "
            f"from {pixels.min():g} to {pixels.max():g}. Scale them first."
        )
    return pixels.float()


def read_corruptions(text: str) -> tuple[str, ...]:
    """Read which corruptions are meant.

    Args:
        text: Names, separated by commas; ``main`` for the benchmark's fifteen, ``extra`` for the other four, ``all``
            for both, or a group: ``noise``, ``blur``, ``weather``, ``digital``.

    Returns:
        Names, each once, in the order of the benchmark where a word stands for several.

    Raises:
        InputError: If there are none.

    Example:
        >>> read_corruptions("weather, contrast, fog")
        ('snow', 'frost', 'fog', 'brightness', 'contrast')
        >>> len(read_corruptions("main")), len(read_corruptions("all"))
        (15, 19)
    """
    listed = sorted(CORRUPTIONS, key=lambda part: part.facts["rank"])
    found: list[str] = []
    for word in filter(None, map(str.strip, text.split(","))):
        meant = [part.name for part in listed if word in ("all", "main" if part.facts["main"] else "extra")]
        meant += [part.name for part in listed if part.facts["main"] and part.facts["group"] == word]
        found += meant or [CORRUPTIONS[word].name]
    if not found:
        raise InputError(f"Expected names of corruptions, but got {text!r}. Write main, or fog,contrast.")
    return tuple(dict.fromkeys(found))
