"""Lightning trains what a plain loop trains, bit for bit."""

import itertools
import json
from pathlib import Path

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import GradientAccumulationScheduler, ModelCheckpoint, StochasticWeightAveraging
from lightning.pytorch.plugins import MixedPrecision
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanMetric
from torchmetrics.classification import MulticlassAccuracy

from surefoot.errors import DivergedError, InputError
from surefoot.integrations.lightning import SharpnessAwareMixin
from surefoot.method import parse_method
from surefoot.optim import build_optimizer
from tests.integrations.lightning_runs import INPUTS, LABELS, QUIET, Net, fit, network, optimizer_of, plain_loop, rows
from tests.optim.distributed.launch import torchrun
from tests.optim.problems import assert_same, weights

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning:lightning.*", "ignore:.*isinstance.treespec")
CLIPS = {
    None: {},
    "norm": {"gradient_clip_val": 0.05},
    "value": {"gradient_clip_val": 0.01, "gradient_clip_algorithm": "value"},
}


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("method", ["sam", "csam", "asam"])
@pytest.mark.parametrize("clip", CLIPS)
def test_weights_are_those_of_a_plain_loop(method, accumulate, clip):
    for bf16, dropout in itertools.product([False, True], [0.0, 0.3]):
        module = Net(method, dropout)
        precision = "bf16-mixed" if bf16 else "32-true"
        trainer = fit(module, accumulate_grad_batches=accumulate, precision=precision, **CLIPS[clip])
        plain = plain_loop(method, dropout, accumulate=accumulate, clip=clip, bf16=bf16)
        assert_same(weights(module.net), weights(plain))
        assert trainer.global_step == {1: 7, 2: 4}[accumulate]
        assert module.forwards == 2 * 7
        assert module.net[1].num_batches_tracked == 7


class Scalar(Net):
    """Returns the mean, as most do."""

    def training_step(self, batch, batch_idx):
        return F.cross_entropy(self(batch[0]), batch[1])


class ByItsLoss(Net):
    """Asks the optimizer for the loss, and returns more than it."""

    def training_step(self, batch):
        return {"loss": self.optimizers().loss(self(batch[0]), batch[1]), "more": 1}


def test_the_loss_of_single_examples_is_asked_for():
    with pytest.raises(InputError, match="Expected one loss per example for CSAM, but training_step returns a scalar"):
        fit(Scalar())
    by_loss = ByItsLoss()
    fit(by_loss)
    assert_same(weights(by_loss.net), weights(plain_loop()))
    sam = plain_loop("csam", options={"gamma": 0.0})  # so that the equality above says something
    assert not torch.equal(sam[-1].weight, by_loss.net[-1].weight)


@pytest.mark.parametrize("method", ["usam", "looksam", "aesam", "esam", "gsam", "bsam", "vasso"])
def test_other_methods_take_the_same_steps_as_with_a_closure(method):
    class Other(Net):
        def configure_optimizers(self):
            return build_optimizer(parse_method(method), self.net)

        def training_step(self, batch, batch_idx):
            return F.cross_entropy(self(batch[0]), batch[1], reduction="none")

    module, model = Other(dropout=0.3), network(0.3)
    fit(module)
    optimizer = build_optimizer(parse_method(method), model)
    torch.manual_seed(5)
    for x, y in zip(INPUTS.split(4), LABELS.split(4), strict=True):
        optimizer.step(lambda x=x, y=y: F.cross_entropy(model(x), y, reduction="none"))
    assert_same(weights(module.net), weights(model))


