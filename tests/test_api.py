"""What people call from Python: the same as the command line, on files, arrays, frames and models."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import surefoot as sf
from surefoot.assembly import splits_of
from surefoot.config import load_config, run_words, to_toml
from surefoot.errors import InputError, OptionError, SplitError
from surefoot.schema import Tracking
from surefoot.settings import Settings
from tests.conftest import RunCommand
from tests.runs import content

SMALL = {"epochs": 2, "batch_size": 16, "model": "mlp:width=8"}


def predictions(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are twice as large as they should be."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 3)) * 2
    probs = np.exp(logits / 2) / np.exp(logits / 2).sum(1, keepdims=True)
    return logits, np.array([rng.choice(3, p=p) for p in probs])


@pytest.fixture(scope="module")
def trained(small_npz: Path, tmp_path_factory: pytest.TempPathFactory) -> sf.Run:
    return sf.train(method="csam:rho=0.05", data=f"npz:{small_npz}", out=tmp_path_factory.mktemp("runs") / "a", **SMALL)


def test_a_run_folder_is_fed_back_to_the_same_bits(trained: sf.Run, tmp_path: Path, run_command: RunCommand) -> None:
    done = run_command("train", "--config", str(trained.path / "run.toml"), "--out", str(tmp_path / "b"))
    assert done.returncode == 0, done.stderr
    first, second = content(trained.path), content(tmp_path / "b")
    assert "checkpoint/step-00000012/model.safetensors" in first
    different = {Path(name).name for name in first if first[name] != second.get(name)}
    assert different <= {"spec.json", "state.json"}  # whose label spells out every option; seconds
    assert sf.load_run(tmp_path / "b").folder.run_id == trained.folder.run_id


@pytest.mark.parametrize(
    "method",
    [
        "sgd",
        "csam:tune=auto,every=4",
        "sgd:tune=weight_decay",
        "focal + deep:members=3 + sam:rho=0.2,base=adamw",
        "asam:eta=0.1",
    ],
)
def test_the_settings_that_a_run_writes_are_all_of_its_settings(method: str, tmp_path: Path) -> None:
    spec = Settings(augment="flip", precision="bf16", accumulate=3, compile=True, lr=0.03).spec(method, seed=4)
    words = run_words(spec, Tracking(), threads=1)
    (tmp_path / "run.toml").write_text(to_toml(words))
    found = load_config(tmp_path / "run.toml")
    told = {key: value for key, value in found.items() if key not in ("method", "seed", "threads")}
    again = Settings(**told).spec(found["method"], seed=found["seed"])
    assert again.run_id("data", "1") == spec.run_id("data", "1")


def test_what_is_typed_wins_over_the_file(tmp_path: Path, small_npz: Path, run_command: RunCommand) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(f'method = "sgd"\ndata = "npz:{small_npz}"\nepochs = 1\nbatch-size = 30\n')
    done = run_command("train", "--config", str(config), "--batch-size", "45", "--out", "run", "--json")
    assert done.returncode == 0, done.stderr
    spec = sf.load_run(tmp_path / "run").spec
    assert (spec.epochs, spec.batch_size) == (1, 45)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch = 3", "Unknown option 'epoch' for train in .*Did you mean 'epochs'"),
        ("epochs = ", "Expected settings as TOML"),
        ("[train]\nepochs = 3", r"has a table \[train\]"),
    ],
)
def test_a_bad_config_is_refused(text: str, message: str, tmp_path: Path, run_command: RunCommand) -> None:
    (tmp_path / "bad.toml").write_text(text)
    done = run_command("train", "--config", "bad.toml", "--out", "run")
    assert done.returncode == 2
    assert re.search(message, done.stderr), done.stderr
    assert not (tmp_path / "run").exists()


def test_unknown_options_and_two_descriptions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"Unknown option 'epoch' for train\. Did you mean 'epochs'"):
        sf.train(out=tmp_path / "x", epoch=3)
    with pytest.raises(InputError, match="a spec or settings such as method=, but got both"):
        sf.train(Settings().spec("sgd"), method="sam", out=tmp_path / "x")


def test_a_run_as_tables_and_as_a_model(trained: sf.Run) -> None:
    run = sf.load_run(trained.path)
    assert run.spec.method.name == "csam"
    assert len(run.steps) == 12
    assert len(run.predictions) == 90 + 60 + 60
    model = run.model()
    assert not model.training
    inputs = splits_of(run.spec).test.inputs
    with torch.no_grad():
        assert torch.allclose(model(inputs), torch.from_numpy(run.folder.predictions("test").logits))
    with pytest.raises(InputError, match="Expected a run folder"):
        sf.load_run(trained.path / "nosuch")


def test_tables_are_frames_where_pandas_is(trained: sf.Run) -> None:
    pandas = pytest.importorskip("pandas")
    run = sf.load_run(trained.path)
    for table in (run.steps, run.measures, run.predictions):
        assert isinstance(table, pandas.DataFrame)
    test = run.predictions[run.predictions.split == "test"]
    found = sf.audit(test).measures["accuracy"].estimate
    recorded = run.measures.query("split == 'test' and calibrator.isnull() and metric == 'accuracy'").value.item()
    assert found == pytest.approx(recorded)


def test_a_grid_is_chosen_on_the_calibration_split(small_npz: Path, tmp_path: Path) -> None:
    words = {"methods": "sgd", "grid": "sam:rho=0.01|3", "seeds": 1, "jobs": 1, "data": f"npz:{small_npz}"}
    found = sf.compare(**words, **SMALL, out=tmp_path / "runs")
    said = found.to_json()
    (grid,) = said["grids"]
    assert (grid["chosen_on"], grid["by"], len(grid["settings"])) == ("calibration", "nll", 2)
    nll = {each["label"]: each["calibration"]["nll"]["mean"] for each in grid["settings"]}
    assert grid["chosen"] == min(nll, key=nll.get) == "sam:rho=0.01"
    assert [row["label"] for row in said["rows"]] == ["sgd", "sam:rho=0.01"]  # the other setting is not judged on test
    assert len(found.runs) == 3
    page = (tmp_path / "runs" / "report.html").read_text()
    assert "Chosen on the calibration split: sam:rho=0.01|3" in page
    assert "best mean NLL on the calibration split" in str(found)
    again = sf.compare(**sf.load_config(tmp_path / "runs"), out=tmp_path / "runs")
    assert again.to_json() == said  # seconds included: nothing was trained again


def test_a_grid_needs_values_and_a_known_score(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Expected a grid with values to choose from"):
        sf.compare(grid="sam:rho=1", out=tmp_path)
    with pytest.raises(InputError, match="Unknown metric 'tce'"):
        sf.compare(grid="sam:rho=1|2", choose_by="tce", out=tmp_path)


def test_audits_of_files_arrays_and_columns_agree(tmp_path: Path, run_command: RunCommand) -> None:
    logits, labels = predictions()
    np.savez(tmp_path / "p.npz", logits=logits, labels=labels)
    said = json.loads(run_command("audit", "p.npz", "--json", "--no-page").stdout)["audits"][0]["sentence"]
    assert "over-confident" in said
    assert sf.audit(tmp_path / "p.npz").sentence() == said
    assert sf.audit(logits=torch.from_numpy(logits), labels=labels.tolist()).sentence() == said
    assert sf.audit({"logits": logits, "labels": labels}).sentence() == said
    assert sf.audit(sf.Predictions(logits, labels, "test")).sentence() == said
    assert said in str(sf.audit(logits=logits, labels=labels))
    site = np.where(labels > 0, "a", "b")
    assert {each.value for each in sf.audit(logits=logits, labels=labels, group={"site": site}).audit.slices} == {
        "a",
        "b",
    }
    named = sf.audit(logits=logits, labels=labels, class_names=["x", "y", "z"])
    assert named.audit.class_names == ("x", "y", "z")


def test_an_audit_of_a_frame(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    logits, labels = predictions()
    columns = {f"logit_{k}": logits[:, k] for k in range(3)}
    frame = pandas.DataFrame({**columns, "label": labels, "site": np.where(labels > 0, "a", "b")})
    expected = sf.audit(logits=logits, labels=labels, group={"site": np.asarray(frame.site)})
    found = sf.audit(frame, group="site")
    assert found.measures == expected.measures
    frame["label"] = frame["label"].astype("Int64")
    frame["site"] = frame["site"].astype("category")
    assert sf.audit(frame, group="site").measures == expected.measures
    frame.loc[7, "label"] = None
    with pytest.raises(InputError, match="label"):
        sf.audit(frame)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, "Expected predictions, but got none"),
        ({"probs": [[0.5, 0.5]]}, "with labels="),
        ({"probs": [[0.5, 0.5]], "logits": [[0.0, 0.0]], "labels": [0]}, "but got two"),
        ({"probs": [[0.5, 0.5]], "labels": [0, 1]}, "columns of one length, but got probs 1, labels 2"),
        ({"source": 3}, "but got a int"),
    ],
)
def test_what_is_no_prediction_is_refused(words: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sf.audit(**words)


@pytest.fixture
def network() -> tuple[nn.Module, DataLoader]:
    logits, labels = predictions()
    inputs = torch.from_numpy(logits).float()
    model = nn.Sequential(nn.Identity(), nn.Dropout(0.5))
    return model, DataLoader(TensorDataset(inputs, torch.from_numpy(labels)), batch_size=64)


def test_a_calibrated_model_takes_the_place_of_the_model(network: tuple[nn.Module, DataLoader], tmp_path: Path) -> None:
    model, loader = network
    calibrated = sf.calibrate(model, loader)
    assert model.training and calibrated.training  # noqa: PT018 - one fact: the mode is as it was
    assert calibrated.calibrator.name == "temperature"
    assert 1.6 < calibrated.calibrator.temperature < 2.5
    inputs = torch.tensor([[2.0, 0.0, -2.0]])
    assert torch.allclose(calibrated.eval()(inputs), inputs / calibrated.calibrator.temperature)
    assert "temperature" in calibrated.report.use()
    calibrated.report.save(tmp_path / "c.json")
    assert sf.load_calibrator(tmp_path / "c.json") == calibrated.calibrator
    assert sf.calibrate(model, loader, method="isotonic").calibrator.name == "isotonic"
    named = [{"input": x, "labels": y} for x, y in loader]
    assert sf.calibrate(model, named).calibrator == calibrated.calibrator


def test_loaders_and_models_that_cannot_be_calibrated(network: tuple[nn.Module, DataLoader]) -> None:
    model, loader = network
    x, y = loader.dataset.tensors
    for bad, message in (
        ([x], "Expected the loader to give pairs"),
        ([{"x": x, "y": y}], "Expected 'labels' in every batch of the loader, but got x, y"),
        ([], "the loader gives nothing"),
        ([(x, y.float()[:, None])], "labels"),
    ):
        with pytest.raises(InputError, match=message):
            sf.calibrate(model, bad)
    assert model.training
    with pytest.raises(InputError, match="the model gives probabilities"):
        sf.calibrate(nn.Softmax(-1), loader)
    with pytest.raises(InputError, match="Expected a loader"):
        sf.calibrate(model)
    loader.dataset.split = "test"
    with pytest.raises(SplitError, match="of the test split"):
        sf.calibrate(model, loader)
    with pytest.raises(SplitError, match="test set only"):
        sf.calibrate(sf.Predictions(x.numpy(), y.numpy(), "test"))


def test_names_are_completed_without_torch() -> None:
    script = (
        "import sys\nfrom surefoot.cli.complete import COMPLETED as known\n"
        "print(known['compare']['methods']('sgd,cs'), known['calibrate']['method']('temp'), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['sgd,csam'] ['temperature'] False"
