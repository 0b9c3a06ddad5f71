"""Finished run folders made by hand: small, quick, with numbers that a test chooses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surefoot.metrics import describe
from surefoot.records import RunFolder
from surefoot.registry import METRICS
from surefoot.schema import MethodSpec, PartSpec, RunSpec

BINS = {"count": [0, 2, 8], "confidence": [None, 0.5, 0.9], "accuracy": [None, 0.5, 0.75]}
MEASURES = {"accuracy": 0.8, "ece": 0.05, "nll": 0.5, "brier": 0.25}
DATA = {
    "fingerprint": "0123456789abcdef",
    "input_shape": [3],
    "examples": {"train": 100, "calibration": 10, "test": 10},
}
ENVIRONMENT = {
    "surefoot": "0.1.0",
    "python": "3.11.0",
    "packages": {"torch": "2.9.0"},
    "system": "Linux x86_64",
    "cores": 2,
    "threads": 1,
    "device": "cpu",
}


def fake_run(
    folder: Path,
    method: str = "sgd",
    seed: int = 0,
    *,
    measures: Mapping[str, float] = MEASURES,
    calibration: Mapping[str, float] | None = None,
    constant: tuple[float, float, float] | None = None,
    tce: float | None = 0.02,
    bins: Mapping[str | None, Mapping[str, Any]] | None = None,
    epochs: int = 2,
    quality: bool = True,
    options: Mapping[str, Any] | None = None,
    passes: int = 20,
    seconds: float = 1.5,
    classes: tuple[str, ...] = ("cat", "dog"),
) -> RunFolder:
    """Write one finished run below ``folder``.

    Args:
        folder: Takes the run folder.
        method: Label of the method; its optimizer has the same name.
        seed: The run's seed.
        measures: Metrics on the test split.
        calibration: Metrics on the calibration split; else the same as on the test split.
        constant: Accuracy of a constant answer on both, the run's lead over it and that lead's standard error.
        tce: ECE after temperature scaling; None leaves the calibrator out.
        bins: Reliability bins by calibrator; else the same small ones with and without temperature.
        epochs: How long it trained.
        quality: Whether the quality tracker watched.
        options: The optimizer's options.
        passes: What it cost.
        seconds: How long it took.
        classes: Names of the classes.

    Returns:
        The finished run.
    """
    optimizer = PartSpec(method, dict(options or {"lr": 0.1}))
    parts = MethodSpec(method, PartSpec("ce"), optimizer), PartSpec("toy"), PartSpec("mlp", {"width": 4})
    spec = RunSpec(*parts, seed=seed, epochs=epochs, batch_size=10)
    run_id = spec.run_id(DATA["fingerprint"], "0.1.0")
    run = RunFolder(folder / f"run-{run_id}")
    run.begin(spec, run_id, {**DATA, "classes": list(classes)}, ENVIRONMENT)
    run.append_steps(_steps(epochs, passes, seed, quality))
    held_out = measures if calibration is None else calibration
    records = [*_values("calibration", held_out), *_constants(constant)]
    run.write_measures(records + _measures(measures, tce, {None: BINS, "temperature": BINS} if bins is None else bins))
    run.finish({"run": run_id, "seed": seed, "passes": passes, "seconds": seconds})
    return run


def _steps(epochs: int, passes: int, seed: int, quality: bool) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for epoch in range(epochs + 1):
        step = 10 * epoch
        if epoch:
            records.append({"seed": seed, "step": step, "epoch": epoch - 1, "loss": 1 / epoch, "passes": passes})
        if quality:
            seen = {
                f"{split}/{key}": value + 0.01 * seed
                for split in ("train", "test")
                for key, value in (("loss", 2.0 - 0.1 * epoch), ("accuracy", 0.5 + 0.1 * epoch), ("ece", 0.1))
            }
            records.append({"seed": seed, "step": step, "epoch": epoch, "tracker": "quality", **seen})
    return records


def _measures(
    values: Mapping[str, float], tce: float | None, bins: Mapping[str | None, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    plain = _values("test", values)
    scaled = [_value("test", "temperature", "ece", tce)] if tce is not None else []
    binned = [
        {"split": "test", "calibrator": name, "metric": "reliability", "bins": dict(counts)}
        for name, counts in bins.items()
    ]
    train = _values("train", dict.fromkeys(values, 0.99))
    return [*train, *plain, *scaled, *binned]


def _values(split: str, values: Mapping[str, float]) -> list[dict[str, Any]]:
    return [_value(split, None, key, value) for key, value in values.items()]


def _value(split: str, calibrator: str | None, metric: str, value: float) -> dict[str, Any]:
    described = describe(METRICS[metric])
    if calibrator:
        described["label"] += " after T"
    return {"split": split, "calibrator": calibrator, "metric": metric, "value": value, **described}


def _constants(constant: tuple[float, float, float] | None) -> list[dict[str, Any]]:
    if constant is None:
        return []
    values = dict(zip(("value", "lead", "lead_error"), constant, strict=True))
    place = {"calibrator": None, "metric": "constant_accuracy"}
    return [{"split": split, **place, **values} for split in ("calibration", "test")]


def content(path: Path) -> dict[str, bytes]:
    """Everything a run wrote, but for what depends on the clock or the machine."""
    skipped = {"timing.jsonl", "done.json", ".lock"}
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name not in skipped
    }
