"""What to type after an audit: a calibrator is fitted on rows that are held out, never on those audited."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from surefoot.places import place

_CALIBRATION = ("calibration", "validation", "val", "dev", "calib", "cal", "valid")
_TEST = re.compile(r"(?<![a-z])(test|testing|eval|holdout|heldout)(?![a-z])", re.IGNORECASE)
ELSEWHERE = "on rows of the same model that are not audited here, for on these it would flatter"


def next_steps(
    files: Sequence[Path], audits: Sequence[Mapping[str, Any]], told: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Write the command that repairs each audited model, and what must be known about it.

    Args:
        files: One, or one per audit.
        audits: As ``Audit.to_json`` writes them.
        told: What was said about the files: ``logits``, ``probs``, ``percent``, ``scores``, ``labels``, ``labels_are``.

    Returns:
        A command and a note, which is empty where there is a file to fit on.
    """
    return [_next_step(files[min(number, len(files) - 1)], audit, told) for number, audit in enumerate(audits)]


def _next_step(path: Path, audit: Mapping[str, Any], told: Mapping[str, Any]) -> tuple[str, str]:
    beside = path if audit["held_out"] else held_out_beside(path)
    target = str(beside) if beside is not None else f"HELD-OUT{_ending(path)}"
    words = ["surefoot", "calibrate", target]
    words += [f"--{kind}" for kind in ("logits", "probs", "percent") if told[kind]]
    words += [word for name in told["scores"] for word in ("--scores", name)]
    if told["labels"] is not None and not place(told["labels"]).is_file():  # which would be of other rows
        words += ["--labels", told["labels"]]
    words += ["--labels-are", told["labels_are"]] if told["labels_are"] is not None else []
    for name in ("form", "normalise", "ignore_index", "class_axis"):
        words += [f"--{name.replace('_', '-')}", str(told[name])] if told.get(name) is not None else []
    words += ["--no-weights"] if told.get("weights") is False else []
    words += ["--weights", told["weights"]] if isinstance(told.get("weights"), str) else []
    words += ["--weights-are", told["weights_are"]] if told.get("weights_are") else []
    words += ["--skip-missing"] if told.get("skip_missing") else []
    words += ["--header" if told["header"] else "--no-header"] if told.get("header") is not None else []
    if audit["model"]:
        words += ["--model", audit["model"]]
    return shlex.join(words), "" if beside is not None else ELSEWHERE


def held_out_beside(path: Path) -> Path | None:
    """Find a calibration or validation file in the same folder and format.

    Args:
        path: The audited file.

    Returns:
        ``resnet_val.csv`` beside ``resnet_test.csv``, else ``val.csv`` and the like; None if there is none.
    """
    if not path.is_file():  # a folder or a pattern
        return None
    ending = _ending(path)
    stem = path.name[: len(path.name) - len(ending)]
    stems = [_TEST.sub(word, stem) for word in _CALIBRATION if _TEST.search(stem)]
    for candidate in (*stems, *_CALIBRATION):
        found = path.with_name(f"{candidate}{ending}")
        if found.is_file() and not found.samefile(path):
            return found
    return None


def _ending(path: Path) -> str:
    """Return the ending that says the format, with ``.gz`` where it follows."""
    if path.is_dir():
        from surefoot.sources import find_files

        return find_files(path).suffix
    packed = ".gz" if path.suffix.lower() == ".gz" else ""
    return (path.with_suffix("") if packed else path).suffix + packed
