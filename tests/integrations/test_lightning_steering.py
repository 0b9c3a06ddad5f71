"""Lightning turns ρ and γ as the loop written out does, and a run that was stopped goes on turning them."""

import warnings

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from surefoot.errors import InputError
from surefoot.integrations.lightning import CalibrationCallback, KeepCalibratedCallback, SharpnessAwareMixin
from surefoot.optim import SAM
from surefoot.steering import KeepCalibrated
from tests.blocks import ROOT, blocks_of
from tests.integrations.lightning_runs import INPUTS, LABELS, QUIET, Net, fit, network, optimizer_of, rows
from tests.integrations.test_lightning import Resumable
from tests.optim.problems import assert_same, weights

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning:lightning.*", "ignore:.*isinstance.treespec")
DRAW = torch.Generator().manual_seed(4)
X, Y = torch.randn(90, 8, generator=DRAW), torch.randint(3, (90,), generator=DRAW)


def held_out(n=90):
    return DataLoader(TensorDataset(X[:n], Y[:n]), batch_size=32)


class Validated(Net):
    """Says nothing of its logits: they are asked for once more."""

    def __init__(self, *args, loader=held_out, **options):
        super().__init__(*args, **options)
        self.val_dataloader = loader

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        pass


class Unseeded(Validated):
    def on_train_start(self):
        pass


def knobs(trainer):
    (optimizer,) = trainer.optimizers
    return optimizer.param_groups[0]["rho"], optimizer.outer.gamma


def by_hand(method="csam", *, epochs=2, every=7, speed=1.0):
    """The same with torch alone, without dropout, since loaders draw numbers: look after every few steps."""
    model = network()
    optimizer, schedule = optimizer_of(model, method, model=model)
    keeper, facts = KeepCalibrated(optimizer, speed=speed), []
    torch.manual_seed(5)
    for _ in range(epochs):
        for number, (x, y) in enumerate(zip(INPUTS.split(4), LABELS.split(4), strict=True), 1):
            optimizer.step(lambda x=x, y=y: F.cross_entropy(model(x), y, reduction="none"))
            schedule.step()
            if number % every == 0:
                model.eval()
                with torch.no_grad():
                    facts.append(keeper.step(torch.cat([model(part) for part in X.split(32)]), Y))
                model.train()
    return model, facts


@pytest.mark.parametrize(("method", "options"), [("csam", {}), ("sam", {}), ("csam", {"val_check_interval": 3})])
def test_knobs_and_weights_are_those_of_a_loop_by_hand(method, options):
    every = options.get("val_check_interval", 7)
    module, callback = Validated(method), KeepCalibratedCallback()
    trainer = fit(module, callback, epochs=2, **options)
    model, facts = by_hand(method, every=every, speed=every / 7)
    assert callback.keeper.facts == facts[-1]
    assert callback.keeper.looks == len(facts) == {7: 2, 3: 4}[every]  # the sanity check is none of them
    assert facts[-1].after["rho"] > facts[0].before["rho"]
    assert_same(weights(module.net), weights(model))
    seen = trainer.callback_metrics
    assert {name for name in seen if name.startswith("steering/")} == {
        "steering/log_temperature",
        *(f"steering/{name}" for name in facts[-1].after),
    }
    assert seen["steering/rho"].item() == pytest.approx(facts[-1].after["rho"])
    assert seen["steering/log_temperature"].item() == pytest.approx(facts[-1].signal.log_temperature)


def test_only_validations_of_a_training_turn_anything():
    module, callback = Validated(), KeepCalibratedCallback(speed=0.5, limits={"gamma": (0.0, 1.5)})
    trainer = fit(module, callback, CalibrationCallback(figure=False))
    before = knobs(trainer)
    assert before[1] == 1.5
    assert trainer.validate(module, verbose=False)[0]["val_ece"] > 0
    assert knobs(trainer) == before
    assert (callback.keeper.looks, callback.keeper.speed, callback._batches) == (1, 0.5, [])
    with pytest.warns(UserWarning, match="No knob was turned: there was no validation. Validate once per epoch"):
        fit(Validated(), KeepCalibratedCallback(), check_val_every_n_epoch=2)


def test_with_the_mixin_and_an_optimizer_that_is_turned_alone():
    class Mixed(SharpnessAwareMixin, Validated):
        def configure_optimizers(self):
            return SAM(torch.optim.SGD(self.parameters(), lr=0.1, weight_decay=1e-3), rho=0.1)

    callback = KeepCalibratedCallback(knobs=["rho", "weight_decay"])
    trainer = lightning.Trainer(max_epochs=1, logger=False, accelerator="cpu", callbacks=[callback], **QUIET)
    trainer.fit(Mixed("sam"), rows())
    (group,) = trainer.optimizers[0].param_groups
    assert group["rho"] == callback.keeper.facts.after["rho"] > 0.1
    assert group["weight_decay"] == callback.keeper.facts.after["weight_decay"] > 1e-3


