"""Corruptions of one picture, pixel by pixel, as slow as they are plain; a picture is (h, w, channels) in [0, 1]."""

from __future__ import annotations

import colorsys
import math

import numpy as np

Array = np.ndarray


def _inside(index: int, n: int, border: str) -> int:
    while not 0 <= index < n:
        if border == "nearest":
            index = 0 if index < 0 else n - 1
        elif border == "mirror":
            index = -index if index < 0 else 2 * (n - 1) - index
        else:
            index = -index - 1 if index < 0 else 2 * n - 1 - index
    return index


def correlate(image: Array, kernel: Array, border: str) -> Array:
    h, w, _ = image.shape
    reach = len(kernel) // 2
    out = np.zeros_like(image)
    for y in range(h):
        for x in range(w):
            for i in range(-reach, reach + 1):
                for j in range(-reach, reach + 1):
                    source = image[_inside(y + i, h, border), _inside(x + j, w, border)]
                    out[y, x] += kernel[i + reach, j + reach] * source
    return out


def gaussian_blur(image: Array, sigma: float) -> Array:
    radius = int(4 * sigma + 0.5)
    bell = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    kernel = np.outer(bell, bell)
    return correlate(image, kernel / kernel.sum(), "nearest")


def defocus_blur(image: Array, radius: float, sigma: float) -> Array:
    line = np.arange(-3, 4)
    disk = np.array([[float(a * a + b * b <= radius * radius) for a in line] for b in line])
    bell = np.exp(-0.5 * (np.arange(-1, 2) / sigma) ** 2)
    soft = np.outer(bell, bell) / bell.sum() ** 2
    kernel = correlate((disk / disk.sum())[..., None], soft, "mirror")[..., 0]
    return correlate(image, kernel, "mirror")


def motion_blur(image: Array, radius: int, sigma: float, angle: float) -> Array:
    h, w, _ = image.shape
    weights = [math.exp(-i * i / (2 * sigma * sigma)) for i in range(2 * radius + 1)]
    out = np.zeros_like(image)
    for y in range(h):
        for x in range(w):
            for i, weight in enumerate(weights):
                down = math.ceil(i * math.sin(math.radians(angle)) - 0.5)
                right = math.ceil(i * math.cos(math.radians(angle)) - 0.5)
                out[y, x] += weight * image[_inside(y + down, h, "nearest"), _inside(x + right, w, "nearest")]
    return np.floor(out / sum(weights) * 255 + 0.5) / 255


def zoom(image: Array, factor: float) -> Array:
    n = len(image)
    inner = math.ceil(n / factor)
    start, size = (n - inner) // 2, round(inner * factor)
    trim = (size - n) // 2
    out = np.zeros_like(image)

    def line(i: int) -> tuple[int, int, float]:
        at = (i + trim) * (inner - 1) / (size - 1)
        low = min(int(at), inner - 1)
        return start + low, start + min(low + 1, inner - 1), at - low

    for y in range(n):
        for x in range(n):
            (y0, y1, v), (x0, x1, u) = line(y), line(x)
            top = (1 - u) * image[y0, x0] + u * image[y0, x1]
            out[y, x] = (1 - v) * top + v * ((1 - u) * image[y1, x0] + u * image[y1, x1])
    return out


def zoom_blur(image: Array, stop: float) -> Array:
    factors = np.arange(1, stop, 0.01)
    return (image + sum(zoom(image, factor) for factor in factors)) / (len(factors) + 1)


def glass_shuffle(image: Array, right: Array, down: Array) -> Array:
    """Walk from the last pixel to the first, copying (the published exchange of views does no more)."""
    image = image.copy()
    n = len(image)
    for y in range(n - 1, 1, -1):
        for x in range(n - 1, 1, -1):
            image[y, x] = image[y + down[y, x], x + right[y, x]]
    return image


def plasma(size: int, decay: float, draws: list[Array]) -> Array:
    heights, step, wibble, draws = np.zeros((size, size)), size, 100.0, list(draws)
    while step >= 2:
        half = step // 2
        centre, top, left = draws.pop(0), draws.pop(0), draws.pop(0)
        for i, y in enumerate(range(0, size, step)):
            for j, x in enumerate(range(0, size, step)):
                corners = sum(heights[(y + a) % size, (x + b) % size] for a in (0, step) for b in (0, step))
                heights[y + half, x + half] = corners / 4 + wibble**2 * centre[i, j]
        for i, y in enumerate(range(0, size, step)):
            for j, x in enumerate(range(0, size, step)):
                ring = heights[y, x] + heights[y, (x + step) % size]
                ring += heights[y + half, x + half] + heights[(y - half) % size, x + half]
                heights[y, x + half] = ring / 4 + wibble**2 * top[i, j]
                ring = heights[y, x] + heights[(y + step) % size, x]
                ring += heights[y + half, x + half] + heights[y + half, (x - half) % size]
                heights[y + half, x] = ring / 4 + wibble**2 * left[i, j]
        step, wibble = half, wibble / decay
    heights -= heights.min()
    return heights / heights.max()


def fog(image: Array, amount: float, decay: float, draws: list[Array]) -> Array:
    clouds = plasma(len(image), decay, draws)
    return (image + amount * clouds[..., None]) * image.max() / (image.max() + amount)


def contrast(image: Array, c: float) -> Array:
    mean = image.mean((0, 1))
    return (image - mean) * c + mean


def in_hsv(image: Array, change) -> Array:
    out = np.zeros_like(image)
    for place in np.ndindex(image.shape[:2]):
        h, s, v = colorsys.rgb_to_hsv(*image[place])
        out[place] = colorsys.hsv_to_rgb(*change(h, s, v))
    return out


def brightness(image: Array, c: float) -> Array:
    return in_hsv(image, lambda h, s, v: (h, s, min(v + c, 1.0)))


def saturate(image: Array, a: float, b: float) -> Array:
    return in_hsv(image, lambda h, s, v: (h, min(max(a * s + b, 0.0), 1.0), v))


def _box(line: Array, n: int) -> Array:
    scale = len(line) / n
    support = max(scale, 1.0) / 2
    out = []
    for i in range(n):
        middle = (i + 0.5) * scale
        inside = [k for k in range(len(line)) if -support < k + 0.5 - middle <= support]
        out.append(np.floor(np.mean([line[k] for k in inside], axis=0) + 0.5))
    return np.array(out)


def pixelate(image: Array, c: float) -> Array:
    n, pixels = len(image), np.round(image * 255)
    for size in (int(n * c), n):
        pixels = _box(pixels.transpose(1, 0, 2), size).transpose(1, 0, 2)
        pixels = _box(pixels, size)
    return pixels / 255
