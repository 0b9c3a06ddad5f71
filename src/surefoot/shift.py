"""How a trained network holds up on shifted data: corrupted pictures, and pictures of another kind.

Every run on the same data sees the same shifted pictures: they are drawn by seeds of their own, which depend on the
corruption and the severity, not on the run. What has been measured is kept in ``shift.jsonl`` and not measured again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from surefoot.calibrators.temperature import fit_temperature
from surefoot.data.cifar_c import read_cifar_c
from surefoot.data.corruptions import SEVERITIES, corrupt
from surefoot.data.ood import ood_pixels
from surefoot.errors import InputError
from surefoot.metrics.ood import ood_detection
from surefoot.records import RunFolder
from surefoot.registry import CORRUPTIONS, METRICS
from surefoot.scaling import Scaling
from surefoot.schema import Split, Splits
from surefoot.seeding import generator, set_threads
from surefoot.trained import predictor

Record = dict[str, Any]
Progress = Callable[[int, int, str], None]  # conditions measured, conditions in all, the present one

MEASURES = ("accuracy", "ece", "debiased_ece", "nll", "brier")
AFTER_T = {f"{name}@temperature": name for name in MEASURES if name != "accuracy"}
_CHUNK = 1000  # pictures corrupted at a time


class Condition(NamedTuple):
    """One set of pictures: a corruption at a severity, out-of-distribution data, or neither for the clean ones."""

    corruption: str | None = None
    severity: int = 0
    ood: str | None = None

    def __str__(self) -> str:
        """Name it for people."""
        return self.ood or (f"{self.corruption} {self.severity}" if self.corruption else "clean")


def conditions(corruptions: Sequence[str], severities: Sequence[int], ood: Sequence[str] = ()) -> list[Condition]:
    """List what is to be measured, the clean pictures first.

    Args:
        corruptions: Names.
        severities: From 1 to 5.
        ood: Out-of-distribution data sets.

    Returns:
        The conditions.

    Raises:
        InputError: If a severity or a name does not exist.

    Example:
        >>> [str(condition) for condition in conditions(["fog"], [1, 5], ["uniform"])]
        ['clean', 'fog 1', 'fog 5', 'uniform']
    """
    if unknown := [severity for severity in severities if severity not in SEVERITIES]:
        raise InputError(f"Expected severities from 1 to 5, but got {unknown[0]}. Write --severities 1-5.")
    names = [CORRUPTIONS[name].name for name in corruptions]
    shifted = [Condition(name, severity) for name in names for severity in severities]
    return [Condition(), *shifted, *(Condition(ood=name) for name in ood)]


def shift(
    path: Path | str,
    wanted: Sequence[Condition],
    *,
    n: int = 1000,
    published: Path | str | None = None,
    threads: int = 1,
    trust: bool = False,
    on_progress: Progress | None = None,
) -> list[Record]:
    """Measure a run on shifted test pictures.

    Args:
        path: The run folder.
        wanted: As :func:`conditions` lists them.
        n: How many test pictures, the same ones for every condition; all of them where there are fewer.
        published: Folder with CIFAR-10-C's or CIFAR-100-C's files, for runs on CIFAR; else pictures are corrupted here.
        threads: How many threads torch uses.
        trust: Import code of others that the folder names.
        on_progress: Called before every condition and at the end.

    Returns:
        One record per condition, in the order wanted: accuracy, ECE, debiased ECE, NLL and Brier score, the last four
        also behind the temperature that fits the calibration split, which is not shifted, and how well the network's
        confidence tells the shifted pictures from the clean ones.

    Raises:
        InputError: If the run's data are no pictures, or others than the published files corrupt.
    """
    if n < 1:
        raise InputError(f"Expected at least one picture, but got n = {n}. Write --n 1000.")
    set_threads(threads)
    folder = RunFolder(path)
    _ = folder.spec  # raises where there is no run, before a lock would make the folder
    with folder.locked():
        files = None if published is None else Path(published).expanduser().resolve()
        settings = {"n": n, "published": files and str(files)}
        known = {_key(record): record for record in folder.shift()}
        keys = [_key({**condition._asdict(), **settings}) for condition in wanted]
        missing = {key: condition for key, condition in zip(keys, wanted, strict=True) if key not in known}
        if missing:
            bench = _Bench.set_up(folder, n, files, trust)
            for done, (key, condition) in enumerate(missing.items()):
                if on_progress:
                    on_progress(len(wanted) - len(missing) + done, len(wanted), str(condition))
                known[key] = {**bench.stamp, **condition._asdict(), **settings, **bench.measure(condition)}
                folder.write_shift(known.values())
        if on_progress:
            on_progress(len(wanted), len(wanted), "")
    return [known[key] for key in keys]


def _key(record: Record) -> tuple[Any, ...]:
    return tuple(record[key] or None for key in ("corruption", "severity", "ood", "n", "published"))


@dataclasses.dataclass(frozen=True)
class _Bench:
    """A network and the clean pictures that it is measured beside."""

    predict: Callable[[Split], Tensor]
    splits: Splits
    scaling: Scaling
    rows: Tensor
    pixels: Tensor
    labels: Tensor
    clean: Tensor  # logits
    temperature: float | None  # that of the calibration split, on which nothing is shifted
    files: Path | None
    stamp: Record

    @classmethod
    def set_up(cls, folder: RunFolder, n: int, files: Path | None, trust: bool) -> _Bench:
        predict, splits = predictor(folder, trust=trust)
        scaling = splits.scaling
        if scaling is None or not scaling.is_pixels or splits.test.inputs.ndim != 4:
            raise InputError(
                f"Expected pictures as bytes to shift, but {folder.path} was trained on inputs {splits.input_shape}. "
                "Pass the data as uint8."
            )
        rows = torch.randperm(len(splits.test), generator=generator(0, "shift/rows"))[:n].sort().values
        inputs, labels = splits.test.inputs[rows], splits.test.labels[rows]
        pixels = scaling.to_pixels(inputs).to(torch.uint8)
        stamp = {"run": folder.run_id, "seed": folder.spec.seed, "passes": (folder.done() or {}).get("passes")}
        clean = predict(Split(inputs, labels))
        has_calibration = splits.calibration is not splits.test and folder.has_predictions("calibration")
        temperature = fit_temperature(folder.predictions("calibration")).temperature if has_calibration else None
        stamp |= {"split": "test"}
        return cls(predict, splits, scaling, rows, pixels, labels, clean, temperature, files, stamp)

    def measure(self, condition: Condition) -> Record:
        if condition == Condition():
            return {**self._quality(self.clean), "detection": None}
        logits = self._predict(self._shifted(condition))
        quality = dict.fromkeys((*MEASURES, *AFTER_T)) if condition.ood else self._quality(logits)
        found = [dataclasses.asdict(detection) for detection in ood_detection(self.clean, logits)]
        return {**quality, "detection": {detection.pop("score"): detection for detection in found}}

    def _shifted(self, condition: Condition) -> Tensor:
        name, severity, ood = condition
        if name is None:
            return ood_pixels(str(ood), self.pixels, self.splits, generator(0, f"shift/{ood}"))
        if self.files is not None:
            return self._published(self.files, name, severity)
        return torch.cat([
            corrupt(chunk, name, severity, generator(0, f"shift/{condition}/{index}"))
            for index, chunk in enumerate(self.pixels.split(_CHUNK))
        ])

    def _published(self, files: Path, name: str, severity: int) -> Tensor:
        """Read a corrupted copy of the same pictures: the files have the published test set's order."""
        pixels, labels = read_cifar_c(files, name, severity)
        known = self.splits.test.rows
        rows = known.numbers[self.rows.numpy()] if known and known.source == "test" else None
        fits = rows is not None and rows.max() < len(labels) and self.pixels.shape[1:] == (3, 32, 32)
        if rows is None or not fits or not np.array_equal(labels[rows], self.labels.numpy()):
            raise InputError(
                f"Expected corrupted copies of the run's test pictures, but the {len(labels)} in {files} have other "
                "labels or another size. Pass the files of the run's data set, or leave --files out."
            )
        return torch.from_numpy(pixels[rows]).permute(0, 3, 1, 2).contiguous()

    def _predict(self, pixels: Tensor) -> Tensor:
        return self.predict(Split(self.scaling.to_inputs(pixels), torch.zeros(len(pixels)).long()))

    def _quality(self, logits: Tensor) -> Record:
        found: Record = self._measures(logits, MEASURES)
        if self.temperature is None:
            return found | dict.fromkeys(AFTER_T)
        after = self._measures(logits / self.temperature, AFTER_T.values())
        return found | {key: after[name] for key, name in AFTER_T.items()}

    def _measures(self, logits: Tensor, names: Iterable[str]) -> Record:
        probs = logits.double().softmax(1)
        return {name: METRICS[name].build(probs, self.labels).item() for name in names}
