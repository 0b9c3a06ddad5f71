"""What a run's records say, in sentences: rules with intervals, which speak only where chance does not explain it.

Each rule is a pure function of records, in the order in which they were made, and gives a sentence or nothing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from surefoot.serve.runs import held_out, number

Record = Mapping[str, Any]
Z = 1.96  # standard errors in an interval of 95 %
BLOCK = 10  # steps over which a noisy loss is averaged
BEFORE = 8  # such blocks that say what is usual
SIGMAS = 5.0
LOOKS = 5  # at the sharpness, before anything is said of it
NEAR = 0.15  # of the threshold: how close is at it


def findings(records: Sequence[Record], kept: Collection[int] = ()) -> list[str]:
    """Say what is worth knowing about a run now.

    Args:
        records: Lines of ``steps.jsonl``, whole.
        kept: Steps whose checkpoints are there.

    Returns:
        Sentences, the most urgent first; none where nothing stands out.

    Example:
        >>> findings([{"step": 7, "epoch": 0, "loss": float("nan")}])
        ['Diverged: the loss is not finite since step 7. Lower the learning rate.']
    """
    rules: tuple[Callable[[Sequence[Record]], str | None], ...] = (
        diverging,
        confidence,
        lambda all_: best_nll(all_, kept),
        ece_and_chance,
        sharpness,
        controller,
        failures,
    )
    return [said for rule in rules if (said := rule(records)) is not None]


def of_tracker(records: Sequence[Record], name: str) -> list[Record]:
    """Return what one tracker saw, without the looks at which it failed or was skipped."""
    return [r for r in records if r.get("tracker") == name and "failed" not in r and "skipped" not in r]


def diverging(records: Sequence[Record]) -> str | None:
    """Speak where the loss is not finite, or its last two blocks both lie 5 σ above the blocks before.

    σ is the standard deviation of means over ten steps, of eight blocks; noise does this less than once in a million.
    """
    steps = [record for record in records if "tracker" not in record and "loss" in record]
    if not steps:
        return None
    bad = next((i for i, record in enumerate(steps) if number(record["loss"]) is None), None)
    if bad is not None:
        return f"Diverged: the loss is not finite since step {steps[bad].get('step')}. Lower the learning rate."
    losses = [float(record["loss"]) for record in steps[-BLOCK * (BEFORE + 2) :]]
    if len(losses) < BLOCK * (BEFORE + 2):
        return None
    means = [statistics.fmean(losses[i : i + BLOCK]) for i in range(0, len(losses), BLOCK)]
    usual, spread = statistics.fmean(means[:BEFORE]), statistics.stdev(means[:BEFORE])
    rise = min(means[BEFORE:]) - usual
    if rise <= SIGMAS * spread or rise <= 1e-9 + 0.01 * abs(usual):
        return None
    sigmas = f"{rise / spread:.0f} σ" if spread > 0 and rise / spread < 1000 else "far more than its noise"
    return f"Diverging: the loss rose {sigmas} within {2 * BLOCK} steps, from {usual:.3g} to {means[-1]:.3g}."


def confidence(records: Sequence[Record]) -> str | None:
    """Speak of over- or under-confidence where the gap is clear of 0 now: since when, how much, which T repairs it."""
    looks = [(r, *found) for r in of_tracker(records, "quality") if (found := _gap(r)) is not None]
    if not looks:
        return None
    newest, gap, error = looks[-1]
    if abs(gap) <= Z * error:
        return None
    sign, first = math.copysign(1, gap), newest
    for record, value, spread in reversed(looks):
        if sign * value <= Z * spread:
            break
        first = record
    word = "Over-confidence" if gap > 0 else "Under-confidence"
    since = "is there since before the first step" if not first.get("step") else f"began at epoch {_epoch(first)}"
    said = f"{word} {since} and is {100 * abs(gap):.1f} ± {100 * Z * error:.1f} points now"
    return f"{said}{_temperature(newest, sign)}."


def _temperature(record: Record, sign: float) -> str:
    """Name the temperature that repairs it, if its interval does not hold 1."""
    split = held_out(record)
    log_t, error = number(record.get(f"{split}/log_temperature")), number(record.get(f"{split}/log_temperature_error"))
    if log_t is None or error is None or sign * log_t <= Z * error:
        return ""
    low, high = math.exp(log_t - Z * error), math.exp(log_t + Z * error)
    return f"; temperature {math.exp(log_t):.2f} ({low:.2f} to {high:.2f}) would repair it"


def best_nll(records: Sequence[Record], kept: Collection[int] = ()) -> str | None:
    """Speak where the held-out NLL has risen above its best by more than both errors together explain.

    The same rows are looked at each time, so the difference has less noise than this: what is said is on the safe side.
    """
    looks = []
    for record in of_tracker(records, "quality"):
        split = held_out(record)
        nll, error = number(record.get(f"{split}/loss")), number(record.get(f"{split}/loss_error"))
        if nll is not None and error is not None:
            looks.append((nll, error, record))
    if len(looks) < 2:
        return None
    (best, best_error, where), (now, now_error, _) = min(looks, key=lambda look: look[0]), looks[-1]
    if now - best <= Z * math.hypot(best_error, now_error):
        return None
    if where.get("step") in kept:
        has = f"checkpoint/step-{int(where['step']):08d} has it"
    else:
        has = "--keep-checkpoints 1 keeps the next one"
    return f"NLL was best at epoch {_epoch(where)}: {best:.3f}, now {now:.3f} ± {Z * now_error:.3f}; {has}."


def ece_and_chance(records: Sequence[Record]) -> str | None:
    """Say whether the newest ECE is more than chance makes of so few rows."""
    looks = of_tracker(records, "quality")
    if not looks:
        return None
    split = held_out(looks[-1])
    ece, limit = number(looks[-1].get(f"{split}/ece")), number(looks[-1].get(f"{split}/ece_by_chance"))
    if ece is None or limit is None:
        return None
    if ece <= limit:
        return f"ECE {100 * ece:.1f} % is within what chance alone makes of these rows (up to {100 * limit:.1f} %)."
    return f"ECE {100 * ece:.1f} % is more than chance makes of these rows (up to {100 * limit:.1f} %)."


def sharpness(records: Sequence[Record]) -> str | None:
    """Speak where the last looks at the sharpness all lie at the threshold of stability, or all beyond it.

    The threshold is 2/η, with momentum β (2 + 2β)/η, of the learning rate at each look.
    """
    looks = []
    for record in of_tracker(records, "gn_sharpness"):
        value, limit = number(record.get("gn_sharpness/value")), number(record.get("gn_sharpness/threshold"))
        if value is not None and limit:
            looks.append((value / limit, limit, number(record.get("gn_sharpness/two_over_lr"))))
    if len(looks) < LOOKS:
        return None
    ratios = [ratio for ratio, _, _ in looks[-LOOKS:]]
    mean, error = statistics.fmean(ratios), statistics.stdev(ratios) / math.sqrt(LOOKS)
    _, limit, plain = looks[-1]
    name = "2/η" if plain is None or math.isclose(limit, plain, rel_tol=1e-6) else "(2 + 2β)/η"
    told = f"{mean:.2f} ± {Z * error:.2f} of it over the last {LOOKS} looks"
    if all(abs(ratio - 1) <= NEAR for ratio in ratios):
        return f"Sharpness sits at {name}: {told}."
    if min(ratios) > 1 + NEAR and mean - Z * error > 1 + NEAR:
        return f"Sharpness is beyond {name}: {told}. Expect the loss to jump."
    return None


def controller(records: Sequence[Record]) -> str | None:
    """Say what the controller has turned, by which signal."""
    looks = of_tracker(records, "keep_calibrated")
    if not looks:
        return None
    newest, turned = looks[-1], []
    for key, letter in (("steering/rho", "ρ"), ("steering/gamma", "γ"), ("steering/weight_decay", "weight decay")):
        values = [value for look in looks if (value := number(look.get(key))) is not None]
        if values and values[-1] != values[0]:
            turned.append(f"{letter} from {values[0]:.3g} to {values[-1]:.3g}")
    log_t, error = number(newest.get("steering/log_temperature")), number(newest.get("steering/error"))
    if not turned or log_t is None or error is None:
        return None
    clear = "clear of 0" if abs(log_t) > Z * error else "not clear of 0"
    return f"The controller turned {', '.join(turned)}; log T is {log_t:+.3f} ± {Z * error:.3f} now, {clear}."


def failures(records: Sequence[Record]) -> str | None:
    """Say which trackers measure nothing, and why."""
    newest = {r["tracker"]: r["failed"] for r in records if "failed" in r and isinstance(r.get("tracker"), str)}
    if not newest:
        return None
    return "; ".join(f"Tracker {name} measures nothing: {str(why)[:200]}" for name, why in newest.items())


def _gap(record: Record) -> tuple[float, float] | None:
    split = held_out(record)
    gap, error = number(record.get(f"{split}/gap")), number(record.get(f"{split}/gap_error"))
    return None if gap is None or error is None else (gap, error)


def _epoch(record: Record) -> int | str:
    found = number(record.get("epoch"))
    return "?" if found is None else int(found)
