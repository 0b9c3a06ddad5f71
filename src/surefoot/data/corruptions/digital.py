"""What programs do to pictures: warp them, shrink them; JPEG has a file of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.data.corruptions._gather import interpolate, places, to_bytes
from surefoot.data.corruptions._separable import box_matrix, gaussian
from surefoot.registry import CORRUPTIONS


@CORRUPTIONS.register(
    "elastic_transform",
    group="digital",
    main=True,
    rank=13,
    severities=((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
)
def elastic_transform(x: Tensor, c: tuple[float, float, float], generator: torch.Generator) -> Tensor:
    """Tilt, then crumple: c = (α, σ of the wrinkles, reach of the tilt), in widths of the picture."""
    n, _, h, w = x.shape
    alpha, sigma, reach = (min(h, w) * part for part in c)
    moves = (torch.rand(n, 3, 2, generator=generator, dtype=torch.float64) * 2 - 1) * reach
    rows, columns = _tilted(x, moves)
    x = interpolate(x, rows, columns, "mirror")
    right, down = (torch.rand(2, n, h, w, generator=generator) * 2 - 1).unbind()
    down, right = (alpha * gaussian(field, sigma, border="reflect", truncate=3) for field in (down, right))
    rows, columns = places(x)
    return interpolate(x, rows + down, columns + right, "reflect")


def _tilted(x: Tensor, moves: Tensor) -> tuple[Tensor, Tensor]:
    """Say where each pixel comes from under the affine map that moves three corners of a square in the middle."""
    h, w = x.shape[-2:]
    middle = torch.tensor([h // 2, w // 2], dtype=torch.float64)
    third = min(h, w) // 3
    corners = middle + third * torch.tensor([[1, 1], [1, -1], [-1, -1]], dtype=torch.float64)
    moved = torch.cat([corners + moves, torch.ones(len(x), 3, 1, dtype=torch.float64)], 2)
    back = torch.linalg.solve(moved, corners.expand(len(x), 3, 2))  # (x', y', 1) · back = (x, y)
    rows, columns = places(x)
    points = torch.stack([columns.expand(h, w), rows.expand(h, w), torch.ones(h, w, dtype=torch.int64)], -1)
    source = points.reshape(1, h * w, 3).double() @ back
    return source[..., 1].view(-1, h, w), source[..., 0].view(-1, h, w)


@CORRUPTIONS.register("pixelate", group="digital", main=True, rank=14, severities=(0.95, 0.9, 0.85, 0.75, 0.65))
def pixelate(x: Tensor, c: float, generator: torch.Generator) -> Tensor:
    """Shrink to a share c of the width and height by the means of boxes, and enlarge again."""
    h, w = x.shape[-2:]
    small_h, small_w = (max(1, int(size * c)) for size in (h, w))
    for rows, columns in (
        (box_matrix(h, small_h), box_matrix(w, small_w)),
        (box_matrix(small_h, h), box_matrix(small_w, w)),
    ):
        x = to_bytes(x @ columns.to(x).T)
        x = to_bytes(rows.to(x) @ x)
    return x
