"""Slow, plain references for the optimizers: numpy, float64, flat vectors, one line per line of the papers.

Nothing here imports the package. A method is a class with ``gradient(w, grad)``, which returns the vector that the
base optimizer steps on; ``grad(w, outer=False)`` evaluates the batch's gradient anywhere.
"""

import numpy as np


def norm(v):
    return np.sqrt((v**2).sum())


class SoftmaxRegression:
    """Logits = X Wᵀ + b; w is W (row by row) followed by b."""

    def __init__(self, inputs, labels, n_classes, gamma=0.0):
        self.x, self.y, self.k, self.gamma = inputs, labels, n_classes, gamma

    def probs(self, w):
        d = self.x.shape[1]
        z = self.x @ w[: self.k * d].reshape(self.k, d).T + w[self.k * d :]
        e = np.exp(z - z.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def losses(self, w):
        return -np.log(self.probs(w)[np.arange(len(self.y)), self.y])

    def grad(self, w, outer=False, keep=None):
        """Gradient of the mean loss; ``outer`` damps with gamma, ``keep`` restricts it to some examples."""
        p, onehot = self.probs(w), np.eye(self.k)[self.y]
        py = p[np.arange(len(self.y)), self.y]
        slope = -1 / py
        if outer:
            damped = -((1 + py) ** -self.gamma) / py + self.gamma * (1 + py) ** (-self.gamma - 1) * np.log(py)
            slope = np.where(py > 0.5, damped, slope)
        dz = slope[:, None] * py[:, None] * (onehot - p)
        chosen = np.arange(len(self.y)) if keep is None else keep
        dz, x = dz[chosen] / len(chosen), self.x[chosen]
        return np.concatenate([(dz.T @ x).ravel(), dz.sum(0)])


class Sgd:
    def __init__(self, lr, momentum=0.0, weight_decay=0.0):
        self.lr, self.momentum, self.weight_decay, self.buffer = lr, momentum, weight_decay, None

    def step(self, w, g):
        g = g + self.weight_decay * w
        self.buffer = g if self.buffer is None else self.momentum * self.buffer + g
        return w - self.lr * self.buffer


class AdamW:
    def __init__(self, lr, weight_decay=0.01, b1=0.9, b2=0.999, eps=1e-8):
        self.lr, self.wd, self.b1, self.b2, self.eps, self.t, self.m, self.v = lr, weight_decay, b1, b2, eps, 0, 0, 0

    def step(self, w, g):
        self.t += 1
        w = w * (1 - self.lr * self.wd)
        self.m = self.b1 * self.m + (1 - self.b1) * g
        self.v = self.b2 * self.v + (1 - self.b2) * g**2
        return w - self.lr * (self.m / (1 - self.b1**self.t)) / (np.sqrt(self.v / (1 - self.b2**self.t)) + self.eps)


class Plain:
    def gradient(self, w, problem):
        return problem.grad(w)


class Sam:
    """SAM, and everything that differs from it only in ε or in what is done with g̃."""

    def __init__(self, rho, outer=False, stable=False):
        self.rho, self.outer, self.stable = rho, outer, stable

    def eps(self, w, g):
        return self.rho * g / norm(g)

    def final(self, w, g, g_tilde):
        return g_tilde

    def gradient(self, w, problem):
        g = problem.grad(w)
        g_tilde = problem.grad(w + self.eps(w, g), outer=self.outer)
        if self.stable:
            g_tilde = g_tilde * norm(g) / norm(g_tilde)
        return self.final(w, g, g_tilde)


class Usam(Sam):
    def eps(self, w, g):
        return self.rho * g


class Asam(Sam):
    def __init__(self, rho, eta, is_weight, **kw):
        super().__init__(rho, **kw)
        self.eta, self.is_weight = eta, is_weight

    def eps(self, w, g):
        t = np.where(self.is_weight, np.abs(w) + self.eta, 1.0)
        return self.rho * t**2 * g / norm(t * g)


class FisherSam(Sam):
    def __init__(self, rho, eta, **kw):
        super().__init__(rho, **kw)
        self.eta = eta

    def eps(self, w, g):
        inverse = 1 / (1 + self.eta * g**2)
        return self.rho * inverse * g / np.sqrt((g * inverse * g).sum())


class Vasso(Sam):
    d = None

    def __init__(self, rho, theta, **kw):
        super().__init__(rho, **kw)
        self.theta = theta

    def eps(self, w, g):
        self.d = g if self.d is None else (1 - self.theta) * self.d + self.theta * g
        return self.rho * self.d / norm(self.d)


class FriendlySam(Sam):
    """The paper's order: the average is updated before it is taken away."""

    m = None

    def __init__(self, rho, sigma, lam, **kw):
        super().__init__(rho, **kw)
        self.sigma, self.lam = sigma, lam

    def eps(self, w, g):
        if self.m is None:
            self.m, d = g, g
        else:
            self.m = self.lam * self.m + (1 - self.lam) * g
            d = g - self.sigma * self.m
        return self.rho * d / norm(d)


class Gsam(Sam):
    def __init__(self, rho, alpha, **kw):
        super().__init__(rho, **kw)
        self.alpha = alpha

    def final(self, w, g, g_tilde):
        unit = g_tilde / norm(g_tilde)
        return g_tilde - self.alpha * (g - (g @ unit) * unit)


class Gnp(Sam):
    def __init__(self, rho, alpha, **kw):
        super().__init__(rho, **kw)
        self.alpha = alpha

    def final(self, w, g, g_tilde):
        return (1 - self.alpha) * g + self.alpha * g_tilde


class Wsam(Sam):
    """Decoupled: the extra move is left in ``extra``, to be multiplied by the learning rate."""

    def __init__(self, rho, gamma, **kw):
        super().__init__(rho, **kw)
        self.a = gamma / (1 - gamma)

    def final(self, w, g, g_tilde):
        self.extra = self.a * (g_tilde - g)
        return g


class LookSam(Sam):
    """g_v on the whole vector."""

    def __init__(self, rho, k, alpha, **kw):
        super().__init__(rho, **kw)
        self.k, self.alpha, self.t = k, alpha, 0

    def gradient(self, w, problem):
        self.t += 1
        g = problem.grad(w)
        if (self.t - 1) % self.k == 0:
            g_s = problem.grad(w + self.eps(w, g))
            self.g_v = g_s - (g_s @ g) / norm(g) ** 2 * g
            return g_s
        return g + self.alpha * norm(g) / norm(self.g_v) * self.g_v


class AeSam(Sam):
    mu = var = 0.0
    t = 0

    def __init__(self, rho, delta, lambda1, lambda2, n_steps):
        super().__init__(rho)
        self.delta, self.lambda1, self.lambda2, self.n_steps = delta, lambda1, lambda2, n_steps
        self.climbed = []

    def gradient(self, w, problem):
        q = norm(problem.grad(w)) ** 2
        self.mu = self.delta * self.mu + (1 - self.delta) * q
        self.var = self.delta * self.var + (1 - self.delta) * (q - self.mu) ** 2
        done = self.t / self.n_steps
        c = done * self.lambda1 + (1 - done) * self.lambda2
        self.t += 1
        self.climbed.append(bool(q >= self.mu + c * np.sqrt(self.var)))
        return super().gradient(w, problem) if self.climbed[-1] else problem.grad(w)


class BSam:
    """Bayes SAM without noise unless ``noise`` says otherwise; makes its own step."""

    def __init__(self, size, lr, rho, b1, b2, n, damping, delta):
        self.m, self.s = np.zeros(size), np.ones(size)
        self.lr, self.rho, self.b1, self.b2, self.n, self.damping, self.delta = lr, rho, b1, b2, n, damping, delta

    def step(self, w, problems, noises):
        """One step; one problem and one noise vector per sub-batch."""
        g_tildes, qs = [], []
        for problem, noise in zip(problems, noises, strict=True):
            g = problem.grad(w + noise / np.sqrt(self.n * self.s))
            g_tildes.append(problem.grad(w + self.rho * g / self.s))
            qs.append(np.sqrt(self.s) * np.abs(g))
        self.m = self.b1 * self.m + (1 - self.b1) * (np.mean(g_tildes, 0) + self.delta * w)
        w = w - self.lr * self.m / self.s
        self.s = self.b2 * self.s + (1 - self.b2) * (np.mean(qs, 0) + self.damping + self.delta)
        return w


def newton_schulz(g, steps=5):
    """Muon's orthogonalisation in float64."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / norm(x)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if g.shape[0] > g.shape[1] else x
