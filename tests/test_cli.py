"""The command as people run it: in a process of its own, with its output, its errors and its exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from surefoot import __version__
from surefoot.cli.progress import reading
from tests.conftest import Done, RunCommand, small_arrays
from tests.patience import PATIENCE
from tests.report.browser import drawn_page

COMMANDS = [
    "compare",
    "train",
    "measure",
    "report",
    "list",
    "audit",
    "calibrate",
    "conformal",
    "data",
    "shift",
    "study",
    "figure",
]


def surefoot(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "surefoot", *words], capture_output=True, text=True, cwd=cwd, timeout=PATIENCE
    )


@pytest.fixture(scope="module")
def compared(small_npz: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    out = tmp_path_factory.mktemp("compared")
    done = surefoot(*reduced(small_npz, out), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), out


def reduced(small_npz: Path, out: Path) -> list[str]:
    methods = "sgd,sam:rho=0.05,csam:gamma=2,rho=0.1"
    words = ["compare", "--methods", methods, "--seeds", "2", "--data", f"npz:{small_npz}", "--epochs", "3"]
    return [*words, "--batch-size", "16", "--keep-checkpoints", "2", "--out", str(out)]


def test_compare_prints_one_object(compared: tuple[dict, Path]) -> None:
    result, out = compared
    rows = result["rows"]
    assert [row["method"] for row in rows] == ["sgd", "sam", "csam"]
    assert [row["passes"] for row in rows] == [18, 36, 36]
    assert rows[2]["options"]["gamma"] == 2
    assert rows[2]["options"]["rho"] == 0.1
    for row in rows:
        assert row["seconds"] > 0
        for key in ("accuracy", "ece", "nll", "ece@temperature"):
            assert set(row[key]) == {"mean", "sd", "n"}
            assert row[key]["n"] == 2
        assert 0 <= row["ece"]["mean"] <= 1
        assert 0.34 < row["accuracy"]["mean"] <= 1
        assert set(row["calibration"]) == {"accuracy", "ece", "nll", "brier"}
    assert [gap["label"] for gap in result["differences"]] == ["sam:rho=0.05", "csam:gamma=2,rho=0.1"]
    gap = result["differences"][1]["ece"]
    assert gap["value"] == pytest.approx(rows[2]["ece"]["mean"] - rows[0]["ece"]["mean"])
    assert gap["low"] < gap["value"] < gap["high"]
    lowest = min(rows, key=lambda row: row["calibration"]["ece"]["mean"])
    assert result["choice"]["label"] == lowest["label"]
    assert "ece" in lowest["best"]
    assert Path(result["report"]) == out / "report.html"
    kept = {path.parent.parent.name: path.name for path in out.glob("*/checkpoint/step-00000012")}
    assert len(kept) == 6  # epoch 2 of every run, beside the newest


def test_compare_does_not_train_twice(compared: tuple[dict, Path], small_npz: Path) -> None:
    result, out = compared
    done = surefoot(*reduced(small_npz, out), "--json")
    assert json.loads(done.stdout) == result  # seconds included: nothing was run again


def test_compare_for_people(compared: tuple[dict, Path], small_npz: Path) -> None:
    _, out = compared
    done = surefoot(*reduced(small_npz, out))
    assert done.returncode == 0
    for word in (
        "sgd",
        "csam:gamma=2",
        "accuracy",
        "ECE",
        "NLL",
        "±",
        "Chosen on the calibration split:",
        "report.html",
    ):
        assert word in done.stdout
    assert "Traceback" not in done.stderr


def test_the_page_of_a_comparison_opens_in_a_browser(compared: tuple[dict, Path], tmp_path: Path) -> None:
    document = drawn_page(compared[1] / "report.html", tmp_path / "profile")
    assert "data-trouble" not in document.partition("<head")[0]
    assert document.count('class="main-svg"') >= 6  # three reliability diagrams, three curves
    assert "csam:gamma=2,rho=0.1" in document
    assert "surefoot compare --methods" in document  # the command to make it again


def test_report_is_rebuilt_from_folders(compared: tuple[dict, Path], tmp_path: Path) -> None:
    result, out = compared
    done = surefoot("report", str(out), "--out", str(tmp_path / "again.html"), "--json")
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)
    assert {row["label"]: row["ece"] for row in again["rows"]} == {row["label"]: row["ece"] for row in result["rows"]}
    assert again["rows"][0]["method"] == "sgd"  # the cheapest method comes first
    assert (tmp_path / "again.html").stat().st_size > 100_000


def test_train_one_run_with_ones_own_parts(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from torch import nn\nimport numpy as np\n"
        "def net(shape, k, *, width: int = 8):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(36, width), nn.ReLU(), nn.Linear(width, k))\n"
        "def data():\n    return dict(np.load('small.npz'))\n"
    )
    np.savez(tmp_path / "small.npz", **small_arrays())
    words = [
        "train",
        "--method",
        "csam",
        "--seed",
        "7",
        "--out",
        "run",
        "--model",
        "mine:net:width=5",
        "--data",
        "mine:data",
    ]
    done = surefoot(*words, "--epochs", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"test: accuracy [\d.]+ %, ECE [\d.]+ %", done.stdout)
    assert re.search(r"calibration split, to choose by: accuracy [\d.]+ %, ECE [\d.]+ %", done.stdout)
    spec = json.loads((tmp_path / "run" / "spec.json").read_text())["spec"]
    assert (spec["seed"], spec["model"]["options"]["width"]) == (7, 5)
    both = surefoot(
        "compare", "--methods", "sgd", "--seeds", "1", "--model", "mine:net", "--data", "mine:data", cwd=tmp_path
    )
    assert both.returncode == 0, both.stderr


BAD = {
    "compare --methods sma": "Unknown method 'sma'. Did you mean 'swa'",
    "compare --methods csam:gama=2": "Unknown option 'gama' for 'csam'",
    "compare --methods csam:gamma=much": "Expected csam:gamma to be a number, but got 'much'",
    "compare --methods sam:rho=-1": "Expected rho ≥ 0, but got -1",
    "compare --seeds some": "Expected seeds as a number or a list, but got 'some'",
    "compare --epochs 0": "Expected epochs ≥ 1",
    "compare --lr -1": "Invalid learning rate",
    "compare --data npz:nowhere.npz": "nowhere.npz does not exist",
    "compare --data npz:nan.npz": "hold NaN or infinity, first at row 0",
    "compare --data npz:label.npz": "Expected labels in 0…2, but got 3",
    "compare --data npz:empty.npz": "Expected at least one example, but got an empty",
    "compare --model nosuch": "Unknown model 'nosuch'",
    "compare --model nosuch:net": "cannot import 'nosuch'",
    "compare --data npz:flat.npz --model cnn": "Use --model mlp",
    "compare --jobs few": "Invalid value for '--jobs'",
    "compare --out nan.npz": "nan.npz is a file",
    "train": "Missing option '--out'",
    "report nowhere": "nowhere does not exist",
    "list spoons": "Choose from optimizers",
    "audit": "Missing argument 'files'",
    "audit nowhere.npz": "nowhere.npz does not exist",
    "audit a.npz b.npz c.npz": "a.npz does not exist",
    "calibrate nowhere.npz": "nowhere.npz does not exist",
    "calibrate a.npz --out a.txt": "Expected --out to end in .json or .safetensors, but got 'a.txt'",
    "calibrate a.npz --apply c.json --method beta": "Expected --method to fit or --apply to repair, but got both",
    "calibrate nan.npz --method temprature": "Did you mean 'temperature'",
    "dance": "No such command 'dance'",
}


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    arrays = small_arrays()
    floats = {key: value.astype(np.float32) if key[0] == "x" else value for key, value in arrays.items()}
    np.savez(folder / "flat.npz", **{k: v.reshape(len(v), -1) if k[0] == "x" else v for k, v in floats.items()})
    np.savez(folder / "label.npz", **{**arrays, "y_test": arrays["y_test"] * 0 + 3})
    np.savez(folder / "empty.npz", **{**arrays, "x_test": arrays["x_test"][:0], "y_test": arrays["y_test"][:0]})
    np.savez(folder / "nan.npz", **{**floats, "x_train": floats["x_train"] * np.nan})
    return folder


def check_refusal(done: Done | subprocess.CompletedProcess[str], says: str) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert says in line


@pytest.mark.parametrize("command", BAD)
def test_bad_input_gets_one_line_and_exit_code_2(command: str, bad_files: Path, run_command: RunCommand) -> None:
    check_refusal(run_command(*command.split(), cwd=bad_files), BAD[command])
    assert not (bad_files / "surefoot-runs").exists()


@pytest.mark.parametrize("command", ["compare --methods sma", "dance"])
def test_bad_input_in_a_process_of_its_own(command: str, bad_files: Path) -> None:
    check_refusal(surefoot(*command.split(), cwd=bad_files), BAD[command])


def test_debug_shows_the_traceback_wherever_it_stands(bad_files: Path) -> None:
    for words in (["--debug", "compare", "--methods", "sma"], ["compare", "--methods", "sma", "--debug"]):
        assert "Traceback" in surefoot(*words, cwd=bad_files).stderr


def test_a_run_that_diverges_exits_with_1(small_npz: Path, tmp_path: Path) -> None:
    words = ["--data", f"npz:{small_npz}", "--epochs", "50", "--lr", "1e9"]
    done = surefoot("train", "--out", str(tmp_path / "run"), *words)
    assert done.returncode == 1
    assert re.search(r"^Error: Training stopped at step \d+, .*Lower the learning rate", done.stderr, re.MULTILINE)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(command: str, run_command: RunCommand) -> None:
    done = run_command(command, "--help")
    assert done.returncode == 0
    assert f"Example: surefoot {command}" in " ".join(done.stdout.split())


def test_help_answers_at_once_without_torch() -> None:
    script = "import sys; sys.argv = ['surefoot', '--help']\nfrom surefoot.cli import main\n"
    script += "try: main()\nfinally: print('torch' in sys.modules, 'numpy' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.split() == ["False", "False"]
    assert all(command in done.stdout for command in COMMANDS)


def test_version_and_list() -> None:
    assert surefoot("--version").stdout == f"surefoot {__version__}\n"
    listed = json.loads(surefoot("list", "--json").stdout)
    assert {"sgd", "adamw", "sam", "csam"} <= {part["name"] for part in listed["optimizers"]}
    assert {"fashion", "npz"} <= {part["name"] for part in listed["data"]}
    table = surefoot("list", "optimizers").stdout
    assert "csam" in table
    assert "gamma=1" in table


def test_a_closed_pipe_is_no_error() -> None:
    command = [sys.executable, "-m", "surefoot", "list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # the reader leaves
        assert "Traceback" not in process.stderr.read()


def test_what_packages_print_during_the_work_is_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    """Ray prints on stdout that a worker has died, which would make JSON unreadable."""
    with reading("a.npz") as on_rows:
        print("(raylet) a worker died")
        on_rows(10, 0.5)
    print("{}")
    assert capsys.readouterr() == ("{}\n", "(raylet) a worker died\n")


def test_an_interrupt_says_how_to_go_on_and_leaves_no_process_behind(small_npz: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "surefoot", *reduced(small_npz, tmp_path), "--seeds", "3"]
    command[command.index("--epochs") + 1] = "100000"
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as p:
        try:
            wait_for(lambda: any(tmp_path.glob("*/checkpoint/step-*")))
            os.killpg(p.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
            _, errors = p.communicate(timeout=PATIENCE)
        finally:
            if p.poll() is None:  # a test that fails must not wait for 100,000 epochs
                os.killpg(p.pid, signal.SIGKILL)
    assert p.returncode == 130
    assert errors.strip().splitlines()[-1].startswith("Error: Interrupted. What was finished is kept")
    wait_for(lambda: not group_is_alive(p.pid))


def group_is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_track_measure_and_report(small_npz: Path, tmp_path: Path) -> None:
    words = ["train", "--data", f"npz:{small_npz}", "--model", "mlp:width=8", "--epochs", "2", "--batch-size", "16"]
    out = tmp_path / "run"
    done = surefoot(*words, "--track", "gn_sharpness:every=3", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert '"gn_sharpness/two_over_lr"' in (out / "steps.jsonl").read_text()
    done = surefoot("measure", str(out), "--track", "margins,kappa", "--json")
    assert done.returncode == 0, done.stderr
    assert [record["tracker"] for record in json.loads(done.stdout)[str(out)]] == ["margins", "kappa"]
    done = surefoot("report", str(out), "--out", str(tmp_path / "page.html"))
    assert done.returncode == 0, done.stderr
    assert "Curvature, margins and calibration" in (tmp_path / "page.html").read_text()
    done = surefoot(*words, "--track", "sharp", "--out", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "Unknown tracker 'sharp'" in done.stderr
    done = surefoot(*words, "--track-budget", "-1", "--out", str(tmp_path / "none"))
    assert "Expected the budget to be a share" in done.stderr


def test_a_page_never_replaces_somebodys_own_file(small_npz: Path, tmp_path: Path, run_command: RunCommand) -> None:
    """It is refused before anything is trained."""
    (tmp_path / "report.html").write_text("<html>mine</html>")
    words = [
        "--data",
        f"npz:{small_npz}",
        "--model",
        "mlp:width=8",
        "--epochs",
        "1",
        "--methods",
        "sgd",
        "--seeds",
        "1",
    ]
    done = run_command("compare", *words, "--out", ".")
    assert done.returncode == 2
    assert "report.html to be free or a page that surefoot wrote, but it is another file" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