class Meddling(Net):
    """Overrides what people override, without a word to super()."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.accuracy = MulticlassAccuracy(3, average="micro")
        self.mean = MeanMetric()
        self.hooks = []

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
        optimizer.step(closure=optimizer_closure)

    def on_train_batch_start(self, batch, batch_idx):
        self.hooks.append("start")

    def on_before_optimizer_step(self, optimizer):
        self.hooks.append("before step")

    def configure_callbacks(self):
        return []

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        losses = F.cross_entropy(logits, y, reduction="none")
        self.mean(losses.detach())
        self.accuracy(logits, y)
        self.log("mean", self.mean, on_epoch=True)
        self.log("accuracy", self.accuracy, on_epoch=True)
        self.log("loss", losses.mean(), on_epoch=True, batch_size=len(y))
        return losses


def test_overridden_hooks_change_nothing_and_what_is_logged_is_of_the_clean_pass():
    module = Meddling("csam", 0.3)
    trainer = fit(module, accumulate_grad_batches=2)
    assert_same(weights(module.net), weights(plain_loop("csam", 0.3, accumulate=2)))
    assert module.hooks.count("before step") == 4
    assert module.hooks.count("start") == 7
    seen = {name: value.item() for name, value in trainer.callback_metrics.items()}
    assert seen["mean_epoch"] == pytest.approx(seen["loss_epoch"], rel=1e-5)
    assert vars(module).keys().isdisjoint({"training_step", "optimizer_step", "optimizer_zero_grad", "log"})

    class Clean(Meddling):  # the same numbers where a clean pass is all there is
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    one, other = (fit(make("csam", 0.3), limit_train_batches=1).callback_metrics for make in (Clean, Meddling))
    assert one == other
    assert {"mean", "accuracy", "loss"} < set(one)


def test_the_mixin_brings_the_callback_along():
    class Mixed(SharpnessAwareMixin, Net):
        pass

    class Broken(SharpnessAwareMixin, Net):
        def configure_callbacks(self):
            return []

    module = Mixed("asam")
    trainer = lightning.Trainer(max_epochs=1, logger=False, accelerator="cpu", **QUIET, accumulate_grad_batches=2)
    trainer.fit(module, rows())
    assert_same(weights(module.net), weights(plain_loop("asam", accumulate=2)))
    trainer = lightning.Trainer(max_epochs=1, logger=False, accelerator="cpu", **QUIET)
    with pytest.raises(InputError, match=r"Return \[\*super\(\).configure_callbacks\(\), …\]"):
        trainer.fit(Broken(), rows())


def test_clipping_without_the_callback_is_refused():
    """Lightning's own closure would clip the gradient that is climbed along, too."""
    settings = {"logger": False, "accelerator": "cpu", "max_epochs": 1, **QUIET}
    with pytest.raises(InputError, match=r"gradient_clip_val=0.1 would clip the clean one, too. Pass Trainer"):
        lightning.Trainer(gradient_clip_val=0.1, **settings).fit(ByItsLoss(), rows())
    module = ByItsLoss()
    lightning.Trainer(**settings).fit(module, rows())
    assert_same(weights(module.net), weights(plain_loop()))


def test_manual_optimization():
    class Manual(Net):
        def __init__(self, explicit):
            super().__init__()
            self.automatic_optimization, self.explicit = False, explicit

        def training_step(self, batch, batch_idx):
            x, y = batch
            optimizer, schedule = self.optimizers(), self.lr_schedulers()
            if self.explicit:
                optimizer.zero_grad()
                self.manual_backward(optimizer.loss(self(x), y))
                with optimizer.perturbed():
                    self.manual_backward(optimizer.loss(self(x), y))
                self.clip_gradients(optimizer, gradient_clip_val=0.05, gradient_clip_algorithm="norm")
                optimizer.step()
            else:
                optimizer.step(lambda: F.cross_entropy(self(x), y, reduction="none"))
            schedule.step()

    for explicit in (True, False):
        module = Manual(explicit)
        assert fit(module).global_step == 7
        assert_same(weights(module.net), weights(plain_loop(clip="norm" if explicit else None)))

    class Unchanged(Manual):
        def training_step(self, batch, batch_idx):
            self.optimizers().zero_grad()
            self.manual_backward(F.cross_entropy(self(batch[0]), batch[1]))
            self.optimizers().step()

    with pytest.raises(InputError, match="Expected a step that climbs"):
        fit(Unchanged(False))


def test_a_scaler():
    """On a CPU only a plugin of one's own brings a scaler."""
    module = Net("sam", 0.3)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    plugin = MixedPrecision("16-mixed", "cpu", scaler)
    trainer = fit(module, plugins=[plugin], accumulate_grad_batches=2, gradient_clip_val=0.05)
    assert trainer.global_step == 4
    model = network(0.3)
    optimizer, schedule = optimizer_of(model, "sam", model=model)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    torch.manual_seed(5)
    batches = list(zip(INPUTS.split(4), LABELS.split(4), strict=True))
    for start in range(0, 7, 2):

        def differentiate(start=start):
            for x, y in batches[start : start + 2]:
                with torch.autocast("cpu", dtype=torch.float16, cache_enabled=False):
                    loss = F.cross_entropy(model(x), y)
                scaler.scale(loss / 2).backward()

        optimizer.zero_grad()
        differentiate()
        with optimizer.perturbed(scaler):
            differentiate()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
    assert_same(weights(module.net), weights(model))


class Failing(Net):
    """One batch of which is not finite."""

    def training_step(self, batch, batch_idx):
        losses = super().training_step(batch, batch_idx)
        return losses * torch.inf if batch_idx == 3 else losses


def test_not_finite():
    with pytest.raises(DivergedError, match="Expected a finite"):
        fit(Failing())
    module = Failing(nonfinite="skip")
    with pytest.warns(UserWarning, match="A step was skipped"):
        fit(module, accumulate_grad_batches=2)
    assert module.net[1].num_batches_tracked == 5  # those of the step that was skipped are forgotten
    assert all(value.isfinite().all() for value in weights(module.net))


def test_batches_that_are_not_differentiated_have_no_part_in_a_step():
    """Where training_step returns None, and in the last epoch of Lightning's SWA, which only moves BatchNorm."""

    class Picky(Net):
        def training_step(self, batch, batch_idx):
            return None if batch_idx in (1, 4, 5) else super().training_step(batch, batch_idx)

    module = Picky()
    assert fit(module, accumulate_grad_batches=2).global_step == 4
    assert module.forwards == 2 * 4
    averaged = Net()
    averaged.configure_optimizers = lambda: optimizer_of(averaged.net)[0]
    fit(averaged, StochasticWeightAveraging(0.05, swa_epoch_start=1), epochs=3)
    assert averaged.forwards == 3 * 14 + 7
    assert averaged.net[1].num_batches_tracked == 7


