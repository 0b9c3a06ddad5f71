"""Clouds by the diamond-square method."""

from __future__ import annotations

import torch
from torch import Tensor


def fractal(n: int, side: int, decay: float, generator: torch.Generator) -> Tensor:
    """Draw height maps that are rough at every scale.

    From the corners inwards each new point is the mean of its four neighbours on a torus plus w² u, u uniform in
    [−1, 1]; w starts at 100 and is divided by ``decay`` at every halving. Each map is then scaled to [0, 1].

    Args:
        n: How many maps.
        side: Least length of a side; the maps are as long as the next power of two.
        decay: The larger, the smoother.
        generator: Of the draws.

    Returns:
        Shape ``(n, size, size)``, values in [0, 1].
    """
    size = 1 << max(1, (side - 1).bit_length())
    heights = torch.zeros(n, size, size, dtype=torch.float64)
    step, wibble = size, 100.0

    def mean_of(total: Tensor, amplitude: float) -> Tensor:
        drawn = torch.rand(total.shape, generator=generator, dtype=torch.float64) * 2 - 1
        return total / 4 + amplitude**2 * drawn

    while step >= 2:
        half = step // 2
        corners = heights[:, ::step, ::step]
        pairs = corners + corners.roll(-1, 1)
        centres = mean_of(pairs + pairs.roll(-1, 2), wibble)
        heights[:, half::step, half::step] = centres
        heights[:, ::step, half::step] = mean_of(centres + centres.roll(1, 1) + corners + corners.roll(-1, 2), wibble)
        heights[:, half::step, ::step] = mean_of(centres + centres.roll(1, 2) + corners + corners.roll(-1, 1), wibble)
        step, wibble = half, wibble / decay
    heights -= heights.amin((1, 2), keepdim=True)
    return heights / heights.amax((1, 2), keepdim=True)
