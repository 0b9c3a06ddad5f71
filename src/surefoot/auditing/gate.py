"""A gate for a pull request: broken only by what sampling noise does not explain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from surefoot.auditing._difference import GAPS, difference, sized
from surefoot.auditing._gate_words import Side, canonical, check_comparable, check_limit, risk_key, shown_of, usual
from surefoot.auditing._plain_rows import check_plain
from surefoot.auditing._reading import OnRows, Reading
from surefoot.auditing._summary import OF_BINS, OF_RISK, Summary, ranks
from surefoot.auditing._walking import read
from surefoot.auditing.audit import choose_one
from surefoot.auditing.baseline import Baseline, load_baseline
from surefoot.auditing.checked import Check, Gate, Status
from surefoot.errors import InputError
from surefoot.metrics.interval import Interval, check_level, no_interval
from surefoot.sources.files import name_of, open_predictions
from surefoot.sources.positive import Positive, choose_positive
from surefoot.sources.told import Told

_MOST_ROWS = 10**9  # beyond which nobody would wait for them


def check(
    source: Any,
    limits: Sequence[tuple[Side, str, float]] = (),
    *,
    baseline: Path | str | Baseline | None = None,
    compare: Sequence[str] | None = None,
    model: str | None = None,
    positive: str | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    on_rows: OnRows | None = None,
    **told: Unpack[Told],
) -> Gate:
    """Hold predictions against limits and against a baseline.

    Each of m checks uses an interval of level 1 − (1 − level) / m (Bonferroni), so that all together break wrongly at
    most 1 − level of the time. Whether any check breaks is the same with Holm's correction.

    Args:
        source: A file of predictions, or what is in memory; see :func:`~surefoot.sources.files.open_predictions`.
        limits: ``max`` or ``min``, a metric and a value.
        baseline: What must not be better than these predictions.
        compare: Metrics to compare with the baseline by; else accuracy, ECE, NLL and those with a limit.
        model: Which one, where a file holds several.
        positive: Of two classes, the name or number of the one whose probability is the risk.
        n_bins: Number of bins.
        level: How often a gate that nothing should break is not broken, at least.
        on_rows: Called while reading.
        **told: What names and values do not tell; see :class:`~surefoot.sources.told.Told`.

    Returns:
        Every check with its interval.

    Raises:
        InputError: If the predictions cannot be read, a limit makes no sense, or the baseline is of something else.
    """
    check_level(level)
    if n_bins < 1:
        raise InputError(f"Expected bins ≥ 1, but got {n_bins}.")
    if compare is not None and baseline is None:
        raise InputError("Expected --baseline with --compare, but got none. Name one, or set a limit instead.")
    old = load_baseline(baseline) if isinstance(baseline, str | Path) else baseline
    name = name_of(source)
    wanted = [canonical(key) for _, key, _ in limits]
    compared = None if compare is None else [canonical(key) for key in compare]
    told["score_of"] = positive
    opened, _ = choose_one(open_predictions(source, **told), model, name)
    check_plain(opened, ("multiclass", "choices", "confidence"), name)
    means = [key for key in dict.fromkeys((*wanted, *(compared or ()))) if key not in (*OF_BINS, *OF_RISK)]
    reading = read(
        opened, n_bins=n_bins, where=name, metrics=[key for key in means if _is_metric(key)], on_rows=on_rows
    )
    if positive is not None and reading.n_classes != 2:
        raise InputError(f"Expected two classes with --positive, but {name} has {reading.n_classes}. Leave it out.")
    two = choose_positive(opened.class_names, positive, name) if reading.n_classes == 2 else None
    kept = Baseline(name, n_bins, Summary.of(reading, two))
    if old is not None:
        _check_same_kind(kept, old, baseline)
    asked = [
        (side, risk_key(key, two is not None, name), value)
        for (side, _, value), key in zip(limits, wanted, strict=True)
    ]
    for side, key, value in asked:
        check_limit(key, side, value)
    against = _compared(kept, old, compared, [key for _, key, _ in asked], two is not None, name)
    m = max(1, len(asked) + len(against))
    each_level = 1 - (1 - level) / m
    checks = [_limit(reading, kept.summary, two, side, key, value, each_level) for side, key, value in asked]
    if old is not None:
        checks += [_baseline(kept.summary, old.summary, two, key, each_level) for key in against]
    return Gate(
        file=name,
        took=opened.took,
        n=reading.n,
        checks=tuple(checks),
        level=level,
        each_level=each_level,
        positive=two.name if two else None,
        baseline=None if old is None else _name(baseline, old),
        baseline_n=None if old is None else old.summary.n,
        paired=None if old is None else kept.summary.pairs_with(old.summary),
        notes=opened.notes,
        doubts=reading.doubts,
        kept=kept,
    )


def _is_metric(key: str) -> bool:
    return key not in ("risk_auroc", "average_precision")


def _name(baseline: Any, old: Baseline) -> str:
    return Path(baseline).name if isinstance(baseline, str | Path) else old.file


def _check_same_kind(new: Baseline, old: Baseline, baseline: Any) -> None:
    where = _name(baseline, old)
    for what, a, b in (
        ("classes", new.summary.n_classes, old.summary.n_classes),
        ("bins", new.n_bins, old.n_bins),
    ):
        if a != b:
            raise InputError(f"Expected a baseline of {a} {what}, but {where} is of {b}. Compare like with like.")
    if new.summary.positive != old.summary.positive:
        raise InputError(
            f"Expected a baseline of the risk P({new.summary.positive}), but {where} is of P({old.summary.positive}). "
            "Say --positive."
        )


def _compared(
    new: Baseline, old: Baseline | None, compared: list[str] | None, limited: Sequence[str], two: bool, where: str
) -> list[str]:
    """List by which measures to compare with the baseline."""
    if old is None:
        return []
    if compared is None:
        has = (*OF_BINS, *OF_RISK, *new.summary.values)
        keys = [*usual(two), *(key for key in limited if key in has)]
    else:
        keys = [risk_key(key, two, where) for key in compared]
    keys = list(dict.fromkeys(keys))
    for key in keys:
        check_comparable(key, old.summary)
    return keys


def _limit(
    reading: Reading, summary: Summary, two: Positive | None, side: Side, key: str, limit: float, level: float
) -> Check:
    in_sums = key in (*OF_BINS, *OF_RISK, *summary.values)
    found = summary.interval(key, level) if in_sums else ranks(reading, two, key, level)
    value = found or no_interval(key, math.nan, level, "it is not defined on these rows")
    value = sized(value) if key in GAPS else value
    status = "broken" if value.estimate == math.inf and side == "max" else _status(value, side, limit)
    rows = _rows(value, limit, summary.n) if status == "undecided" else None
    return Check(key, shown_of(key, two.name if two else None), side, limit, status, value, rows=rows)


def _baseline(new: Summary, old: Summary, two: Positive | None, key: str, level: float) -> Check:
    shown = shown_of(key, two.name if two else None)
    side: Side = "max" if shown.lower_is_better else "min"
    change = difference(new, old, key, level)
    value, was = (each.interval(key, level) for each in (new, old))
    status = _status(change, side, 0.0)
    rows = _rows(change, 0.0, new.n) if status == "undecided" else None
    if key in GAPS:
        value, was = sized(value), sized(was)
    return Check(key, shown, side, None, status, value, was, change, rows)


def _status(interval: Interval, side: Side, limit: float) -> Status:
    """Decide by where the whole interval is."""
    if not interval.known:
        return "undecided"
    low, high = (interval.low, interval.high) if side == "max" else (-interval.high, -interval.low)
    limit = limit if side == "max" else -limit
    return "broken" if low > limit else "passed" if high <= limit else "undecided"


def _rows(interval: Interval, limit: float, n: int) -> int | None:
    """Return about how many rows would tell, if the truth is where the estimate is: reaches shrink with their root."""
    away = abs(interval.estimate - limit)
    reach = interval.estimate - interval.low if interval.estimate > limit else interval.high - interval.estimate
    if not interval.known or not away or not math.isfinite(reach):
        return None
    rows = n * (reach / away) ** 2
    if rows > _MOST_ROWS:
        return None
    step = int(10 ** max(0, math.floor(math.log10(rows)) - 1))
    return max(n + 1, math.ceil(rows / step) * step)
