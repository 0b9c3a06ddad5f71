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


def snow(image: Array, c: tuple[float, ...], layer: Array, angle: float) -> Array:
    """Layer: normal draws (h, w)."""
    mean, sd, factor, threshold, radius, sigma, mix = c
    flakes = zoom((mean + sd * layer)[..., None], factor)
    flakes = np.where(flakes < threshold, 0, np.clip(flakes, 0, 1))
    flakes = motion_blur(np.floor(flakes * 255) / 255, int(radius), sigma, angle)
    out = np.zeros_like(image)
    for y, x in np.ndindex(image.shape[:2]):
        red, green, blue = image[y, x]
        light = 1.5 * (0.299 * red + 0.587 * green + 0.114 * blue) + 0.5
        whitened = [mix * value + (1 - mix) * max(value, light) for value in image[y, x]]
        out[y, x] = np.array(whitened) + flakes[y, x] + flakes[::-1, ::-1][y, x]
    return out


def _between(image: Array, y: float, x: float, border: str) -> Array:
    h, w, _ = image.shape
    top, left = math.floor(y), math.floor(x)
    total = np.zeros(image.shape[-1])
    for i, share_y in ((0, 1 - (y - top)), (1, y - top)):
        for j, share_x in ((0, 1 - (x - left)), (1, x - left)):
            total += share_y * share_x * image[_inside(top + i, h, border), _inside(left + j, w, border)]
    return total


def _wrinkles(field: Array, sigma: float) -> Array:
    radius = int(3 * sigma + 0.5)
    bell = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2) if sigma else np.ones(1)
    kernel = np.outer(bell, bell)
    return correlate(field[..., None], kernel / kernel.sum(), "reflect")[..., 0]


def elastic(image: Array, c: tuple[float, ...], moves: Array, right: Array, down: Array) -> Array:
    """Moves: (3, 2) in [−1, 1], of three corners as (x, y); right and down: (n, n) in [−1, 1]."""
    n = len(image)
    alpha, sigma, reach = (n * part for part in c)
    third, middle = n // 3, n // 2
    corners = np.array([[middle + third * a, middle + third * b] for a, b in ((1, 1), (1, -1), (-1, -1))], float)
    # the affine map A (x, y) + t that sends the corners to where they move; pixels come from its inverse
    known = np.kron(np.eye(2), np.hstack([corners, np.ones((3, 1))]))
    a, b, e, c_, d, f = np.linalg.solve(known, (corners + moves * reach).T.reshape(-1))
    inverse = np.linalg.inv(np.array([[a, b], [c_, d]]))
    tilted, out = np.zeros_like(image), np.zeros_like(image)
    for y, x in np.ndindex(n, n):
        source_x, source_y = inverse @ (np.array([x, y]) - [e, f])
        tilted[y, x] = _between(image, source_y, source_x, "mirror")
    right, down = alpha * _wrinkles(right, sigma), alpha * _wrinkles(down, sigma)
    for y, x in np.ndindex(n, n):
        out[y, x] = _between(tilted, y + down[y, x], x + right[y, x], "reflect")
    return out


def _canny(grey: Array, low: float, high: float) -> Array:
    """Edges by Sobel gradients with |gx| + |gy|, thinned across four directions, joined from strong ones by a walk."""
    h, w = grey.shape
    padded = np.pad(grey, 1, mode="edge")
    gx, gy, size = np.zeros((h, w)), np.zeros((h, w)), np.zeros((h + 2, w + 2))
    for y, x in np.ndindex(h, w):
        (a, b, c), (d, _, f), (g, i, j) = padded[y : y + 3, x : x + 3]
        gx[y, x], gy[y, x] = (c + 2 * f + j) - (a + 2 * d + g), (g + 2 * i + j) - (a + 2 * b + c)
        size[y + 1, x + 1] = abs(gx[y, x]) + abs(gy[y, x])
    ridge = np.zeros((h, w), bool)
    for y, x in np.ndindex(h, w):
        here, steep = size[y + 1, x + 1], math.degrees(math.atan2(abs(gy[y, x]), abs(gx[y, x])))
        if steep < 22.5:
            ridge[y, x] = here > size[y + 1, x] and here >= size[y + 1, x + 2]
        elif steep > 67.5:
            ridge[y, x] = here > size[y, x + 1] and here >= size[y + 2, x + 1]
        else:
            side = -1 if (gx[y, x] < 0) != (gy[y, x] < 0) else 1
            ridge[y, x] = here > size[y, x + 1 - side] and here > size[y + 2, x + 1 + side]
    found = np.zeros((h, w), bool)
    walk = [(y, x) for y, x in np.ndindex(h, w) if ridge[y, x] and size[y + 1, x + 1] > high]
    while walk:
        y, x = walk.pop()
        if found[y, x]:
            continue
        found[y, x] = True
        around = [(y + i, x + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        walk += [(i, j) for i, j in around if 0 <= i < h and 0 <= j < w and ridge[i, j] and size[i + 1, j + 1] > low]
    return found


def _equalise(levels: Array) -> Array:
    values = sorted(levels.ravel().tolist())
    lowest = values.count(values[0])
    if lowest == len(values):
        return levels
    below = {level: sum(value <= level for value in values) - lowest for level in set(values)}
    return np.vectorize(lambda level: float(round(255 * below[level] / (len(values) - lowest))))(levels)


def spatter(image: Array, c: tuple[float, ...], layer: Array) -> Array:
    """Layer: normal draws (h, w)."""
    mean, sd, sigma, threshold, strength, is_mud = c
    liquid = gaussian_blur((mean + sd * layer)[..., None], sigma)[..., 0]
    liquid[liquid < threshold] = 0
    if is_mud:
        cover = gaussian_blur((liquid > threshold).astype(float)[..., None], strength)
        cover[cover < 0.8] = 0
        return (1 - cover) * image + cover * np.array([63, 42, 20]) / 255
    liquid = np.clip(np.floor(liquid * 255), 0, 255)
    shore = np.argwhere(_canny(liquid, 50, 150))
    distance = np.full(liquid.shape, 20.0)
    for y, x in np.ndindex(liquid.shape):
        distance[y, x] = min([20.0, *(math.hypot(y - i, x - j) for i, j in shore)])
    thirds = np.full((3, 3), 1 / 9)
    height = _equalise(np.floor(correlate(distance[..., None], thirds, "mirror") + 1e-4))
    relief = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
    lit = np.clip(correlate(height, relief, "mirror"), 0, 255)
    drops = liquid * np.floor(correlate(lit, thirds, "mirror")[..., 0] + 0.5)
    drops = strength * drops / max(drops.max(), 1e-6)
    return image + drops[..., None] * np.array([175, 238, 238]) / 255
