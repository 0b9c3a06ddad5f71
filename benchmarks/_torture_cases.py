"""The cases of ``torture.py``'s changed and made-up files: which file meets which command, without end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _torture_folders import consistent
from _torture_inputs import KINDS
from _torture_made import FORMATS, Draws, generated, mutated, odd_rows, rows
from tests.crashes import nursery
from tests.crashes.commands import SETTINGS

LIMIT = 0.2
PREDICTIONS = {
    "audit": "audit FILE --json --no-page",
    "estimate": "estimate FILE --reference good.npz --json",
    "calibrate": "calibrate FILE --method temperature --out fitted.json --json",
    "conformal": "conformal FILE --method lac --out fitted-sets.json --json",
    "check": f"check FILE --max-ece {LIMIT} --json",
}
SAVED = {
    "c.json": "calibrate good.npz --apply c.json --out repaired.npz",
    "c.safetensors": "calibrate good.npz --apply c.safetensors --out repaired.npz",
    "sets.json": "conformal good.npz --apply sets.json --out with-sets.csv",
    "baseline.json": "check good.npz --baseline baseline.json --json",
    "data.npz": "train --out fresh-run --fresh --data npz:data.npz --model mlp:width=4 --epochs 1 --batch-size 45",
    "run.toml": "train --config run.toml --out fresh-run --fresh",
}
FOLDERS = {
    "report": "report run --out page.html --json",
    "resume": f"train --out run --checkpoint-every 0 --log csv {SETTINGS}",
    "measure": "measure run --track gn_sharpness --json",
}


@dataclass(frozen=True)
class Case:
    """One file, changed or made up, and a command.

    Attributes:
        kind: Where it counts in the table.
        name: Of the file, below the folder; with a dash in front where it comes through a pipe.
        files: All that is put there, by name.
        words: Of the command line.
        folder: Which prepared folder it is put into.
        input: Which of the audit's other inputs it is.
    """

    kind: str
    name: str
    files: dict[str, bytes]
    words: str
    folder: str = "files"
    input: str = ""

    @property
    def content(self) -> bytes:
        """What the file holds."""
        return self.files[self.name]


def prepare(home: Path, small: Path) -> None:
    """Lay out the good files and a finished and an unfinished run."""
    files, draws = home / "files", np.random.default_rng(0)
    files.mkdir(parents=True)
    shutil.copyfile(small, files / "small.npz")
    shutil.copyfile(small, files / "data.npz")
    for name in ("good", "other"):
        probs, labels = rows(draws, 200)
        np.savez(files / f"{name}.npz", logits=np.log(probs + 1e-9), labels=labels)
    made = ["calibrate other.npz --method temperature --out c.json", "conformal other.npz --method lac --out sets.json"]
    made += ["calibrate other.npz --method vector --out c.safetensors"]
    made += ["check other.npz --max-ece 0.9 --save-baseline baseline.json", f"train --out run --log csv {SETTINGS}"]
    for words in made:
        _type(words, files)
    shutil.copyfile(files / "run" / "run.toml", files / "run.toml")
    shutil.copytree(files, home / "finished")
    shutil.copytree(files, home / "begun")
    for name in ("done.json", "checksums.json", "measures.jsonl"):
        (home / "begun" / "run" / name).unlink()
    found = json.loads(_type(FOLDERS["measure"], files))
    (home / "curvature.json").write_text(json.dumps(next(each[-1] for each in found.values())))
    if wrong := consistent(files):
        raise SystemExit(f"Expected a judge that agrees on an unchanged run, but found {wrong}")


def _type(words: str, folder: Path) -> str:
    ended = nursery.run(words, folder)
    if ended.code:
        raise SystemExit(f"Expected {words} to work, but it did not: {ended.err}")
    return ended.out


def cases(home: Path, seed: int) -> Iterator[Case]:
    """Make cases without end."""
    draws = np.random.default_rng(seed)
    saved, folders = list(SAVED), list(FOLDERS)
    inside = sorted(path for path in (home / "finished" / "run").rglob("*") if path.is_file() and path.name != ".lock")
    while True:
        kind = draws.random()
        if kind < 0.4:
            yield _of_predictions(draws)
        elif kind < 0.65:
            yield _of_inputs(draws)
        elif kind < 0.85:
            name = saved[int(draws.integers(len(saved)))]
            content = mutated((home / "files" / name).read_bytes(), draws)
            if name == "data.npz" and draws.random() < 0.5:
                content = _other_data(home, draws)
            yield Case(f"{name}, changed", name, {name: content}, SAVED[name])
        else:
            command = folders[int(draws.integers(len(folders)))]
            where = "begun" if command == "resume" and draws.random() < 0.7 else "finished"
            file = inside[int(draws.integers(len(inside)))]
            path = home / where / "run" / file.relative_to(home / "finished" / "run")
            if path.exists():
                name, content = str(path.relative_to(home / where)), mutated(path.read_bytes(), draws)
                yield Case(f"{command}, changed folder", name, {name: content}, FOLDERS[command], where)


def _of_predictions(draws: Draws) -> Case:
    commands, names = list(PREDICTIONS), list(FORMATS)
    command = commands[0] if draws.random() < 0.5 else commands[int(draws.integers(1, len(commands)))]
    kind = draws.random()
    if kind < 0.4:
        how, name = "changed", names[int(draws.integers(len(names)))]
        content = mutated(FORMATS[name](*rows(draws)), draws)
    elif kind < 0.6:
        how, name = "odd rows", names[int(draws.integers(len(names)))]
        content = FORMATS[name](*odd_rows(draws))
    else:
        how, (name, content) = "made up", generated(draws)
    return Case(f"{command}, {how}", name, {name: content}, PREDICTIONS[command].replace("FILE", name))


def _of_inputs(draws: Draws) -> Case:
    names = list(KINDS)
    kind = names[int(draws.integers(len(names)))]
    files = KINDS[kind].files(draws)
    first, changed = next(iter(files)), list(files)[int(draws.integers(len(files)))]
    if draws.random() < 0.85:
        files[changed] = mutated(files[changed], draws)
    return Case(f"audit, {kind}", first, files, KINDS[kind].typed(first), input=kind)


def _other_data(home: Path, draws: Draws) -> bytes:
    """Change numbers of the data set themselves, in an archive that is whole."""
    with np.load(home / "files" / "data.npz") as held:
        arrays = {name: held[name].copy() for name in held}
    for _ in range(int(draws.integers(1, 4))):
        name = list(arrays)[int(draws.integers(len(arrays)))]
        flat = arrays[name].reshape(-1)
        flat[draws.integers(0, len(flat), 5)] = draws.integers(0, 3, 5)
        if draws.random() < 0.2:
            split = name.partition("_")[2]
            n = int(draws.integers(30, len(arrays[name])))
            arrays[f"x_{split}"], arrays[f"y_{split}"] = arrays[f"x_{split}"][:n], arrays[f"y_{split}"][:n]
        if draws.random() < 0.2:
            arrays[name] = arrays[name].astype(["i8", "f4", "f8", "u1", ">i4"][int(draws.integers(5))])
    path = home / "changed.npz"
    np.savez(path, **arrays)
    return path.read_bytes()
