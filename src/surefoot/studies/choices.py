"""Which settings the tuned methods of a study were given, and which others were offered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.studies.runs import SETTING

Arms = Mapping[str, Sequence[str]]


def choices_of(values: Mapping[str, Any]) -> list[str]:
    """Write what the calibration split chose for each method, of which: the end of a row might have gone further.

    Args:
        values: What a study found.

    Returns:
        A line per tuned method, such as ``sam: rho=0.2 of 0.05, 0.1, 0.2; weight_decay=0.004 of 0.0005, 0.004``; none
        where nothing was tuned.
    """
    lines = []
    for name, runs in (values["shown"] or {}).items():
        offered = _offered(values["arms"], runs)
        if len(offered) > 1:
            lines.append(f"{name}: {'; '.join(_option(key, offered, runs) for key in next(iter(offered.values())))}")
    return lines


def _offered(arms: Arms, runs: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the options of every run that was made of the same method."""
    method = next((label.partition(SETTING)[0] for label, names in arms.items() if set(names) & set(runs)), "")
    return {
        name: dict(option.split("=") for option in label.partition(SETTING)[2].split(","))
        for label, names in arms.items()
        if label.startswith(f"{method}{SETTING}")
        for name in names
    }


def _option(key: str, offered: Mapping[str, Mapping[str, str]], runs: Sequence[str]) -> str:
    """Write one option: the value that was chosen, or all that were and how often.

    Example:
        >>> offered = {"a": {"rho": "0.1"}, "b": {"rho": "0.2"}, "c": {"rho": "0.2"}}
        >>> _option("rho", offered, ["b", "c"])
        'rho=0.2 of 0.1, 0.2'
        >>> _option("rho", offered, ["a", "b", "c"])
        'rho=0.2 (2 seeds), 0.1 (1 seed) of 0.1, 0.2'
    """
    chosen = Counter(offered[name][key] for name in runs)
    every = dict.fromkeys(options[key] for options in offered.values())
    if len(every) == 1:
        return f"{key}={next(iter(every))}"
    told = [f"{value} ({n} seed{'s' * (n != 1)})" if len(chosen) > 1 else value for value, n in chosen.most_common()]
    return f"{key}={', '.join(told)} of {', '.join(every)}"
