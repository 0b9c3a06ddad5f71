"""JPEG compression: what it loses, without writing a file."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from surefoot.data.corruptions._separable import separable
from surefoot.registry import CORRUPTIONS

# The example tables of ITU-T T.81, annex K, for quality 50.
_LUMINANCE = (
    *(16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55),
    *(14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62),
    *(18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92),
    *(49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99),
)
_CHROMINANCE = (
    *(17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99),
    *(24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 32),
)
_TIE = 1e-4  # halves are rounded away from zero, also those that float32 leaves a little short
_TO_YCC = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))
_TO_RGB = ((1.0, 0.0, 1.402), (1.0, -0.344136, -0.714136), (1.0, 1.772, 0.0))


@CORRUPTIONS.register("jpeg_compression", group="digital", main=True, rank=15, severities=(80, 65, 58, 50, 40))
def jpeg_compression(x: Tensor, c: int, generator: torch.Generator) -> Tensor:
    """JPEG of quality c with colours at half the resolution; grey pictures have no colours."""
    pixels = (x * 255).round()
    h, w = pixels.shape[-2:]
    if pixels.shape[1] == 1:
        return _lossy(pixels - 128, quantiser(_LUMINANCE, c)).add(128).round().clamp(0, 255) / 255
    luma, chroma = _mix(pixels, _TO_YCC).round().split((1, 2), 1)
    half = _halved(chroma)
    luma = _lossy(luma - 128, quantiser(_LUMINANCE, c)).add(128).round().clamp(0, 255)
    half = _lossy(half, quantiser(_CHROMINANCE, c)).round().clamp(-128, 127)
    rows, columns = (_doubling(size) for size in half.shape[-2:])
    bias = 0.5 - (torch.arange(w) % 2) / 16  # decoders add 8 and 7 sixteenths in turn
    chroma = (separable(half, rows, columns)[..., :h, :w] + bias).floor()
    return _mix(torch.cat([luma, chroma], 1), _TO_RGB).round().clamp(0, 255) / 255


def quantiser(table: tuple[int, ...], quality: int) -> Tensor:
    """Scale a table to a quality: ⌊(t · s + 50) / 100⌋ in 1…255, s = 200 − 2q, or 5000 / q below 50.

    Example:
        >>> quantiser(_LUMINANCE, 80)[0, :4].tolist()
        [6.0, 4.0, 4.0, 6.0]
    """
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return ((torch.tensor(table) * scale + 50) // 100).clamp(1, 255).view(8, 8).float()


def _mix(x: Tensor, matrix: tuple[tuple[float, ...], ...]) -> Tensor:
    return torch.einsum("ij,njhw->nihw", torch.tensor(matrix), x)


def _halved(x: Tensor) -> Tensor:
    """Take means of 2×2, rounded down and up in turn from column to column, as the common encoder does."""
    h, w = x.shape[-2:]
    total = 4 * F.avg_pool2d(F.pad(x, (0, w % 2, 0, h % 2), mode="replicate"), 2)
    bias = 1 + torch.arange(total.shape[-1]) % 2
    return ((total + bias) / 4).floor()


def _lossy(x: Tensor, table: Tensor) -> Tensor:
    """Round the cosine coefficients of 8×8 blocks to multiples of the table."""
    n, channels, h, w = x.shape
    down, right = -h % 8, -w % 8
    blocks = F.pad(x, (0, right, 0, down), mode="replicate")
    blocks = blocks.view(n, channels, (h + down) // 8, 8, (w + right) // 8, 8).transpose(3, 4)
    basis = _cosines()
    eighths = (8 * separable(blocks, basis, basis)).round()  # encoders compute in whole numbers of these
    kept = eighths.sign() * ((eighths.abs() + 4 * table) / (8 * table) + _TIE).floor() * table
    found = separable(kept, basis.T, basis.T).transpose(3, 4)
    return found.reshape(n, channels, h + down, w + right)[..., :h, :w]


def _cosines() -> Tensor:
    """Return the orthogonal 8×8 matrix of the discrete cosine transform."""
    k, i = torch.arange(8.0)[:, None], torch.arange(8.0)
    matrix = torch.cos(math.pi * k * (2 * i + 1) / 16) / 2
    matrix[0] /= math.sqrt(2)
    return matrix


def _doubling(n: int) -> Tensor:
    """Write as a 2n×n matrix: each pixel becomes two, ¾ of itself and ¼ of the neighbour on that side."""
    matrix = torch.zeros(2 * n, n)
    for row in range(2 * n):
        neighbour = min(max(row // 2 + (1 if row % 2 else -1), 0), n - 1)
        matrix[row, row // 2] += 0.75
        matrix[row, neighbour] += 0.25
    return matrix
