"""What a run's records say about its steps: whether the loss runs away, and where the sharpness stands."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.serve.runs import number, of_tracker

Record = Mapping[str, Any]
BLOCK = 10  # steps over which a noisy loss is averaged
NEW = 3  # blocks that all have to be higher
SIGMAS = {20: 5.0, 12: 5.0, 8: 7.0}  # by how many blocks say what is usual: the fewer, the less is σ known
GAP = 10  # blocks left out, so that a slow rise does not hide itself
LOOKED_AT = BLOCK * (max(SIGMAS) + GAP + NEW)  # steps
LOOKS = 10  # at the sharpness, before anything is said of it
MEAN, EACH = (0.95, 1.25), (0.85, 1.5)  # shares of the threshold at which their mean, and each of them, is at it
DRIFT = 0.1  # of the threshold, over all these looks: more is passing by, not sitting


def diverging(records: Sequence[Record]) -> str | None:
    r"""Speak where the loss is not finite, or its last three blocks all lie 5 σ above the blocks before.

    A block is the mean of ten steps; m and s are mean and standard deviation of the k blocks before, at most 20. For
    independent normal blocks the probability that all three exceed m + c s by chance is

    .. math:: \mathbb{E}\,[\,(1 - \Phi(c\,s + m))^3\,], \quad s^2 \sim \chi^2_{k-1} / (k - 1),\ m \sim N(0, 1/k),

    which is 3.5e-9 for k = 20 and c = 5, 3.2e-7 for k = 12 and c = 5, and 8.5e-7 for k = 8 and c = 7: what is less well
    known has to rise more. A loss that falls makes s larger and the rule safer. A slow rise would enter m and s itself;
    so where there are steps enough, the 20 blocks that ended 100 steps earlier are asked too.

    A rise after the learning rate was more than doubled, as by a warm restart, is told with its cause.
    """
    steps = [record for record in records if "tracker" not in record and "loss" in record]
    if not steps:
        return None
    bad = next((i for i, record in enumerate(steps) if number(record["loss"]) is None), None)
    if bad is not None:
        return f"Diverged: the loss is not finite since step {steps[bad].get('step')}. Lower the learning rate."
    member = steps[-1].get("member")
    steps = [record for record in steps[-LOOKED_AT:] if record.get("member") == member]  # another network starts anew
    steps = steps[len(steps) % BLOCK :]
    means = [statistics.fmean(float(r["loss"]) for r in steps[i : i + BLOCK]) for i in range(0, len(steps), BLOCK)]
    earlier = means[:-NEW]
    told = _rise(means, earlier) or (_rise(means, earlier[:-GAP]) if len(earlier) >= max(SIGMAS) + GAP else None)
    if told is None:
        return None
    rates = [rate for record in steps if (rate := number(record.get("lr"))) is not None]
    new = BLOCK * (NEW + 1)
    if len(rates) == len(steps) and max(rates[-new:]) > 2 * (low := statistics.median(rates[:-new])):
        return f"With the learning rate, which rose from {low:.3g} to {max(rates[-new:]):.3g}, {told}."
    return f"Diverging: {told}."


def _rise(means: Sequence[float], earlier: Sequence[float]) -> str | None:
    """Say how far the last blocks lie above the last of the earlier ones; None where that is not far."""
    count = next((k for k in SIGMAS if k <= len(earlier)), None)
    if count is None:
        return None
    usual, spread = statistics.fmean(earlier[-count:]), statistics.stdev(earlier[-count:])
    rise = min(means[-NEW:]) - usual
    if rise <= SIGMAS[count] * spread or rise <= 1e-9 + 0.01 * abs(usual):
        return None
    sigmas = f"{rise / spread:.0f} σ" if spread > 0 and rise / spread < 1000 else "far more than its noise"
    return f"the loss rose {sigmas} and stays there for {NEW * BLOCK} steps, from {usual:.3g} to {means[-1]:.3g}"


def sharpness(records: Sequence[Record]) -> str | None:
    """Speak where the last ten looks at the sharpness all lie at the threshold of stability, or all beyond it.

    The threshold is 2/η, with momentum β (2 + 2β)/η, of the learning rate at each look. At the edge of stability the
    sharpness hovers at it or just above. *At it* is: their mean from 0.95 to 1.25 of it, each from 0.85 to 1.5, and a
    line through them rises or falls by less than 10 % of the threshold. So a sharpness that levels off at 90 % of it is
    not told, nor one that passes by with more than 1.2 % per look, but for noise: how often, ``benchmarks/watch.py
    --findings`` counts. What is told is the range of all ten looks, which assumes nothing: neighbouring looks are far
    from independent.
    """
    looks = []
    for record in of_tracker(records, "gn_sharpness"):
        value, limit = number(record.get("gn_sharpness/value")), number(record.get("gn_sharpness/threshold"))
        if value is not None and limit and (ratio := number(value / limit)) is not None:
            looks.append((ratio, limit, number(record.get("gn_sharpness/two_over_lr"))))
    if len(looks) < LOOKS:
        return None
    ratios = [ratio for ratio, _, _ in looks[-LOOKS:]]
    mean, low, high = statistics.fmean(ratios), min(ratios), max(ratios)
    drift = (LOOKS - 1) * statistics.linear_regression(range(LOOKS), ratios).slope
    _, limit, plain = looks[-1]
    name = "2/η" if plain is None or math.isclose(limit, plain, rel_tol=1e-6) else "(2 + 2β)/η"
    told = f"{mean:.2f} of it, {low:.2f} to {high:.2f} at the last {LOOKS} looks"
    if MEAN[0] <= mean <= MEAN[1] and low >= EACH[0] and high <= EACH[1] and abs(drift) < DRIFT:
        return f"Sharpness sits at {name}: {told}."
    if low > MEAN[1]:
        return f"Sharpness is beyond {name}: {told}. Expect the loss to jump."
    return None
