"""Parts of one's own, named by import path: found, told apart, trained in workers, resumed, part of the run's id."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import surefoot
from surefoot.calibrators import compare_calibrators, fit
from surefoot.errors import InputError, OptionError, UnknownNameError
from surefoot.experiment import run, run_id
from surefoot.method import parse_method, split_methods
from surefoot.records import RunFolder
from surefoot.registry import KINDS
from surefoot.schema import Predictions, RunSpec
from surefoot.studies.compare import make_spec
from surefoot.trained import measure

PARTS = (Path(__file__).parent / "own" / "mypkg" / "parts.py").read_text()


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that no other test has imported."""
    name = f"own_{abs(hash(str(tmp_path))):x}"
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text(PARTS)
    (package / "broken.py").write_text("import torch\n1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return f"{name}.parts"


def test_kinds_are_told_apart_by_what_they_take_and_make(own: str) -> None:
    found = parse_method(f"{own}:my_loss:alpha=0.2 + {own}:my_sam:rho=0.3,lr=0.01,base={own}:my_optimizer")
    assert (found.loss.name, found.loss.options) == (f"{own}:my_loss", {"alpha": 0.2})
    assert (found.optimizer.name, found.optimizer.options) == (f"{own}:my_sam", {"rho": 0.3})
    assert found.base is not None
    assert (found.base.name, found.base.options) == (f"{own}:my_optimizer", {"lr": 0.01})
    assert found.name == f"{own}:my_loss + {own}:my_sam"
    assert parse_method(f"{own}:Smooth:alpha=0.3").loss.options == {"alpha": 0.3}
    ensemble = parse_method(f"{own}:my_ensemble:members=3 + focal + csam:rho=1e+3").ensemble
    assert ensemble is not None
    assert ensemble.options == {"members": 3}


def test_names_leave_options_out_whatever_is_in_them() -> None:
    assert parse_method("focal:gamma=2 + csam:rho=1e+3").name == "focal + csam"


def test_what_is_written_reads_back(own: str) -> None:
    spec = make_spec(f"{own}:my_loss + {own}:my_optimizer:lr=0.2")
    assert RunSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    again = parse_method(f"{spec.method.loss} + {spec.method.optimizer}")
    assert (again.loss, again.optimizer) == (spec.method.loss, spec.method.optimizer)
    texts = ["sgd", f"{own}:my_loss:alpha=0.2 + csam:rho=0.1,gamma=2", f"{own}:my_optimizer", "sam"]
    assert split_methods(",".join(texts)) == texts


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("{own}", UnknownNameError, r"Unknown method '.*parts'.* Write your own part as .*parts:function\."),
        ("{own}:my_los", UnknownNameError, r"has no function 'my_los'. Did you mean 'my_loss'"),
        ("{own}:STILL", UnknownNameError, r"has no function 'STILL'"),
        ("no_such_place:my_loss", UnknownNameError, r"cannot import 'no_such_place' .*Run in the folder that holds it"),
        ("{package}.broken:x", UnknownNameError, r"cannot import .*ZeroDivisionError: division by zero\). Correct it."),
        ("csamm:fast", UnknownNameError, r"cannot import 'csamm' .* Did you mean 'csam'"),
        ("{own}:my_loss:beta=1", OptionError, r"Unknown option 'beta' for .*def my_loss\(\*, beta=…\)"),
        ("{own}:my_loss:alpha=much", OptionError, r"Expected .*my_loss:alpha to be a number, but got 'much'"),
        ("{own}:my_loss + {own}:Smooth", InputError, r"Expected at most one loss in a method"),
        ("{own}:no_part", InputError, r"to return a Loss or an Ensemble.*, but it returns a dict\. Write a function"),
        ("{own}:as_function", InputError, r"to return a Loss or an Ensemble.*, but it takes logits\. Write a function"),
        ("sam:base={own}:my_sam", OptionError, r"Expected base to be a plain optimizer, but got '.*:my_sam'"),
    ],
)
def test_errors_say_what_to_write(text: str, error: type[Exception], says: str, own: str) -> None:
    with pytest.raises(error, match=says):
        parse_method(text.format(own=own, package=own.partition(".")[0]))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{own}:no_optimizer", "Expected .*no_optimizer to give a torch optimizer, but it gives a list"),
        ("{own}:Mean", r"Expected Mean to return LossTerms, but got Tensor. Return LossTerms\(per_example\)"),
    ],
)
def test_what_is_made_must_be_what_it_is_used_as(
    text: str, says: str, own: str, small_npz: Path, tmp_path: Path
) -> None:
    spec = make_spec(text.format(own=own), data=f"npz:{small_npz}", model="mlp:width=8", epochs=1)
    with pytest.raises(InputError, match=says):
        run(spec, tmp_path / "run")


