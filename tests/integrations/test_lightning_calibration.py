"""What the callback logs, draws and fits is what the library says of the same predictions."""

import importlib
import sys
from pathlib import Path

import lightning
import matplotlib.figure
import pytest
import torch
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.data import DataLoader, TensorDataset

import surefoot as sf
from surefoot.errors import InputError
from surefoot.integrations import torchmetrics as ours
from surefoot.integrations.lightning import CalibrationCallback
from surefoot.metrics import bootstrap, from_logits
from tests.blocks import ROOT, blocks_of
from tests.integrations.lightning_runs import QUIET, Net, fit
from tests.optim.problems import assert_same, weights

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning:lightning.*", "ignore:.*isinstance.treespec")
DRAW = torch.Generator().manual_seed(4)
X, Y = torch.randn(90, 8, generator=DRAW), torch.randint(3, (90,), generator=DRAW)


def held_out(n=40):
    return DataLoader(TensorDataset(X[:n], Y[:n]), batch_size=16)


class Validated(Net):
    """Says nothing of its logits: they are asked for once more."""

    def __init__(self, *args, loader=None, **options):
        super().__init__(*args, **options)
        self.ece = ours.ECE(n_bins=10)
        self.val_dataloader = loader or held_out

    def validation_step(self, batch, batch_idx):
        self.ece(self(batch[0]).softmax(-1), batch[1])
        self.log("own_ece", self.ece)

    def test_step(self, batch, batch_idx):
        return {"logits": self(batch[0]), "labels": batch[1]}


def test_what_is_logged_drawn_and_fitted(tmp_path):
    module, callback = Validated("csam", 0.3), CalibrationCallback(n_bins=10)
    trainer = fit(module, callback, epochs=2, logger=TensorBoardLogger(tmp_path, "", ""), log_every_n_steps=1)
    module.eval()
    logits, labels = module(X[:40]).detach(), Y[:40]
    probs = logits.double().softmax(1)
    ece, seen = bootstrap("ece", probs, labels, n_bins=10), trainer.callback_metrics
    wanted = {"ece": ece.estimate, "ece_low": ece.low, "ece_high": ece.high}
    wanted |= {name: from_logits(name, logits, labels).item() for name in ("nll", "accuracy")}
    for name, value in wanted.items():
        assert seen[f"val_{name}"].item() == pytest.approx(value, abs=1e-6)
    assert seen["own_ece"].item() == pytest.approx(ece.estimate, abs=1e-6)
    assert isinstance(callback.figure, matplotlib.figure.Figure)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [image.step for image in events.Images("val_reliability")] == [7, 14]
    assert events.Images("val_reliability")[-1].height > 200
    assert len(events.Scalars("val_ece_high")) == 2
    temperature = sf.fit_temperature(callback.predictions).temperature
    assert callback.calibrator.temperature == temperature
    assert torch.allclose(callback.calibrated(module)(X), module(X) / temperature)

    tested = trainer.test(module, DataLoader(TensorDataset(X[40:], Y[40:]), batch_size=16), verbose=False)[0]
    after = from_logits("ece", module(X[40:]).detach().double() / temperature, Y[40:], n_bins=10)
    assert tested["test_ece_calibrated"] == pytest.approx(after.item(), abs=1e-6)
    assert tested["test_nll"] == pytest.approx(from_logits("nll", module(X[40:]).detach(), Y[40:]).item(), abs=1e-6)
    with torch.no_grad():
        module.net[0].bias.add_(1e-3)
    with pytest.raises(InputError, match="Expected the weights that were validated last, but got others"):
        callback.calibrated(module)


def test_a_run_with_it_is_the_run_without_it(tmp_path):
    watched, plain = Validated("csam", 0.3), Validated("csam", 0.3)
    fit(watched, CalibrationCallback(), epochs=2, logger=CSVLogger(tmp_path, "", ""))
    fit(plain, epochs=2)
    assert_same(weights(watched.net), weights(plain.net))
    assert (tmp_path / "val_reliability_14.png").stat().st_size > 5000


def test_no_temperature_for_other_weights_than_those_validated():
    module, callback = Validated(), CalibrationCallback(figure=False)
    with pytest.raises(InputError, match="it has not seen a training end"):
        callback.calibrated(module)
    with pytest.warns(UserWarning, match="No temperature is fitted: the last validation was at step 4 of 7"):
        fit(module, callback, val_check_interval=4)
    with pytest.raises(InputError, match=r"the last validation was at step 4 of 7. Call surefoot.calibrate\(model"):
        callback.calibrated(module)
    with pytest.warns(UserWarning, match="No temperature is fitted: there was no validation"):
        fit(Net(), CalibrationCallback(figure=False))


def test_what_could_be_something_else_is_asked_about(monkeypatch):
    def validate(step, loader=held_out, **options):
        made = type("Made", (Net,), {"validation_step": step})()
        trainer = lightning.Trainer(
            logger=False, accelerator="cpu", callbacks=[CalibrationCallback(figure=False, **options)], **QUIET
        )
        return trainer.validate(made, loader() if callable(loader) else loader, verbose=False)[0]

    def probabilities(self, batch, batch_idx):
        return {"logits": self(batch[0]).softmax(-1), "labels": batch[1]}

    def nothing(self, batch, batch_idx, dataloader_idx=0):
        return None

    with pytest.raises(InputError, match="Expected logits, but got rows that sum to 1: probabilities"):
        validate(probabilities)
    threes = DataLoader(TensorDataset(X, Y, Y), batch_size=16)
    with pytest.raises(InputError, match="validation_step returned neither"):
        validate(nothing, threes)
    told = validate(nothing, threes, predictions=lambda module, batch, outputs: (module(batch[0]), batch[2]))
    assert told["val_accuracy"] == validate(nothing, DataLoader(TensorDataset(X, Y), batch_size=16))["val_accuracy"]
    with pytest.raises(InputError, match=r"Say which: CalibrationCallback\(dataloader=0\)"):
        validate(nothing, [held_out(), held_out()])
    second = validate(nothing, [held_out(), held_out(16)], dataloader=1)
    assert second["val_nll/dataloader_idx_1" if "val_nll" not in second else "val_nll"] > 0
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(InputError, match=r"surefoot\[figures\]"):
            CalibrationCallback()


@pytest.mark.parametrize(("ours", "theirs"), [("lightning", "lightning.pytorch"), ("torchmetrics", "torchmetrics")])
def test_a_missing_package_names_the_extra(ours, theirs, monkeypatch):
    monkeypatch.setitem(sys.modules, theirs, None)
    monkeypatch.delitem(sys.modules, f"surefoot.integrations.{ours}")
    with pytest.raises(ImportError, match=rf"Run pip install 'surefoot\[{ours}\]'"):
        importlib.import_module(f"surefoot.integrations.{ours}")


@pytest.mark.parametrize("page", ["lightning", "torchmetrics"])
def test_the_script_of_the_page(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = [block for block in blocks_of(ROOT / "docs" / f"{page}.md") if block.language == "python"]
    script = next(block for block in blocks if block.mark and block.mark.startswith("run by"))
    assert script.code.count("\n") <= 40
    space = {}
    exec(compile(script.code, f"{page}.md", "exec"), space)
    printed = capsys.readouterr().out
    if page == "lightning":
        assert "\nECE 0.0" in printed
        assert sorted(Path("lightning_logs/version_0").iterdir())
