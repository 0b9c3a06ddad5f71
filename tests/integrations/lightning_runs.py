"""A small network, trained by Lightning and by a plain torch loop."""

from contextlib import nullcontext

import lightning
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from surefoot.integrations.lightning import SharpnessAwareCallback
from surefoot.optim import ASAM, CSAM, SAM

ROWS = 26  # seven batches of four: with two per step, the last step has one
INPUTS, LABELS = torch.randn(ROWS, 8, generator=torch.Generator().manual_seed(0)), torch.arange(ROWS) % 3
QUIET = {f"enable_{what}": False for what in ("checkpointing", "progress_bar", "model_summary")}
METHODS = {"sam": SAM, "csam": CSAM, "asam": ASAM}


def network(dropout=0.0):
    """A network that is sure of some rows, so that CSAM has something to damp."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 3))
    with torch.no_grad():
        net[-1].weight.mul_(6)
    return net


def rows():
    """All rows in batches of four."""
    return DataLoader(TensorDataset(INPUTS, LABELS), batch_size=4)


def optimizer_of(net, method="csam", **options):
    """An optimizer with a schedule that moves at every step."""
    base = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    optimizer = METHODS[method](base, rho=0.1, **options)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.8)


class Net(lightning.LightningModule):
    """What a user has: nothing in it knows of two passes but the losses of single examples."""

    def __init__(self, method="csam", dropout=0.0, **options):
        super().__init__()
        self.net = network(dropout)
        self.method, self.options = method, options
        self.forwards = 0

    def forward(self, x):
        self.forwards += 1
        return self.net(x)

    def on_train_start(self):
        torch.manual_seed(5)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self(x), y, reduction="none" if self.method == "csam" else "mean")

    def configure_optimizers(self):
        optimizer, schedule = optimizer_of(self.net, self.method, **self.options)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def fit(module, *callbacks, epochs=1, loader=None, ckpt_path=None, **options):
    """Train with the callback; gives the trainer."""
    settings = {"logger": False, "accelerator": "cpu", "max_epochs": epochs, **QUIET, **options}
    trainer = lightning.Trainer(callbacks=[SharpnessAwareCallback(), *callbacks], **settings)
    trainer.fit(module, loader or rows(), ckpt_path=ckpt_path)
    return trainer


def plain_loop(method="csam", dropout=0.0, *, accumulate=1, clip=None, bf16=False, epochs=1, options=None):
    """The same training written out: clean gradient over all micro-batches, one climb, all of them again, step."""
    model = network(dropout)
    optimizer, schedule = optimizer_of(model, method, model=model, **(options or {}))
    amp = torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False) if bf16 else nullcontext()

    def differentiate(x, y):
        with amp:
            loss = optimizer.loss(model(x), y) if method == "csam" else F.cross_entropy(model(x), y)
        (loss / accumulate).backward()

    torch.manual_seed(5)
    for _ in range(epochs):
        batches = list(zip(INPUTS.split(4), LABELS.split(4), strict=True))
        for start in range(0, len(batches), accumulate):
            group, states = batches[start : start + accumulate], []
            optimizer.zero_grad()
            for x, y in group:
                states.append(torch.get_rng_state())
                differentiate(x, y)
            with optimizer.perturbed():
                for (x, y), state in zip(group, states, strict=True):
                    torch.set_rng_state(state)
                    differentiate(x, y)
            if clip == "norm":
                nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            elif clip == "value":
                nn.utils.clip_grad_value_(model.parameters(), 0.01)
            optimizer.step()
            schedule.step()
    return model
