"""What was run, in words: data, network, training, cost, versions, and every option."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from surefoot.records import RunFolder
from surefoot.report.numbers import show_count, show_seconds
from surefoot.report.summary import MethodRow, Summary
from surefoot.schema import PartSpec, show_option

Options = list[tuple[str, str]]  # names and values


@dataclass(frozen=True)
class RunPlace:
    """Where a run lies, seen from the page; ``link`` is None where the page cannot point to it."""

    seed: int
    name: str
    link: str | None
    passes: str
    seconds: str


def facts(summary: Summary) -> list[tuple[str, list[str]]]:
    """Tell what was run; what differs between runs is listed once per variant.

    Args:
        summary: The comparison.

    Returns:
        Headings, each with one or more lines.
    """
    runs = [run for row in summary.rows for run in row.runs]
    told: list[tuple[str, Callable[[RunFolder], str]]] = [
        ("Data", _data),
        ("Network", lambda run: _part(run.spec.model)),
        ("Training", _training),
        ("Software", _software),
        ("Machine", _machine),
    ]
    lines = [(heading, [line for line in _distinct(tell(run) for run in runs) if line]) for heading, tell in told]
    lines.insert(3, ("Seeds", _distinct(", ".join(map(str, row.seeds)) for row in summary.rows)))
    lines.insert(4, ("Cost", [_cost(summary)]))
    return [(heading, found) for heading, found in lines if found]


def options(row: MethodRow) -> Options:
    """List everything that determines a method's runs but the seed, as the command line reads it.

    Args:
        row: The method.

    Returns:
        Names and values.
    """
    spec = row.runs[0].spec
    parts = {
        "loss": spec.method.loss,
        "ensemble": spec.method.ensemble,
        "optimizer": spec.method.optimizer,
        "base optimizer": spec.method.base,
        "data": spec.data,
        "model": spec.model,
    }
    found = [(name, _part(part)) for name, part in parts.items() if part is not None]
    settings = {
        "epochs": spec.epochs,
        "batch size": spec.batch_size,
        "schedule": spec.schedule,
        "augmentation": spec.augmentation,
        "device": spec.device,
        "channels last": show_option(spec.channels_last),
        "seeds": ", ".join(map(str, row.seeds)),
    }
    return [*found, *((name, str(value)) for name, value in settings.items())]


def divide_options(found: Sequence[Options]) -> tuple[Options, list[Options]]:
    """Tell what all methods share from what is a method's own; of a single method everything is.

    Args:
        found: Names and values of each method.

    Returns:
        What is shared, and each one's own.

    Example:
        >>> divide_options([[("lr", "1"), ("data", "toy")], [("lr", "2"), ("data", "toy")]])
        ([('data', 'toy')], [[('lr', '1')], [('lr', '2')]])
    """
    if len(found) < 2:
        return [], list(found)
    shared = [each for each in found[0] if all(each in other for other in found[1:])]
    return shared, [[each for each in own if each not in shared] for own in found]


def places(row: MethodRow, page: Path) -> list[RunPlace]:
    """Say where a method's runs lie, seen from the page.

    A path that would climb far out of the page's folder says more about a machine than about a run: of such a
    run only the folder's name is given.

    Args:
        row: The method.
        page: The page's file.

    Returns:
        One place per run.
    """
    found = []
    for run in row.runs:
        here, there = page.resolve().parent, run.path.resolve()
        relative = Path(os.path.relpath(there, here))
        near = relative.parts.count("..") <= 1 and os.path.commonpath([here, there]) != here.anchor
        done = run.done() or {}
        found.append(
            RunPlace(
                run.spec.seed,
                relative.as_posix() if near else run.path.name,
                f"./{quote(relative.as_posix())}/" if near else None,
                show_count(done["passes"]) if "passes" in done else "not recorded",
                show_seconds(done["seconds"]) if "seconds" in done else "not recorded",
            )
        )
    return found


def _data(run: RunFolder) -> str:
    data = run.data
    sizes = ", ".join(f"{show_count(n)} {split}" for split, n in data.get("examples", {}).items())
    shape = "×".join(map(str, data.get("input_shape", [])))
    classes = data.get("classes", [])
    words = [_part(run.spec.data), sizes, f"{len(classes)} classes" if classes else "", shape and f"inputs {shape}"]
    return " · ".join(word for word in (*words, f"fingerprint {data['fingerprint'][:12]}") if word)


def _training(run: RunFolder) -> str:
    spec = run.spec
    words = [f"{spec.epochs} epochs", f"batch size {spec.batch_size}", f"{spec.schedule} schedule", spec.device]
    words += [f"augmented by {spec.augmentation}"] if spec.augment else []
    return " · ".join([*words, "channels last"] if spec.channels_last else words)


def _cost(summary: Summary) -> str:
    n_runs = sum(len(row.runs) for row in summary.rows)
    passes = sum(row.passes.mean * len(row.runs) for row in summary.rows)
    seconds = sum(row.seconds.mean * len(row.runs) for row in summary.rows)
    runs = "1 run" if n_runs == 1 else f"{n_runs} runs"
    return f"{runs} · {show_count(passes)} gradient passes · {show_seconds(seconds)} of training in all"


def _software(run: RunFolder) -> str:
    environment = _environment(run)
    named = {key: environment[key] for key in ("surefoot", "python") if key in environment}
    return " · ".join(f"{name} {version}" for name, version in {**named, **environment.get("packages", {})}.items())


def _machine(run: RunFolder) -> str:
    environment = _environment(run)
    words = [environment.get("system", "")]
    for key in ("core", "thread"):
        if (n := environment.get(f"{key}s")) is not None:
            words.append(f"{n} {key}{'' if n == 1 else 's'}")
    return " · ".join(word for word in words if word)


def _environment(run: RunFolder) -> dict[str, Any]:
    try:
        return run.environment
    except FileNotFoundError:  # a run copied without it is still a run
        return {}


def _part(part: PartSpec) -> str:
    return f"{part} (source {part.source})" if part.source else str(part)


def _distinct(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
