"""Loops of other packages run as documented or are refused; none of them steps as the base alone."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from surefoot.errors import InputError
from surefoot.optim.csam import CSAM
from tests.optim.problems import assert_same, weights

pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages themselves
INPUTS, LABELS = torch.randn(32, 8, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 3


def network():
    """A network that is sure of some rows: of those CSAM makes something else than SAM."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    with torch.no_grad():
        net[-1].weight.mul_(6)
    return net


def csam(model):
    return CSAM(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model, rho=0.1)


def loader():
    return DataLoader(TensorDataset(INPUTS, LABELS), batch_size=8)


def ours(make=csam):
    """What one epoch should give."""
    model = network()
    optimizer = make(model)
    for x, y in loader():
        optimizer.step(lambda x=x, y=y: F.cross_entropy(model(x), y, reduction="none"))
    return weights(model)


class Double:
    """What Lightning puts around an optimizer: of the same class, with none of its attributes."""

    def __init__(self, optimizer):
        self._optimizer = optimizer
        self.__class__ = type("Lightning" + type(optimizer).__name__, (Double, type(optimizer)), {})

    def __getattr__(self, name):
        return getattr(self._optimizer, name)

    def step(self, closure=None):
        def do_nothing_closure():
            return None

        return self._optimizer.step(closure or do_nothing_closure)


@pytest.mark.parametrize("manual", [True, False])
def test_behind_a_double(manual):
    model = network()
    optimizer = csam(model)
    double = Double(optimizer)
    for x, y in loader():

        def closure(x=x, y=y):
            double.zero_grad()
            loss = double.loss(model(x), y)
            loss.backward()
            return loss

        if manual:
            closure()
            with double.perturbed():
                double.loss(model(x), y).backward()
            double.step()
        else:
            double.step(closure)
    assert_same(weights(model), ours())
    assert (double.model, double.rules) == (optimizer.model, optimizer.rules)
    double.zero_grad()
    F.cross_entropy(model(INPUTS), LABELS).backward()
    with pytest.raises(InputError, match="Expected a step that climbs"):
        double.step()


def fit(training_step, *, automatic=True, **options):
    lightning = pytest.importorskip("lightning", reason="not among the development tools")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = network()
            self.automatic_optimization = automatic

        def training_step(self, batch, _):
            return training_step(self, *batch)

        def configure_optimizers(self):
            return csam(self.net)

    module = Module()
    quiet = {f"enable_{what}": False for what in ("checkpointing", "progress_bar", "model_summary")}
    lightning.Trainer(max_epochs=1, logger=False, accelerator="cpu", **quiet, **options).fit(module, loader())
    return weights(module.net)


def by_its_loss(module, x, y):
    return module.optimizers().loss(module.net(x), y)


def by_hand(module, x, y):
    optimizer = module.optimizers()
    optimizer.zero_grad()
    module.manual_backward(optimizer.loss(module.net(x), y))
    with optimizer.perturbed():
        module.manual_backward(optimizer.loss(module.net(x), y))
    optimizer.step()


def without_climbing(module, x, y):
    module.optimizers().zero_grad()
    module.manual_backward(F.cross_entropy(module.net(x), y))
    module.optimizers().step()


def test_the_problem_tells_csam_from_sam():
    sam = ours(lambda model: CSAM(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model, rho=0.1, gamma=0.0))
    assert not torch.equal(sam[-2], ours()[-2])


def test_lightning():
    assert_same(fit(by_its_loss), ours())
    assert_same(fit(by_hand, automatic=False), ours())
    with pytest.raises(InputError, match="Expected one loss per example, but got a scalar"):
        fit(lambda module, x, y: F.cross_entropy(module.net(x), y))
    with pytest.raises(InputError, match="Expected a step that climbs"):
        fit(without_climbing, automatic=False)
    with pytest.raises(InputError, match="gradients which no step has used"):
        fit(by_its_loss, accumulate_grad_batches=2)


def test_accelerate():
    accelerate = pytest.importorskip("accelerate", reason="not among the development tools")
    accelerator = accelerate.Accelerator(cpu=True)
    for explicit in (True, False):
        model = network()
        model, optimizer, batches = accelerator.prepare(model, csam(model), loader())
        for x, y in batches:
            if explicit:
                inside = optimizer.optimizer
                optimizer.zero_grad()
                accelerator.backward(inside.loss(model(x), y))
                with inside.perturbed():
                    accelerator.backward(inside.loss(model(x), y))
                optimizer.step()
            else:
                optimizer.step(lambda x=x, y=y, model=model: F.cross_entropy(model(x), y, reduction="none"))
        assert_same(weights(model), ours())
    optimizer.zero_grad()
    accelerator.backward(F.cross_entropy(model(INPUTS), LABELS))
    with pytest.raises(InputError, match="Expected a step that climbs"):
        optimizer.step()


def test_hugging_faces_trainer(tmp_path):
    transformers = pytest.importorskip("transformers", reason="not among the development tools")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, x, labels):
            logits = self.net(x)
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    model = Model()
    optimizer = csam(model)
    rows = [{"x": x, "labels": y} for x, y in zip(INPUTS, LABELS, strict=True)]
    options = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=1, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True
    )
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer)
    trainer = transformers.Trainer(model, options, train_dataset=rows, optimizers=(optimizer, schedule))
    with pytest.raises(InputError, match="Expected a step that climbs"):
        trainer.train()
