"""Ensembles written out in plain loops over plain numbers, as their papers and codes describe them."""

from __future__ import annotations

import math

Row = list[float]
Matrix = list[Row]


def softmax(z: Row) -> Row:
    top = max(z)
    e = [math.exp(value - top) for value in z]
    return [value / sum(e) for value in e]


def mean_probs(members: list[Row]) -> Row:
    """Mean of the members' probabilities of one example."""
    probs = [softmax(z) for z in members]
    return [sum(p[k] for p in probs) / len(probs) for k in range(len(members[0]))]


def linear(x: Row, weight: Matrix, bias: Row | None = None) -> Row:
    """Weight as in torch: one row per output."""
    out = [sum(w * value for w, value in zip(row, x, strict=True)) for row in weight]
    return out if bias is None else [y + b for y, b in zip(out, bias, strict=True)]


def member_weight(weight: Matrix, r: Row, s: Row) -> Matrix:
    """BatchEnsemble: W_m = W∘(s rᵀ) with one row per output."""
    return [[weight[o][i] * r[i] * s[o] for i in range(len(r))] for o in range(len(s))]


def flipout(x: Row, mu: Matrix, sigma: Matrix, noise: Matrix, flip_in: Row, flip_out: Row) -> Row:
    """Flipout of one example: the noise of weight (o, i) is flipped by both signs."""
    weight = [
        [mu[o][i] + sigma[o][i] * noise[o][i] * flip_in[i] * flip_out[o] for i in range(len(x))]
        for o in range(len(flip_out))
    ]
    return linear(x, weight)


def softplus(value: float) -> float:
    return math.log1p(math.exp(value))


def channels_of_mimo(images: list[list[Row]]) -> list[Row]:
    """M images, each a list of channels, as one: colour by colour, and within a colour member by member."""
    return [image[c] for c in range(len(images[0])) for image in images]


def snapshot_lr(a0: float, t: int, cycle: int) -> float:
    return a0 / 2 * (math.cos(math.pi * (t % cycle) / cycle) + 1)


def swa_lr(epoch: int, start: int, lr: float, swa_lr: float) -> float:
    t, ratio = epoch / start, swa_lr / lr
    if t <= 0.5:
        return lr
    if t <= 0.9:
        return lr * (1 - (1 - ratio) * (t - 0.5) / 0.4)
    return swa_lr
