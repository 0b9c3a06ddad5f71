"""Runs that turn their own ρ and γ: exact, resumable, blind to the test split, named apart from those that do not."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from surefoot.assembly import assemble, splits_of
from surefoot.errors import InputError, OptionError, SplitError
from surefoot.experiment import folder_name, run, run_id
from surefoot.method import parse_method
from surefoot.optim import CSAM, SAM, build_optimizer
from surefoot.records import RunFolder
from surefoot.schema import MethodSpec, PartSpec, RunSpec, Tracking
from surefoot.steering import KeepCalibrated
from surefoot.studies.compare import make_spec
from surefoot.training.checkpoint import load_checkpoint
from tests.conftest import RunCommand, small_arrays
from tests.patience import PATIENCE
from tests.runs import content

EPOCH, EPOCHS = 12, 3
FACTS = Tracking(("step_facts:every=1",))
MakeSpec = Callable[..., RunSpec]


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    """Rows that are easy to be sure of, and a calibration split half of whose labels are drawn: everybody is too sure.

    So all that can be turned is turned at every look, whatever the last bits of a machine are.
    """
    found, draw = small_arrays(n_train=96, n_test=400), np.random.default_rng(0)
    drawn = np.where(draw.random(400) < 0.5, draw.integers(0, 3, 400), found["y_calibration"])
    return {**found, "y_calibration": drawn}


@pytest.fixture(scope="module")
def spec_of(arrays: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> MakeSpec:
    path = tmp_path_factory.mktemp("data") / "sure.npz"
    np.savez(path, **arrays)
    return partial(make_spec, data=f"npz:{path}", model="mlp:width=16", epochs=EPOCHS, batch_size=8)


def looks(folder: RunFolder) -> list[dict[str, Any]]:
    """What the looks of a run saw and did."""
    return [record for record in folder.steps() if record.get("tracker") == "keep_calibrated"]


def values(look: dict[str, Any]) -> dict[str, float]:
    """Leave out whose look it was."""
    return {key: value for key, value in look.items() if "/" in key}


def steered(folder: RunFolder) -> list[dict[str, float]]:
    return [values(look) for look in looks(folder)]


def turned(folder: RunFolder, knob: str) -> list[float]:
    return [look[f"steering/{knob}"] for look in looks(folder)]


def knobs_at_the_end(path: Path) -> dict[str, float]:
    """Read them where a run that goes on would."""
    found = load_checkpoint(path / "checkpoint")
    assert found is not None
    group, own = found[1]["optimizer"]["param_groups"][0], found[1]["optimizer"]["surefoot"]
    knobs = {**{key: group[key] for key in ("rho", "weight_decay") if key in group}, **own.get("outer", {})}
    return {**knobs, "lr": found[1]["schedule"]["base_lrs"][0]}


def stop_at(step: int) -> Any:
    def stop(now: int, n_steps: int, loss: float) -> None:
        if now == step:
            raise KeyboardInterrupt

    return stop


def run_with_stops(spec: RunSpec, path: Path, *steps: int) -> None:
    """Stop a run right before the checkpoints of some steps would be written, and let it end after that."""
    seen: list[int] = []
    for step in steps:
        with pytest.raises(KeyboardInterrupt):
            run(spec, path, checkpoint_every=0, tracking=FACTS, on_progress=stop_at(step))
    run(spec, path, tracking=FACTS, on_progress=lambda step, n_steps, loss: seen.append(step))
    assert seen[0] == steps[-1]  # it went on, and was not made anew


def test_knobs_move_from_epoch_to_epoch_and_are_recorded(tmp_path: Path, spec_of: MakeSpec) -> None:
    folder = run(spec_of("csam:rho=0.05,tune=auto"), tmp_path)
    found, start = looks(folder), folder.spec.method.options
    assert [(look["step"], look["epoch"]) for look in found] == [(12, 1), (24, 2), (36, 3)]
    for knob in ("rho", "gamma"):
        values = [start[knob], *turned(folder, knob)]
        assert len(set(values)) >= 3
        assert knobs_at_the_end(tmp_path)[knob] == values[-1]
    seen = {"log_temperature", "error", "gap", "gap_error", "refined", "refined_error", "lead", "lead_error", "rows"}
    seen |= {"push", "restraint"}
    for look, before in zip(found, [start["rho"], *turned(folder, "rho")], strict=False):
        assert {key for key in look if "/" in key} == {
            f"steering/{name}" for name in seen | {"rho", "gamma", "weight_decay"}
        }
        assert look["steering/rows"] == 400
        expected = before * math.exp(look["steering/push"] * look["steering/restraint"])
        assert look["steering/rho"] == pytest.approx(expected, rel=1e-12)  # from so low it reaches no limit


def test_a_steered_run_with_trackers_is_the_run_without(tmp_path: Path, spec_of: MakeSpec) -> None:
    spec = spec_of("csam:tune=auto")
    plain = run(spec, tmp_path / "plain")
    tracked = run(spec, tmp_path / "tracked", tracking=Tracking(("step_facts:every=1", "margins", "tce")))
    assert {"step_facts", "margins"} <= {record.get("tracker") for record in tracked.steps()}
    assert looks(plain) == looks(tracked)
    before, after = content(plain.path), content(tracked.path)
    files = [name for name in before if name.startswith("predictions/") or name.endswith("model.safetensors")]
    assert len(files) == 4
    assert {name: before[name] for name in files} == {name: after[name] for name in files}
    (_, one), (_, other) = (load_checkpoint(folder.path / "checkpoint") or ({}, {}) for folder in (plain, tracked))
    assert one["keeper"] == other["keeper"]
    assert one["optimizer"]["surefoot"] == other["optimizer"]["surefoot"]


def test_trackers_see_rho_and_gamma_as_they_are(tmp_path: Path, spec_of: MakeSpec) -> None:
    """The steps of an epoch are made with what the look before has left."""
    folder = run(spec_of("csam:tune=auto"), tmp_path / "csam", tracking=FACTS)
    facts = [record for record in folder.steps() if record.get("tracker") == "step_facts"]
    assert [record["step"] for record in facts] == list(range(EPOCH * EPOCHS + 1))
    for knob in ("rho", "gamma"):
        values = [folder.spec.method.options[knob], *turned(folder, knob)]
        assert len(set(values)) == EPOCHS + 1
        for record in facts:
            assert record[f"step/{knob}"] == values[max(0, record["step"] - 1) // EPOCH]
    plain = run(spec_of("sam:tune=auto", epochs=1), tmp_path / "sam", tracking=FACTS)
    assert not any("step/gamma" in record for record in plain.steps())


KNOBS = ("rho", "gamma", "weight_decay")
RESUMED = {
    "csam:tune=auto": KNOBS,
    "csam:every=4,tune=auto": KNOBS,
    "csam:base=adamw,lr=0.01,tune=auto": KNOBS,
    "csam:tune=gamma": ("gamma",),
    "sam:tune=auto": ("rho", "weight_decay"),
    "looksam:tune=auto": ("rho", "weight_decay"),
    "sgd:tune=weight_decay": ("weight_decay",),
    "adamw:lr=0.01,tune=weight_decay": ("weight_decay",),
    "sgd:tune=lr": ("lr",),
}


@pytest.mark.parametrize("method", RESUMED)
def test_a_stopped_run_goes_on_to_the_same_bits(method: str, tmp_path: Path, spec_of: MakeSpec) -> None:
    """From a checkpoint right behind a look; then in the middle of an epoch; then right before the next look."""
    spec = spec_of(method)
    whole = run(spec, tmp_path / "whole", tracking=FACTS)
    run_with_stops(spec, tmp_path / "stopped", EPOCH + 1, EPOCH + 7, 2 * EPOCH)
    assert content(tmp_path / "stopped") == content(whole.path)
    assert looks(RunFolder(tmp_path / "stopped")) == looks(whole)
    ended, options = knobs_at_the_end(tmp_path / "stopped"), spec.method.options
    assert {knob for knob, value in ended.items() if value != options[knob]} == set(RESUMED[method])
    for knob in RESUMED[method]:
        assert turned(whole, knob)[-1] == ended[knob]
        assert len({options[knob], *turned(whole, knob)}) > 2  # it moved behind the stops, too


def test_what_held_rho_back_is_remembered(tmp_path: Path) -> None:
    """ρ may not rise where what no temperature repairs has grown worse than at a look before the stop.

    Here 120 digits are learned by heart, too quickly.
    """
    words = {"data": "digits:calibration=0.9", "model": "mlp:width=32", "lr": 0.2, "schedule": "constant"}
    spec = make_spec("csam:tune=auto", **words, epochs=EPOCHS, batch_size=10)
    whole = run(spec, tmp_path / "whole", tracking=FACTS)
    assert min(look["steering/restraint"] for look in looks(whole)[1:]) < 1
    run_with_stops(spec, tmp_path / "stopped", EPOCH + 1, EPOCH + 2, EPOCH * EPOCHS)
    assert content(tmp_path / "stopped") == content(whole.path)
    state = (load_checkpoint(tmp_path / "stopped" / "checkpoint") or ({}, {}))[1]["keeper"]
    assert state["looks"] == EPOCHS


def test_a_process_that_vanishes_is_continued_by_another(tmp_path: Path, spec_of: MakeSpec) -> None:
    spec = spec_of("csam:every=4,tune=auto")
    script = (
        "import json, os, sys\nfrom surefoot.experiment import run\nfrom surefoot.schema import RunSpec, Tracking\n"
        "spec = RunSpec.from_json(json.loads(sys.argv[1]))\n"
        "def vanish(step, n_steps, loss):\n    if step == 20: os._exit(9)\n"
        "run(spec, sys.argv[2], checkpoint_every=0, tracking=Tracking(('step_facts:every=1',)), on_progress=vanish)\n"
    )
    command = [sys.executable, "-c", script, json.dumps(spec.to_json()), str(tmp_path / "killed")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 9, done.stderr
    kept = sorted(path.name for path in (tmp_path / "killed" / "checkpoint").iterdir())
    assert kept == ["step-00000018", "step-00000019"]
    run(spec, tmp_path / "killed", tracking=FACTS)
    run(spec, tmp_path / "whole", tracking=FACTS)
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def test_each_member_of_an_ensemble_starts_anew(tmp_path: Path, spec_of: MakeSpec) -> None:
    spec = spec_of("deep:members=2 + csam:tune=auto", epochs=2)
    whole = run(spec, tmp_path / "whole", tracking=FACTS)
    first, second = ([look for look in looks(whole) if look["member"] == member] for member in (0, 1))
    assert [look["step"] for look in first + second] == [12, 24, 36, 48]
    alone = looks(run(spec_of("csam:tune=auto", epochs=2), tmp_path / "alone"))
    assert [values(look) for look in first] == [values(look) for look in alone]
    facts = [record for record in whole.steps() if record.get("tracker") == "step_facts" and record["step"] in (25, 36)]
    start = spec.method.options
    for knob in ("rho", "gamma"):
        assert [record[f"step/{knob}"] for record in facts] == [start[knob]] * 2
        assert first[-1][f"steering/{knob}"] != start[knob]  # where it would have gone on, had it not begun anew
    assert second[0]["steering/restraint"] == 1  # it has no look of its own yet to be worse than
    run_with_stops(spec, tmp_path / "stopped", 13, 25, 37)
    assert content(tmp_path / "stopped") == content(tmp_path / "whole")


def run_on(arrays: dict[str, np.ndarray], path: Path, method: str = "csam:tune=auto") -> RunFolder:
    path.mkdir()
    np.savez(path / "data.npz", **arrays)
    spec = make_spec(method, data=f"npz:{path / 'data.npz'}", model="mlp:width=16", epochs=EPOCHS, batch_size=8)
    return run(spec, path / "run")


def weights(folder: RunFolder) -> dict[str, bytes]:
    return {name: data for name, data in content(folder.path).items() if name.endswith("model.safetensors")}


def test_the_test_split_never_matters(arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 255, arrays["x_test"][:77].shape, dtype=np.uint8)
    others = {**arrays, "x_test": noise, "y_test": (arrays["y_test"][:77] + 1) % 3}
    one, other = run_on(arrays, tmp_path / "one"), run_on(others, tmp_path / "other")
    assert one.measures() != other.measures()
    assert weights(one) == weights(other)
    assert steered(one) == steered(other)
    assert len(set(turned(one, "gamma"))) == EPOCHS


def test_the_calibration_split_does(arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    others = {**arrays, "y_calibration": small_arrays(n_train=96, n_test=400)["y_calibration"]}
    one, other = run_on(arrays, tmp_path / "one"), run_on(others, tmp_path / "other")
    losses = [[record["loss"] for record in folder.steps() if "loss" in record] for folder in (one, other)]
    assert losses[0][:EPOCH] == losses[1][:EPOCH]  # up to the first look
    assert losses[0][EPOCH + 1 :] != losses[1][EPOCH + 1 :]
    for knob in ("rho", "gamma"):
        assert turned(one, knob)[0] > turned(other, knob)[0]  # who is right nine times out of ten may be sure
    assert weights(one) != weights(other)
    plain = [run_on(each, tmp_path / name, "csam") for name, each in (("a", arrays), ("b", others))]
    assert weights(plain[0]) == weights(plain[1])


def test_the_test_split_may_not_steer(spec_of: MakeSpec) -> None:
    spec = spec_of("csam:tune=auto")
    splits = splits_of(spec)
    same = replace(splits, calibration=splits.test)
    with pytest.raises(SplitError, match=r"Expected a calibration split to steer by, but it is the test split\. Set"):
        assemble(spec, same)
    assert assemble(spec_of("csam"), same).keeper is None


def test_runs_of_before_keep_their_names(spec_of: MakeSpec) -> None:
    csam, sgd = PartSpec("csam", {"rho": 0.1, "gamma": 1.0}), PartSpec("sgd", {"lr": 0.1})
    data, model = PartSpec("digits", {"calibration": 0.25}), PartSpec("mlp", {"width": 4})
    old = RunSpec(MethodSpec("csam", PartSpec("ce"), csam, sgd), data, model, seed=3, epochs=2)
    assert old.run_id("0123456789abcdef", "0.1.0") == "392592e0b6a0"  # as before there was such a thing as tune
    plain, tuned, none = (spec_of(method) for method in ("csam", "csam:tune=auto", "csam:tune=none"))
    assert "tune" not in plain.to_json()["method"]
    assert "tune" not in plain.method.options
    assert tuned.to_json()["method"]["tune"] == tuned.method.options["tune"] == "auto"
    for spec in (plain, tuned, none, spec_of("csam:tune=gamma")):
        assert RunSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    names = [run_id(spec) for spec in (plain, none, tuned, spec_of("csam:tune=gamma"), spec_of("csam:tune=rho"))]
    assert names[0] == names[1]
    assert len(set(names)) == 4
    assert folder_name(plain) != folder_name(tuned)


NOTHING = "Expected an optimizer with {} above 0 to steer, but {} has none. Take CSAM(optimizer, model), or name a knob"
REFUSED = {
    "csam:tune=speed": "Expected tune to be none, auto, rho, gamma, weight_decay, lr, but got 'speed'. Write tune=",
    "csam:tune=": "but got ''. Write tune=auto.",
    "sgd:weight_decay=0,tune=auto": NOTHING.format("rho, gamma or weight_decay", "SGD"),
    "gd:tune=auto": NOTHING.format("rho, gamma or weight_decay", "SGD"),
    "sam:tune=gamma": NOTHING.format("gamma", "SAM"),
    "sam:rho=0,weight_decay=0,tune=auto": NOTHING.format("rho, gamma or weight_decay", "SAM"),
    "csam:rho=0,gamma=2,tune=rho": NOTHING.format("rho", "CSAM"),
    "csam:every=0,tune=rho": NOTHING.format("rho", "CSAM"),
    "sgd:weight_decay=0,tune=weight_decay": NOTHING.format("weight_decay", "SGD"),
}


@pytest.mark.parametrize("method", REFUSED)
def test_what_cannot_be_tuned_is_refused(method: str, tmp_path: Path, spec_of: MakeSpec) -> None:
    error = OptionError if method.startswith("csam:tune=") else InputError
    with pytest.raises(error, match=re.escape(REFUSED[method])):
        run(spec_of(method), tmp_path / "run")
    assert not (tmp_path / "run" / "spec.json").exists()


def test_one_knob_by_name(tmp_path: Path, spec_of: MakeSpec) -> None:
    alone = run(spec_of("csam:tune=gamma", epochs=2), tmp_path)
    assert all("steering/rho" not in record for record in steered(alone))
    assert {record["steering/gamma"] for record in steered(alone)} != {1.0}
    with_loss = parse_method("focal:gamma=2 + csam:rho=0.2,tune=gamma")
    assert (with_loss.loss.name, with_loss.tune) == ("focal", "gamma")


@pytest.mark.parametrize(("method", "rho"), [("csam:every=0,rho=0.1,tune=auto", 0.1), ("csam:rho=0,tune=auto", 0)])
def test_without_a_climb_gamma_alone_is_turned(method: str, rho: float, tmp_path: Path, spec_of: MakeSpec) -> None:
    folder = run(spec_of(method), tmp_path)
    assert not any("steering/rho" in look for look in looks(folder))
    assert len({folder.spec.method.options["gamma"], *turned(folder, "gamma")}) > 2
    assert knobs_at_the_end(tmp_path)["rho"] == rho


def test_groups_without_a_radius_stay_so() -> None:
    first, second, third = (nn.Linear(2, 2) for _ in range(3))
    groups = [
        {"params": first.parameters(), "rho": 0.0},
        {"params": second.parameters(), "rho": 0.2},
        {"params": third.parameters(), "rho": 0.05},
    ]
    optimizer = CSAM(torch.optim.SGD(groups, lr=0.1), gamma=0.0)
    facts = KeepCalibrated(optimizer).step(torch.tensor([[4.0, 0.0]]).repeat(400, 1), torch.arange(400) % 4 // 3)
    grown = 0.2 * math.exp(facts.push)
    assert facts.push > 0
    assert [group["rho"] for group in optimizer.param_groups] == pytest.approx([0, grown, grown / 4])
    assert optimizer.param_groups[0]["rho"] == 0
    assert facts.before == {"rho": 0.2, "gamma": 0.0}


def test_rows_that_tell_nothing_turn_nothing_wherever_it_is() -> None:
    """Also where somebody starts beyond the usual limits."""
    for rho, gamma in ((2.0, 10.0), (0.001, 1.0)):
        model = nn.Linear(2, 2)
        optimizer = CSAM(torch.optim.SGD(model.parameters(), lr=0.1), model, rho=rho, gamma=gamma)
        facts = KeepCalibrated(optimizer).step(torch.full((9, 2), math.nan), torch.zeros(9, dtype=torch.long))
        assert str(facts) == "9 rows tell nothing: all as it was"
        assert facts.after == facts.before == {"rho": rho, "gamma": gamma}


def test_a_loop_without_held_out_rows_says_so() -> None:
    with pytest.raises(InputError, match=r"Expected a loop that has held-out rows for tune=auto, but this one has"):
        build_optimizer(parse_method("csam:tune=auto"), nn.Linear(2, 2))


def test_gamma_is_in_the_state() -> None:
    def made(cls: type[SAM] | type[CSAM] = CSAM, **options: float) -> Any:
        model = nn.Linear(2, 2)
        return cls(torch.optim.SGD(model.parameters(), lr=0.1), model, **options)

    state = made(gamma=2.5, rho=0.3).state_dict()
    other = made(gamma=0.5)
    other.load_state_dict(state)
    assert (other.outer.gamma, other.param_groups[0]["rho"]) == (2.5, 0.3)
    assert other.state_dict()["surefoot"] == state["surefoot"]
    before = {**state, "surefoot": {**state["surefoot"], "outer": {}}}  # as it was when γ never moved
    other = made(gamma=0.5)
    other.load_state_dict(before)
    assert other.outer.gamma == 0.5
    plain = made(SAM)
    plain.load_state_dict(state)
    assert plain.param_groups[0]["rho"] == 0.3


SMALL = ["--data", "digits", "--model", "mlp:width=8", "--epochs", "2", "--batch-size", "32"]


def test_train_on_the_command_line(run_command: RunCommand, tmp_path: Path) -> None:
    done = run_command("train", "--method", "csam:tune=auto", *SMALL, "--out", "run")
    assert done.returncode == 0, done.stderr
    assert len(looks(RunFolder(tmp_path / "run"))) == 2
    assert RunFolder(tmp_path / "run").spec.method.tune == "auto"


def test_compare_tells_them_apart(run_command: RunCommand, tmp_path: Path) -> None:
    words = ["compare", *SMALL, "--seeds", "1", "--jobs", "1", "--out", "runs", "--json"]
    done = run_command(*words, "--methods", "csam,csam:tune=auto")
    assert done.returncode == 0, done.stderr
    rows = {row["label"]: row for row in json.loads(done.stdout)["rows"]}
    assert list(rows) == ["csam", "csam:tune=auto"]
    assert rows["csam:tune=auto"]["options"]["tune"] == "auto"
    assert "tune" not in rows["csam"]["options"]
    assert rows["csam"]["nll"] != rows["csam:tune=auto"]["nll"]
    assert "csam:tune=auto" in (tmp_path / "runs" / "report.html").read_text()
    done = run_command(*words, "--methods", "csam", "--grid", "csam:tune=none|auto")
    assert done.returncode == 0, done.stderr
    (grid,) = json.loads(done.stdout)["grids"]
    assert [setting["options"].get("tune") for setting in grid["settings"]] == [None, "auto"]
    assert grid["chosen"].startswith("csam")


@pytest.mark.parametrize("method", ["csam:tune=speed", "gd:tune=auto", "csam:rho=0,gamma=2,tune=rho"])
def test_the_command_line_refuses_in_one_line(method: str, run_command: RunCommand, tmp_path: Path) -> None:
    for words in (["train", "--method", method, *SMALL, "--out", "run"], ["compare", "--methods", method, *SMALL]):
        done = run_command(*words)
        assert (done.returncode, done.stdout) == (2, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith("Error: ")
        assert REFUSED[method] in line
    assert not list(tmp_path.rglob("spec.json"))
