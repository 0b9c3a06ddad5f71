"""An input is never an output, whatever it is called and whichever command would write it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from surefoot.errors import InputError
from surefoot.experiment import run
from surefoot.records import check_output, find_runs
from surefoot.studies.compare import make_spec
from tests.auditing.made import made
from tests.conftest import RunCommand


@pytest.fixture
def files(tmp_path: Path) -> Path:
    logits, labels = made(200, temperature=0.5)
    np.savez(tmp_path / "in.npz", logits=logits, labels=labels)
    rows = [f'{{"label": {y}, "logits": {p}}}' for y, p in zip(labels, logits.tolist(), strict=True)]
    (tmp_path / "calibrator.json").write_text("[" + ",".join(rows) + "]")
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "labels.npy", labels)
    (tmp_path / "folder").mkdir()
    (tmp_path / "soft.npz").symlink_to("in.npz")
    (tmp_path / "soft.json").symlink_to("calibrator.json")
    (tmp_path / "in-audit.html").symlink_to("in.npz")
    os.link(tmp_path / "in.npz", tmp_path / "hard.html")
    os.link(tmp_path / "calibrator.json", tmp_path / "hard.json")
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    "command",
    [
        "audit in.npz --out in.npz",
        "audit in.npz --out folder/../in.npz",
        "audit in.npz --out soft.npz",
        "audit soft.npz --out in.npz",
        "audit in.npz --out hard.html",
        "audit in.npz",  # the default name is a link to it
        "audit in.npz calibrator.json --out calibrator.json",
        "audit logits.npy --out labels.npy",
        "audit logits.npy --labels labels.npy --out labels.npy",
        "calibrate calibrator.json",  # the default name
        "calibrate calibrator.json --out calibrator.json",
        "calibrate calibrator.json --out soft.json",
        "calibrate calibrator.json --out hard.json",
        "calibrate soft.json --out calibrator.json",
    ],
)
def test_the_reviewers_commands_keep_their_input(command: str, files: Path, run_command: RunCommand) -> None:
    before = content(files)
    done = run_command(*command.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert "Expected to write another file than is read, but " in done.stderr
    assert "which would be lost. Choose another name with --out." in done.stderr
    assert content(files) == before


@pytest.mark.parametrize("out", ["in.npz", "soft.npz", "folder/../in.npz"])
def test_apply_keeps_what_it_repairs(out: str, files: Path, run_command: RunCommand) -> None:
    assert run_command("calibrate", "calibrator.json", "--method", "temperature", "--out", "c.json").returncode == 0
    before = content(files)
    done = run_command("calibrate", "in.npz", "--apply", "c.json", "--out", out)
    assert done.returncode == 2
    assert "is the input in.npz, which would be lost" in done.stderr
    assert content(files) == before


def test_a_page_is_not_written_over_other_data(files: Path, run_command: RunCommand) -> None:
    before = content(files)
    done = run_command("audit", "in.npz", "--out", "logits.npy")
    assert done.returncode == 2
    assert (
        "Expected --out to be the page, such as logits.html, but got 'logits.npy', the name of a data file"
        in done.stderr
    )
    assert content(files) == before


@pytest.fixture(scope="module")
def trained(small_npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    run(make_spec("sgd", data=f"npz:path={small_npz}", model="mlp:width=4", epochs=1), folder)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "report run --out run/spec.json",
        "report run --out link.html",
        "figure reliability run --out link.html",
        "figure reliability run --out run/predictions/test.npz",
        "shift run --corruptions none --ood uniform --n 10 --out run/steps.jsonl",
        "shift run --corruptions none --ood uniform --n 10 --files published --out published/fog.npy",
    ],
)
def test_the_files_of_a_run_are_kept(command: str, trained: Path, tmp_path: Path, run_command: RunCommand) -> None:
    shutil.copytree(trained, tmp_path / "run")
    (tmp_path / "link.html").symlink_to("run/predictions/test.npz")
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "fog.npy").write_bytes(b"published")
    before = content(tmp_path)
    done = run_command(*command.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert "Expected to write another file than is read, but " in done.stderr
    assert content(tmp_path) == before


def test_a_page_inside_a_run_folder_can_be_written_again(
    trained: Path, tmp_path: Path, run_command: RunCommand
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    for _ in range(2):
        assert run_command("report", "run", "--out", "run/report.html").returncode == 0
    (found,) = find_runs([tmp_path / "run"])
    names = {path.relative_to(found.path).as_posix() for path in found.files()}
    assert {"spec.json", "steps.jsonl", "done.json", "predictions/test.npz"} <= names
    assert "report.html" not in names


def test_names_that_do_not_exist_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_output("new.html", ["other.npz"])
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(InputError, match=r"but link/a\.npz is the input a\.npz, which would be lost"):
        check_output("link/a.npz", ["a.npz"])
