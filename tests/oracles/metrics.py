"""Metrics written down a second time, slowly and from their definitions, with NumPy only."""

import math

import numpy as np


def top(probs, labels):
    return probs.max(1), (probs.argmax(1) == labels).astype(float)


def ece(confidence, correct, n_bins):
    """Loop over intervals (a, b]; 0 belongs to the first."""
    total = 0.0
    for m in range(n_bins):
        inside = (confidence > m / n_bins) & (confidence <= (m + 1) / n_bins)
        if m == 0:
            inside |= confidence == 0
        if inside.any():
            total += inside.mean() * abs(confidence[inside].mean() - correct[inside].mean())
    return total


def classwise_ece(probs, labels, n_bins):
    return np.mean([ece(probs[:, k], (labels == k).astype(float), n_bins) for k in range(probs.shape[1])])


def ada_ece(confidence, correct, n_bins):
    order = np.argsort(confidence, kind="stable")
    runs = np.array_split(order, n_bins)
    return sum(len(run) / len(order) * abs(confidence[run].mean() - correct[run].mean()) for run in runs if len(run))


def squared_kce(confidence, correct, width, estimator):
    r = correct - confidence
    h = np.outer(r, r) * np.exp(-np.abs(confidence[:, None] - confidence[None]) / width)
    n = len(r)
    if estimator == "biased":
        return h.mean()
    if estimator == "unbiased":
        return (h.sum() - np.trace(h)) / (n * (n - 1))
    return np.mean([h[i, i + 1] for i in range(0, n - 1, 2)])


def skce(probs, labels, width, estimator, distance):
    n, n_classes = probs.shape
    residual = np.eye(n_classes)[labels] - probs
    apart = np.zeros((n, n))
    for i in range(n):
        difference = probs[i] - probs
        euclid = np.sqrt((difference**2).sum(1))
        apart[i] = euclid if distance == "euclidean" else np.abs(difference).sum(1) / 2
    if width is None:
        width = np.median(apart[np.triu_indices(n, 1)])
    h = residual @ residual.T * np.exp(-apart / width)
    if estimator == "biased":
        return h.mean()
    if estimator == "unbiased":
        return (h.sum() - np.trace(h)) / (n * (n - 1))
    return np.mean([h[i, i + 1] for i in range(0, n - 1, 2)])


def smooth_ece(confidence, correct, sigma, n_points=20_001, n_images=6):
    """Integrate on a fine grid with explicit mirror images of a Gaussian."""
    t = np.linspace(0, 1, n_points)
    field = np.zeros(n_points)
    for c, y in zip(confidence, correct, strict=True):
        for image in range(-n_images, n_images + 1):
            for centre in (2 * image + c, 2 * image - c):
                field += (c - y) * np.exp(-((t - centre) ** 2) / (2 * sigma**2))
    field /= len(confidence) * sigma * math.sqrt(2 * math.pi)
    return np.trapezoid(np.abs(field), t)


def aurc(confidence, correct):
    order = np.argsort(-confidence, kind="stable")
    wrong = 1 - correct[order]
    return np.mean([wrong[: k + 1].mean() for k in range(len(wrong))])


def auroc(scores, positive):
    wins = [(a > b) + 0.5 * (a == b) for a in scores[positive] for b in scores[~positive]]
    return np.mean(wins)


def debiased_ece(confidence, correct, n_bins, n_draws, rng):
    """Draw bin accuracies from a normal, as in the original code."""
    total = 0.0
    for m in range(n_bins):
        inside = (confidence > m / n_bins) & (confidence <= (m + 1) / n_bins)
        if inside.sum() >= 2:
            accuracy, mean = correct[inside].mean(), confidence[inside].mean()
            drawn = rng.normal(accuracy, math.sqrt(accuracy * (1 - accuracy) / inside.sum()), n_draws)
            total += inside.mean() * (2 * abs(mean - accuracy) - np.abs(mean - drawn).mean())
    return total
