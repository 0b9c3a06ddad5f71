"""What a run's records say, in sentences: rules with intervals, which speak only where chance does not explain it.

Each rule is a pure function of records, in the order in which they were made, and gives a sentence or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from surefoot.serve.runs import held_out, number, of_tracker
from surefoot.serve.stability import diverging, sharpness

Record = Mapping[str, Any]
Z = 1.96  # standard errors in an interval of 95 %
APART = 2.58  # of 99 %: an NLL is told from the best of many
LARGEST = math.log(19)  # log T: temperatures are looked for up to 20, and one at the end repairs nothing
FALSE = 1e-3  # how often at most one look at a calibrated network is told to be over- or under-confident


def findings(records: Sequence[Record], kept: Collection[int] | None = ()) -> list[str]:
    """Say what is worth knowing about a run now.

    Args:
        records: Lines of ``steps.jsonl``, whole.
        kept: Steps whose checkpoints are there; None for a loop that keeps none.

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


def confidence(records: Sequence[Record]) -> str | None:
    """Speak of over- or under-confidence where chance does not make the gap: since when, how much, which T repairs it.

    It is told where the newest gap is beyond :func:`gap_by_chance`, which a calibrated network is at one look in a
    thousand at most: in a run of 50 looks with a probability below 5 %, however looks depend on each other. It began at
    the first look of the stretch up to now in which the 95 % interval of the gap does not hold 0.
    """
    looks = reversed(of_tracker(records, "quality"))  # of a long run only those since it began
    known = ((record, *found) for record in looks if (found := _gap(record)) is not None)
    newest, gap, error = next(known, ({}, 0.0, 0.0))
    limit = gap_by_chance(newest)
    if limit is None or abs(gap) <= max(limit, Z * error):
        return None
    sign = math.copysign(1, gap)
    first: Record = newest
    for record, value, spread in known:
        if sign * value <= Z * spread:
            break
        first = record
    word = "Over-confidence" if gap > 0 else "Under-confidence"
    since = "is there since before the first step" if not first.get("step") else f"began at epoch {_epoch(first)}"
    said = f"{word} {since} and is {100 * abs(gap):.1f} ± {100 * Z * error:.1f} points now"
    return f"{said}{_temperature(newest, sign)}."


def gap_by_chance(record: Record) -> float | None:
    r"""Return a gap that a calibrated network exceeds at one look in a thousand at most, from its reliability bins.

    Hits are then independent, with the confidences c as probabilities. By Bernstein's inequality, with V = Σ c (1 − c)
    and L = log(2 / 0.001),

    .. math:: P(|\sum (c - \text{hit})| > L/3 + \sqrt{L^2/9 + 2 V L}) \le 0.001.

    It holds for any number of rows and however rare errors are, where standard errors do not. V is taken from the
    bins' mean confidences, which makes it no smaller.

    Args:
        record: A look of the tracker ``quality``.

    Returns:
        The limit; None where there are no bins.

    Example:
        >>> bins = {"count": [1000], "confidence": [0.9], "accuracy": [0.8]}
        >>> round(gap_by_chance({"bins": bins}), 4)
        0.0396
    """
    bins = record.get("bins")
    columns = [bins.get(name) for name in ("count", "confidence")] if isinstance(bins, Mapping) else [None]
    if not all(isinstance(column, list) for column in columns):
        return None
    pairs = [(number(n) or 0, number(c)) for n, c in zip(*columns, strict=False)]
    rows = sum(n for n, c in pairs if c is not None)
    if rows <= 0:
        return None
    variance = sum(n * c * (1 - c) for n, c in pairs if c is not None and 0 <= c <= 1)
    exponent = math.log(2 / FALSE)
    return (exponent / 3 + math.sqrt(exponent**2 / 9 + 2 * variance * exponent)) / rows


def _temperature(record: Record, sign: float) -> str:
    """Name the temperature that repairs it, if its interval does not hold 1."""
    split = held_out(record)
    log_t, error = number(record.get(f"{split}/log_temperature")), number(record.get(f"{split}/log_temperature_error"))
    if log_t is None or error is None or sign * log_t <= Z * error or abs(log_t) > LARGEST:
        return ""
    low, high = math.exp(log_t - Z * error), math.exp(log_t + Z * error)
    return f"; temperature {math.exp(log_t):.2f} ({low:.2f} to {high:.2f}) would repair it"


def best_nll(records: Sequence[Record], kept: Collection[int] | None = ()) -> str | None:
    """Speak where the held-out NLL has risen above its best by more than 2.58 standard errors of both together.

    The best is the best of many looks, so 95 % would not do. The same rows are looked at each time, so the difference
    has less noise than this supposes; how often a plateau is told falsely, ``benchmarks/watch.py --findings`` counts.
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
    if now - best <= APART * math.hypot(best_error, now_error):
        return None
    if where.get("step") == 0:
        return f"Worse than before the first step: NLL was {best:.3f}, now {now:.3f} ± {Z * now_error:.3f}."
    said = f"NLL was best at epoch {_epoch(where)}: {best:.3f}, now {now:.3f} ± {Z * now_error:.3f}"
    if kept is None:
        return f"{said}."
    if where.get("step") in kept:
        return f"{said}; --keep-checkpoints has it: checkpoint/step-{int(where['step']):08d}."
    return f"{said}; its weights are not kept: --keep-checkpoints 1 would have them."


def ece_and_chance(records: Sequence[Record]) -> str | None:
    """Say whether the newest ECE is more than chance makes of so few rows: at 5 % of looks at a calibrated network."""
    looks = of_tracker(records, "quality")
    if not looks:
        return None
    split = held_out(looks[-1])
    ece, limit = number(looks[-1].get(f"{split}/ece")), number(looks[-1].get(f"{split}/ece_by_chance"))
    if ece is None or limit is None:
        return None
    if ece <= limit:
        return f"ECE {100 * ece:.2f} % is within what chance alone makes of these rows (up to {100 * limit:.2f} %)."
    return f"ECE {100 * ece:.2f} % is more than chance makes of these rows (up to {100 * limit:.2f} %)."


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
    sign = "−" if log_t < 0 else "+"
    clear = "clear of 0" if abs(log_t) > Z * error else "not clear of 0"
    return f"The controller turned {', '.join(turned)}; log T is {sign}{abs(log_t):.3f} ± {Z * error:.3f} now, {clear}."


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