BY_PATH = {
    "optimizers": ("my_optimizer:lr=0.2", {"lr": 0.2}, {"passes": 1}),
    "losses": ("Smooth:alpha=0.3", {"alpha": 0.3}, {"reference": ""}),
    "ensembles": ("my_ensemble:members=3", {"members": 3}, {}),
    "metrics": ("my_metric:power=2", {"power": 2.0}, {"label": "missing", "lower_is_better": True, "unit": ""}),
    "calibrators": ("fit_mine:temperature=3", {"temperature": 3.0}, {"keeps_order": False}),
    "sets": ("my_score:power=2", {"power": 2.0}, {"choose": None}),
    "models": ("my_model", {"width": 4}, {}),
    "data": ("splits:n=60", {"n": 60}, {}),
    "augmentations": ("my_augment:by=0.1", {"by": 0.1}, {}),
    "corruptions": ("my_corruption", {}, {"main": False}),
    "trackers": ("my_tracker:power=1", {"power": 1}, {}),
    "studies": ("my_study", {}, {}),
    "figures": ("my_figure:height=1", {"height": 1.0}, {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_found_by_import_path(kind: str, own: str) -> None:
    text, options, facts = BY_PATH[kind]
    part, given = KINDS[kind].read(f"{own}:{text}")
    spec = part.spec(given)
    assert spec.options == options
    assert spec.source
    assert facts.items() <= part.facts.items()
    assert KINDS[kind][spec.name].build is part.build


def test_a_calibrator_of_ones_own_is_compared(own: str) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    logits = 4 * (np.eye(3)[np.where(rng.random(200) < 0.6, labels, 0)] + 0.1 * rng.normal(size=(200, 3)))
    found = compare_calibrators(Predictions(logits, labels, "calibration"), [f"{own}:fit_mine:temperature=3"])
    assert found.best == f"{own}:fit_mine:temperature=3"
    with pytest.raises(InputError, match=r"Expected .*no_calibrator to return a Calibrator, but got str. Return a sub"):
        fit(f"{own}:no_calibrator", Predictions(logits, labels, "calibration"))


def test_own_parts_train_in_workers_are_not_trained_again_and_are_measured(
    own: str, small_npz: Path, tmp_path: Path
) -> None:
    """In a process of its own, from the folder that holds the parts, whose workers import them too."""
    method = f"{own}:my_loss:alpha=0.2 + {own}:my_sam:base={own}:my_optimizer"
    words = ["compare", "--methods", f"sgd,{method}", "--seeds", "1", "--jobs", "2", "--out", "runs", "--json"]
    words += ["--data", f"npz:{small_npz}", "--model", "mlp:width=8", "--epochs", "1", "--augment", f"{own}:my_augment"]
    words += ["--track", f"cheap,{own}:my_tracker:power=1"]
    env = {**os.environ, "PYTHONPATH": str(Path(surefoot.__file__).parents[1])}
    command = [sys.executable, "-m", "surefoot", *words]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert method.partition(":alpha")[0] in done.stdout
    runs = [path.parent for path in (tmp_path / "runs").glob("*/done.json")]
    assert len(runs) == 2
    records = [json.loads(line) for path in runs for line in (path / "steps.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records if record.get("tracker") == f"{own}:my_tracker"] == [0, 0]
    (mine,) = (path for path in runs if RunFolder(path).spec.method.loss.name.startswith(own))

    settings = {"data": f"npz:{small_npz}", "model": "mlp:width=8", "epochs": 1, "augment": f"{own}:my_augment"}
    spec = RunFolder(mine).spec
    assert make_spec(method, **settings).method == spec.method
    before = (mine / "done.json").stat().st_mtime_ns
    run(spec, mine)  # another process comes to the same id
    assert (mine / "done.json").stat().st_mtime_ns == before
    assert measure(mine, [f"{own}:my_tracker"])
    (tmp_path / own.replace(".", "/")).with_suffix(".py").write_text(PARTS + "\nCHANGED = True\n")
    changed = make_spec(method, **settings)
    assert changed.method != spec.method  # another file may be another run
    assert run_id(changed) != run_id(spec)
