"""What the right answer about a changed run folder, data file or settings is, and the judges of it.

A run is the same bits every time: so training from a copy that NumPy or a TOML reader has read and written anew must
end as training from the changed file itself, and what a folder says must be what its files say.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from _torture_judges import UNKNOWN, measured, nll_of
from _torture_reader import Rows, softmax

PREDICTIONS = [f"predictions/{split}.npz" for split in ("train", "calibration", "test")]
LOG = "log/metrics.csv"
SPLITS = ("train", "calibration", "test")


def trained(place: Path, changed: str, words: str) -> str:
    """Judge ``surefoot train`` on a changed data file, or with changed settings: the same from an own copy of it."""
    typed = words
    if changed == "data.npz":
        with np.load(place / changed, allow_pickle=False) as arrays:
            held = {name: arrays[name] for name in arrays}
        if wrong := _rows_of(place / "fresh-run", held):
            return wrong
        np.savez(place / "copy.npz", **held)
        typed = typed.replace("npz:data.npz", "npz:copy.npz")
    else:
        said = tomllib.loads((place / changed).read_text())
        spec = json.loads((place / "fresh-run" / "spec.json").read_text())["spec"]
        for key in {"seed", "epochs", "batch_size", "schedule", "device"} & set(said):
            if spec[key] != said[key]:
                return f"{key} {spec[key]} for {said[key]}"
        (place / "copy.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in said.items()))
        typed = typed.replace("run.toml", "copy.toml")
    if not _again(typed.replace("fresh-run", "copied-run")):
        return "a copy that says the same is refused"
    one, other = place / "fresh-run", place / "copied-run"
    bad = [name for name in PREDICTIONS if (one / name).read_bytes() != (other / name).read_bytes()]
    return f"other bytes in {', '.join(bad)} than from a copy" if bad else ""


def _rows_of(run: Path, held: dict[str, Any]) -> str:
    """Compare the labels in a run's predictions with those of the data, whatever their order."""
    names = [f"y_{split}" for split in SPLITS]
    if not set(names) <= set(held):
        return ""
    known = sorted({int(label) for name in names for label in held[name].ravel()})
    for split, name in zip(SPLITS, names, strict=True):
        with np.load(run / f"predictions/{split}.npz") as found:
            said = np.bincount(found["labels"], minlength=len(known))
        right = [int((held[name] == label).sum()) for label in known]
        if said.tolist() != right:
            return f"{split} has {said.tolist()} of each class, for {right}"
    return ""


def _again(words: str) -> bool:
    from surefoot.cli import main

    sys.argv = ["surefoot", *words.split()]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            main()
        except SystemExit as ended:
            return not ended.code
    return True


def resumed(home: Path, place: Path, folder: str, changed: str) -> str:
    """Judge a run that was begun, or finished, and is asked for again: the bits of one that nobody touched."""
    good = home / "finished" / "run"
    names = [name for name in PREDICTIONS if folder == "begun" or f"run/{name}" != changed]
    bad = [name for name in [*names, LOG] if (place / "run" / name).read_bytes() != (good / name).read_bytes()]
    if changed == f"run/{LOG}" and folder == "finished":  # a log that was complete is not looked at again
        bad.remove(LOG) if LOG in bad else None
    if folder == "finished":
        after = {str(path.relative_to(place)) for path in (place / "run").rglob("*") if path.is_file()}
        before = {str(path.relative_to(good.parent)) for path in good.rglob("*") if path.is_file()}
        bad += sorted(name for name in before - after if not name.endswith(".lock"))
    return f"other bytes in {', '.join(bad)}" if bad else ""


def reported(said: dict[str, Any], place: Path) -> str:
    """Judge ``surefoot report``: what it shows is what the run's measures say, and these what its predictions say."""
    found, run = list[str](), place / "run"
    lines = _whole_lines(run / "measures.jsonl")
    (shown,) = said["rows"]
    for name in ("accuracy", "ece", "nll", "brier"):
        values = [each["value"] for each in lines if _is_of_test(each, name)]
        if name in shown and values and not np.isclose(shown[name]["mean"], values[-1], rtol=1e-6, atol=1e-9):
            found.append(f"{name} {shown[name]['mean']} where the run says {values[-1]}")
    return "; ".join(found)


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    """Read a growing file; a last line without its end is what a process that was killed leaves, and does not count."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def _is_of_test(line: dict[str, Any], name: str) -> bool:
    return line.get("metric") == name and line.get("split") == "test" and line.get("calibrator") is None


def consistent(place: Path) -> str:
    """Say whether the measures of a run are those of its predictions: a check of this judge itself."""
    with np.load(place / "run" / "predictions" / "test.npz") as held:
        rows = Rows(softmax(held["logits"]), held["labels"], np.ones(len(held["labels"])))
    right = {**measured(rows), "nll": nll_of(rows)}
    lines = _whole_lines(place / "run" / "measures.jsonl")
    found = [each for each in lines if any(_is_of_test(each, name) for name in ("accuracy", "ece", "nll"))]
    bad = [each["metric"] for each in found if not np.isclose(each["value"], right[each["metric"]], atol=1e-4)]
    return f"measures that are not those of the predictions: {', '.join(bad)}" if bad or len(found) < 3 else ""


def tracked(said: dict[str, Any], home: Path, place: Path) -> str:
    """Judge ``surefoot measure``: a run that says the same as before has the same curvature."""
    spec, good = place / "run" / "spec.json", home / "finished" / "run" / "spec.json"
    if json.loads(spec.read_text()) != json.loads(good.read_text()):
        return UNKNOWN
    wanted = json.loads((home / "curvature.json").read_text())
    (found,) = (each[-1] for each in said.values() if each)
    for key in ("gn_sharpness/value", "gn_sharpness/examples", "step"):
        if not np.isclose(found[key], wanted[key], rtol=1e-5):
            return f"{key} {found[key]} for {wanted[key]}"
    return ""
