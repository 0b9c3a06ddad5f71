"""Augmentations of one image at a time, pixel by pixel, where the random numbers are given."""

from __future__ import annotations

import numpy as np


def crop(image: np.ndarray, black: np.ndarray, padding: int, top: int, left: int) -> np.ndarray:
    """Look at an image through a window that is shifted by (top − padding, left − padding)."""
    channels, height, width = image.shape
    seen = np.empty_like(image)
    for c in range(channels):
        for i in range(height):
            for j in range(width):
                y, x = i + top - padding, j + left - padding
                seen[c, i, j] = image[c, y, x] if 0 <= y < height and 0 <= x < width else black[c]
    return seen


def flip(image: np.ndarray, flipped: bool) -> np.ndarray:
    """Exchange left and right."""
    return image[:, :, ::-1] if flipped else image


def cutout(image: np.ndarray, size: int, y: int, x: int) -> np.ndarray:
    """Set a square around (y, x) to zero; of an even square, the pixel is the first of its second half."""
    left = image.copy()
    for i in range(y - size // 2, y - size // 2 + size):
        for j in range(x - size // 2, x - size // 2 + size):
            if 0 <= i < image.shape[1] and 0 <= j < image.shape[2]:
                left[:, i, j] = 0
    return left
