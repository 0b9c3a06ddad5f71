"""Losses written out in plain loops over plain numbers, as their papers and codes describe them."""

from __future__ import annotations

import math

Row = list[float]


def softmax(z: Row) -> Row:
    top = max(z)
    e = [math.exp(value - top) for value in z]
    return [value / sum(e) for value in e]


def ce(z: Row, y: int) -> float:
    return -math.log(softmax(z)[y])


def entropy(z: Row, y: int, beta: float) -> float:
    return ce(z, y) + beta * sum(p * math.log(p) for p in softmax(z))


def label_smoothing(z: Row, y: int, alpha: float) -> float:
    k = len(z)
    target = [alpha / k + (1 - alpha) * (j == y) for j in range(k)]
    return -sum(t * math.log(p) for t, p in zip(target, softmax(z), strict=True))


def mbls(z: Row, y: int, alpha: float, margin: float) -> float:
    return ce(z, y) + alpha * sum(max(0.0, max(z) - value - margin) for value in z) / len(z)


def acls(z: Row, y: int, alpha: float, lambda1: float, lambda2: float, margin: float) -> float:
    top = z.index(max(z))
    first = max(0.0, z[top] - margin) ** 2
    others = [max(0.0, z[top] - value - margin) ** 2 for j, value in enumerate(z) if j != top]
    return ce(z, y) + alpha * (lambda1 * first + lambda2 * sum(others) / len(others))


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


def cpc_as_defined(z: Row, y: int, w1: float, w2: float) -> float:
    others = [value for j, value in enumerate(z) if j != y]
    bdc = sum(softplus(value - z[y]) for value in others) / len(others)
    pairs = [(a, b) for i, a in enumerate(others) for b in others[i + 1 :]]
    bec = sum((softplus(a - b) + softplus(b - a)) / 2 for a, b in pairs) / len(pairs)
    return ce(z, y) + w1 * bdc + w2 * bec


def cpc_as_reused(z: Row, y: int, w1: float, w2: float) -> float:
    others = [value for j, value in enumerate(z) if j != y]
    k = len(z)
    bdc = sum(softplus(value - z[y]) for value in others) / (k - 1)
    bec = 0.5 * sum(softplus(a - b) for a in others for b in others) / ((k - 1) * (k - 2))
    return ce(z, y) + w1 * bdc + w2 * bec


def dual_focal(z: Row, y: int, gamma: float) -> float:
    p = softmax(z)
    q = max((value for value in p if value < p[y]), default=0.0)
    return -((1 - p[y] + q) ** gamma) * math.log(p[y])


def adafocal(z: Row, y: int, gammas: Row, edges: Row) -> float:
    p = softmax(z)[y]
    gamma = next(g for g, low, high in zip(gammas, edges, edges[1:], strict=False) if low < p <= high)
    return -((1 - math.copysign(p, gamma)) ** abs(gamma)) * math.log(p)


def mdca(zs: list[Row], ys: list[int]) -> float:
    n, k = len(zs), len(zs[0])
    ps = [softmax(z) for z in zs]
    return sum(abs(sum(p[j] for p in ps) / n - ys.count(j) / n) for j in range(k)) / k


def confidences(zs: list[Row], ys: list[int]) -> list[tuple[float, bool]]:
    return [(max(softmax(z)), z.index(max(z)) == y) for z, y in zip(zs, ys, strict=True)]


def kernel(a: float, b: float) -> float:
    return math.exp(-abs(a - b) / 0.4)


def mmce_squared(zs: list[Row], ys: list[int]) -> float:
    rows = confidences(zs, ys)
    return sum((c - r) * (d - s) * kernel(r, s) for r, c in rows for s, d in rows) / len(rows) ** 2


def mmce_weighted(zs: list[Row], ys: list[int], *, as_coded: bool) -> float:
    rows = confidences(zs, ys)
    right = [r for r, correct in rows if correct]
    wrong = [r for r, correct in rows if not correct]
    if not right or not wrong:
        return 0.0
    sums = [
        (sum((1 - a) * (1 - b) * kernel(a, b) for a in right for b in right), len(right) ** 2),
        (sum(a * b * kernel(a, b) for a in wrong for b in wrong), len(wrong) ** 2),
        (sum((1 - a) * b * kernel(a, b) for a in right for b in wrong), len(right) * len(wrong)),
    ]
    means = [total / n / ((n + 1e-5) if as_coded else 1) for total, n in sums]
    return math.sqrt(means[0] + means[1] - 2 * means[2] + 1e-10)


def dece(zs: list[Row], ys: list[int], bins: int, sharpness: float, temperature: float) -> float:
    gaps = [0.0] * bins
    for z, y in zip(zs, ys, strict=True):
        p = softmax(z)
        conf = max(p)
        place = softmax([(b * conf - sum(t / bins for t in range(b))) / temperature for b in range(1, bins + 1)])
        rank = 0.5 + sum(1 / (1 + math.exp(-sharpness * (value - p[y]))) for value in p)
        for b in range(bins):
            gaps[b] += (place[b] + 1e-6) / (1 + (bins + 1) * 1e-6) * (max(0.0, 2 - rank) - conf)
    return sum(map(abs, gaps)) / len(ys)


def ranking(confidence: Row, history: Row) -> float:
    n, total = len(confidence), 0.0
    for i in range(n):
        j = (i + 1) % n
        sign = (history[i] > history[j]) - (history[i] < history[j])
        if sign:
            total += max(0.0, -sign * (confidence[i] - confidence[j]) + abs(history[i] - history[j]))
    return total / n


def _margin(weights: list[Row], biases: Row, x: Row, y: int) -> tuple[float, int]:
    z = [sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(weights, biases, strict=True)]
    other = max((j for j in range(len(z)) if j != y), key=lambda j: z[j])
    return z[y] - z[other], other


def cw_of_a_linear_model(
    weights: list[Row], biases: Row, x: Row, y: int, low: float, high: float, steps: int, searches: int
) -> float:
    """The shortest change of one input that an attack with Adam finds, in units of high − low; gradients by hand."""
    unit = high - low
    place = [(value - low) / unit for value in x]
    best, failed, worked, c = math.inf, 0.0, math.inf, 1.0
    for _ in range(searches):
        d, first, second, succeeds = [0.0] * len(x), [0.0] * len(x), [0.0] * len(x), False
        for t in range(1, steps + 2):
            at = [low + unit * (p + v) for p, v in zip(place, d, strict=True)]
            m, other = _margin(weights, biases, at, y)
            if m < 0:
                succeeds, best = True, min(best, math.sqrt(sum(v * v for v in d)))
            for i in range(len(x)):
                grad = 2 * d[i] + (c * unit * (weights[y][i] - weights[other][i]) if m >= 0 else 0.0)
                first[i] = 0.9 * first[i] + 0.1 * grad
                second[i] = 0.999 * second[i] + 0.001 * grad * grad
                step = (first[i] / (1 - 0.9**t)) / (math.sqrt(second[i] / (1 - 0.999**t)) + 1e-8)
                d[i] = min(max(place[i] + d[i] - 0.01 * step, 0.0), 1.0) - place[i]
        if succeeds:
            worked = c
        else:
            failed = c
        c = (failed + worked) / 2 if worked < math.inf else 10 * c
    return best