def test_what_cannot_be_evaluated_twice_is_refused():
    class InPlace(Net):
        def training_step(self, batch, batch_idx):
            batch[0].add_(1)
            return super().training_step(batch, batch_idx)

    class Iterating(Net):
        def training_step(self, dataloader_iter):
            batch, _, _ = next(dataloader_iter)
            return super().training_step(batch, 0)

    class Replacing(Net):
        def training_step(self, batch, batch_idx):
            batch[0] = batch[0] * 2
            return super().training_step(batch, batch_idx)

    class Doubling(Net):
        def training_step(self, batch, batch_idx):
            return super().training_step((batch[0] * 2, batch[1]), batch_idx)

    with pytest.raises(InputError, match="Expected training_step to leave its batch as it is"):
        fit(InPlace())
    with pytest.raises(InputError, match="takes dataloader_iter"):
        fit(Iterating())
    one, other = Replacing(), Doubling()
    fit(one)
    fit(other)
    assert_same(weights(one.net), weights(other.net))
    with pytest.raises(InputError, match=r"CSAM\(…, m=…\) makes others"):
        fit(Net(m=2))

    class Bayes(Net):
        def configure_optimizers(self):
            return build_optimizer(parse_method("bsam"), self.net)

    with pytest.raises(InputError, match="Expected accumulate_grad_batches=1 for BSAM"):
        fit(Bayes(), GradientAccumulationScheduler({1: 2}), epochs=2)


class Resumable:
    """A loader that knows where it is, as Lightning asks of those that go on amid an epoch."""

    def __init__(self):
        self.position = 0

    def __len__(self):
        return 7

    def __iter__(self):
        for place in range(self.position % 7, 7):
            self.position = place + 1
            yield INPUTS.split(4)[place], LABELS.split(4)[place]

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


class Unseeded(Net):
    def on_train_start(self):
        pass


@pytest.mark.parametrize("amid_an_epoch", [True, False])
def test_resumed_runs_go_on_bit_for_bit(amid_an_epoch, tmp_path):
    every = {"every_n_train_steps": 2} if amid_an_epoch else {"save_on_train_epoch_end": True}
    options = {"epochs": 2, "accumulate_grad_batches": 2, "enable_checkpointing": True, "default_root_dir": tmp_path}

    def loader():
        return Resumable() if amid_an_epoch else DataLoader(TensorDataset(INPUTS, LABELS), batch_size=4, shuffle=True)

    whole = Unseeded("csam", 0.3)
    torch.manual_seed(7)
    fit(whole, ModelCheckpoint(tmp_path, save_top_k=-1, **every), loader=loader(), **options)
    saved = tmp_path / ("epoch=0-step=2.ckpt" if amid_an_epoch else "epoch=0-step=4.ckpt")
    torch.manual_seed(8)
    resumed = Unseeded("csam", 0.3)
    trainer = fit(resumed, loader=loader(), ckpt_path=saved, **options)
    assert trainer.global_step == 8
    assert_same(weights(resumed.net), weights(whole.net))


def test_a_checkpoint_amid_a_step_has_lost_its_gradient(tmp_path):
    class Saving(lightning.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if batch_idx == 2:
                trainer.save_checkpoint(tmp_path / "amid.ckpt")

    fit(Net(), Saving(), accumulate_grad_batches=2, loader=Resumable())
    with pytest.warns(UserWarning, match="Training goes on amid a step: 1 of its micro-batches are left out"):
        fit(Net(), accumulate_grad_batches=2, loader=Resumable(), ckpt_path=tmp_path / "amid.ckpt")


def test_on_two_ranks(tmp_path):
    done = torchrun(2, Path(__file__).with_name("lightning_ranks.py"), tmp_path)
    said = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("rank*.json"))]
    assert len(said) == 2, done.stderr[-3000:]
    assert said[0] == said[1]  # hashes of the weights among them
    once, again = said[0]["resumed"]
    assert once == again
    cases = said[0]["cases"]
    for each, steps in zip(cases, (4, 2, 2), strict=True):
        assert each["weights"] == each["by hand"]
        assert (each["steps"], each["forwards"]) == (steps, 2 * 4 + 4)  # of training and of validation
        mine, logged, here = each["ece"]
        assert mine == pytest.approx(here, abs=1e-6)
        assert logged == pytest.approx(mine, abs=1e-6)
    assert cases[1]["weights"] != cases[2]["weights"]  # alone or together is not the same
    halves, same = said[0]["steered"]  # each row is counted once, whether ranks have halves of them or all
    assert halves["rows"] == same["rows"] == 32
    for name in ("knobs", "signal"):
        assert halves[name] == pytest.approx(same[name], rel=1e-3)
    assert halves["knobs"] != [0.1, 1.0]
