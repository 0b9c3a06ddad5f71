"""Colours as people see them: lightness, contrast, and how far apart two are for the colour-blind.

Vision without one kind of cone is simulated by the matrices of Machado, Oliveira and Fernandes (2009), severity 1, on
linear RGB; distances are Euclidean in CIE L*a*b*.
"""

from __future__ import annotations

import re
from importlib import resources

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
VISIONS = {
    "all cones": np.eye(3),
    "no red cones": np.array([
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ]),
    "no green cones": np.array([
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]),
    "no blue cones": np.array([
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ]),
}
_TO_XYZ = np.array([
    [0.4124564, 0.3575761, 0.1804375],
    [0.2126729, 0.7151522, 0.0721750],
    [0.0193339, 0.1191920, 0.9503041],
])


def palette(scheme: str) -> dict[str, str]:
    """Read the custom properties of the light or the dark scheme from the pages' style."""
    css = resources.files("surefoot.report").joinpath("page.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root[^{]*\{([^}]*)\}", css)[:2]
    return dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark))


def linear(colour: str) -> Array:
    """Return linear RGB of ``#rrggbb``."""
    values = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(colour: str, vision: str = "all cones") -> Array:
    """Return L*, a*, b* of a colour as seen with some cones."""
    xyz = _TO_XYZ @ np.clip(VISIONS[vision] @ linear(colour), 0, 1) / (_TO_XYZ @ np.ones(3))
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one: str, other: str, vision: str = "all cones") -> float:
    """Return how far apart two colours are; about 2 is just noticed side by side."""
    return float(np.linalg.norm(lab(one, vision) - lab(other, vision)))


def contrast(one: str, other: str) -> float:
    """Return the contrast of WCAG 2, between 1 and 21."""
    low, high = sorted(float(_TO_XYZ[1] @ linear(each)) for each in (one, other))
    return (high + 0.05) / (low + 0.05)