class Killed(lightning.Callback):
    """Ends the process in the third epoch, as far as a test can."""

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.current_epoch == 2 and batch_idx == 3:
            raise RuntimeError("killed")


@pytest.mark.parametrize("after_the_epoch", [True, False])
def test_a_run_that_was_killed_goes_on_bit_for_bit(after_the_epoch, tmp_path):
    """From checkpoints behind an epoch and from those behind a validation, with a knob whose limits are relative."""

    def run(seed, *more, ckpt_path=None, folder):
        torch.manual_seed(seed)
        module, callback = Unseeded("csam", 0.3), KeepCalibratedCallback(knobs="rho,gamma,lr")
        saving = ModelCheckpoint(tmp_path / folder, "{epoch}", save_top_k=-1, save_on_train_epoch_end=after_the_epoch)
        loader = DataLoader(TensorDataset(INPUTS, LABELS), batch_size=4, shuffle=True)
        options = {"enable_checkpointing": True, "default_root_dir": tmp_path, "epochs": 4, "loader": loader}
        others = [CalibrationCallback(figure=False), callback, saving, *more]
        trainer = fit(module, *others, ckpt_path=ckpt_path, **options)
        return weights(module.net), knobs(trainer), callback.keeper.state_dict(), callback.keeper.facts, callback._seen

    whole = run(7, folder="whole")
    with pytest.raises(RuntimeError, match="killed"):
        run(7, Killed(), folder="killed")
    resumed = run(8, ckpt_path=tmp_path / "killed" / "epoch=1.ckpt", folder="resumed")
    assert_same(resumed[0], whole[0])
    assert resumed[1:] == whole[1:]
    assert whole[2]["looks"] == 4


def test_a_checkpoint_before_its_validation_is_said_to_miss_it(tmp_path):
    def run(folder, ckpt_path=None):
        callback = KeepCalibratedCallback()
        saving = ModelCheckpoint(tmp_path / folder, save_top_k=-1, every_n_train_steps=2)
        options = {"enable_checkpointing": True, "val_check_interval": 4, "loader": Resumable()}
        fit(Unseeded("csam"), callback, saving, epochs=2, ckpt_path=ckpt_path, **options)
        return callback.keeper.looks

    def said(*args):
        with warnings.catch_warnings(record=True) as caught:  # Lightning warns of folders, too
            warnings.simplefilter("always")
            looks = run(*args)
        return looks, any("from a checkpoint between a step and its validation" in str(each.message) for each in caught)

    assert said("whole") == (2, False)
    assert said("late", tmp_path / "whole" / "epoch=0-step=4.ckpt") == (1, True)
    assert said("later", tmp_path / "whole" / "epoch=0-step=6.ckpt") == (2, False)


def test_what_cannot_be_steered_is_refused():
    class Plain(Validated):
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class Optimizerless(Validated):
        def configure_optimizers(self):
            return None

    class Two(Validated):
        def configure_optimizers(self):
            self.automatic_optimization = False
            return [optimizer_of(self.net)[0], optimizer_of(self.net)[0]]

    nothing = "Expected validation rows to steer by, but there are none. Pass trainer.fit"
    for module, options, words in (
        (Net(), {}, nothing),
        (Validated(), {"limit_val_batches": 0}, nothing),
        (Validated(loader=lambda: []), {}, nothing),
        (Plain(), {}, "Expected an optimizer with rho, gamma or weight_decay above 0 to steer, but SGD has none"),
        (Optimizerless(), {}, "Expected one optimizer to steer, but configure_optimizers returns none"),
        (Two(), {}, "Expected one optimizer to steer, but configure_optimizers returns 2"),
    ):
        with pytest.raises(InputError, match=words):
            fit(module, KeepCalibratedCallback(), **options)
    with pytest.raises(InputError, match="Expected speed > 0, but got 0"):
        fit(Validated(), KeepCalibratedCallback(speed=0))
    with pytest.raises(InputError, match=r"Expected trainer\.fit to have begun"):
        KeepCalibratedCallback().on_train_end(None, None)


def test_of_several_loaders_one_is_named():
    def two():
        return [held_out(40), held_out(90)]

    with pytest.raises(InputError, match=r"Say which: KeepCalibratedCallback\(dataloader=0\)"):
        fit(Validated(loader=two), KeepCalibratedCallback())
    with pytest.raises(InputError, match=r"Expected dataloader to be one of 2, but got 2\. Count from 0"):
        fit(Validated(loader=two), KeepCalibratedCallback(dataloader=2))
    for number, n in enumerate((40, 90)):
        callback = KeepCalibratedCallback(dataloader=number)
        fit(Validated(loader=two), callback)
        assert callback.keeper.facts.signal.rows == n


def test_the_script_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    wanted = "run by tests/integrations/test_lightning_steering.py"
    (script,) = [block.code for block in blocks_of(ROOT / "docs" / "lightning.md") if block.mark == wanted]
    assert script.count("\n") <= 40
    exec(compile(script, "lightning.md", "exec"), {})
    assert "log T" in capsys.readouterr().out
