"""The skorch net inside :class:`SurefootClassifier`: skorch's loop and callbacks around a step of surefoot's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from skorch import NeuralNetClassifier
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

from surefoot.assembly import make_keeper
from surefoot.batches import batches, count_batches
from surefoot.errors import InputError
from surefoot.integrations.skorch import notifying
from surefoot.losses import Batch, CrossEntropy, Loss, Scene
from surefoot.moment import Horizon
from surefoot.optim import Parts, build_optimizer
from surefoot.schema import LossTerms, MethodSpec, Split, SplitName, Splits
from surefoot.seeding import generator
from surefoot.training import predict
from surefoot.training.schedule import make_schedule


@dataclass(frozen=True)
class Plan:
    """What a net is to do, beside what skorch knows about it."""

    method: MethodSpec
    loss: Loss
    splits: Splits
    weights: Tensor | None
    schedule: str
    seed: int


class Absent:
    """Stands for rows that were not held out; whoever asks for them is told how to hold some out."""

    def __getattr__(self, name: str) -> Any:
        """Refuse."""
        raise InputError(
            "Expected held-out rows, by which this method sets itself, but there are none. "
            "Pass validation_fraction=0.1."
        )

    def __len__(self) -> int:
        """Refuse."""
        return int(self.rows)


class Examples(Dataset[Any]):
    """Rows with their weights and places, and labels."""

    def __init__(self, split: Split, weights: Tensor | None = None) -> None:
        self.split = split
        self.weights = torch.ones(len(split.labels)) if weights is None else weights

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.split.labels)

    def __getitem__(self, rows: Tensor) -> Any:
        """Return a batch: tables have many rows, and to gather them one by one would take longer than to train."""
        return (self.split.inputs[rows], self.weights[rows], rows), self.split.labels[rows]


class EqualBatches(Sampler[Tensor]):
    """Batches whose sizes differ by one at most; shuffled, in a new order every epoch."""

    def __init__(self, n: int, size: int, *, shuffled: bool) -> None:
        self.n, self.size, self.shuffled = n, size, shuffled

    def __len__(self) -> int:
        """Count the batches."""
        return count_batches(self.n, self.size)

    def __iter__(self) -> Iterator[Tensor]:
        """Draw an order, and divide it."""
        order = torch.randperm(self.n) if self.shuffled else torch.arange(self.n)
        for part in batches(self.n, self.size):
            yield order[part]


class TrainingNet(NeuralNetClassifier):  # type: ignore[misc]  # skorch has no types
    """A skorch net that trains by a surefoot method: any loss, any optimizer, with weights of examples."""

    def __init__(self, *args: Any, plan: Plan, **kwargs: Any) -> None:
        self.plan = plan
        super().__init__(*args, **kwargs)

    def initialize_optimizer(self, *args: Any, **kwargs: Any) -> TrainingNet:
        """Make the method's optimizer and its schedule."""
        plan, n = self.plan, len(self.plan.splits.train)
        plan.loss.to(self.device)
        self.optimizer_ = build_optimizer(plan.method, self.module_, n_train=n, tuned=True)
        length = Horizon.of(n, epochs=self.max_epochs, batch_size=self.batch_size)
        self.schedule_ = make_schedule(plan.schedule, self.optimizer_, length.n_steps)
        self.keeper_ = make_keeper(plan.method, self.optimizer_, self.schedule_, plan.splits)
        self.step_ = 0
        return self

    def get_iterator(self, dataset: Any, training: bool = False) -> Any:
        """Return batches of one size."""
        return DataLoader(
            dataset, sampler=EqualBatches(len(dataset), self.batch_size, shuffled=training), batch_size=None
        )

    def infer(self, x: Any, **fit_params: Any) -> Any:
        """Run the network on the inputs alone."""
        return self.module_(x[0].to(self.device))

    def get_loss(self, y_pred: Any, y_true: Any, X: Any = None, training: bool = False) -> Tensor:
        """Return the weighted cross-entropy of held-out rows."""
        losses = F.cross_entropy(y_pred, y_true.to(self.device), reduction="none")
        weights: Tensor = X[1].to(self.device)
        return (losses * weights).sum() / weights.sum()

    def train_step(self, batch: Any, **fit_params: Any) -> dict[str, Any]:
        """Make one step as surefoot's own loop makes it."""
        (inputs, weights, indices), labels = batch
        model, loss, optimizer = self.module_, self.plan.loss, self.optimizer_
        self._set_training(True)
        found = Batch(*(each.to(self.device) for each in (inputs, labels, indices)))
        drawn = loss.prepare(model, found, self._scene())
        clean: list[Tensor] = []

        def losses(part: slice | Tensor) -> LossTerms:
            terms, outputs = loss.evaluate(model, drawn[part])
            if isinstance(part, slice) and (part.start or 0) == sum(map(len, clean)):
                clean.append(outputs.detach())  # the first look at these examples is at the weights before the step
            return terms if self.plan.weights is None else _weighed(terms, weights.to(self.device)[part], loss)

        with notifying(self, optimizer, batch):
            value = optimizer.step(Parts(losses, n=len(labels)))
        loss.observe(drawn, torch.cat(clean))
        self.schedule_.step()
        self.step_ += 1
        return {"loss": value, "y_pred": torch.cat(clean)}

    def run_single_epoch(self, iterator: Any, training: bool, prefix: str, step_fn: Any, **fit_params: Any) -> None:
        """Run an epoch, and tell the loss that it is over."""
        super().run_single_epoch(iterator, training, prefix, step_fn, **fit_params)
        if training:
            scene = self._scene()
            self.plan.loss.epoch_end(self.module_, scene)
            if self.keeper_ is not None:
                facts = self.keeper_.step(scene.logits("calibration"), self.plan.splits.calibration.labels)
                self.history.record("steering/log_temperature", facts.signal.log_temperature)
                for name, value in facts.after.items():
                    self.history.record(f"steering/{name}", value)

    def _scene(self) -> Scene:
        def logits(split: SplitName) -> Tensor:
            return predict(self.module_, self.plan.splits[split])

        lr = float(self.optimizer_.param_groups[0]["lr"])
        return Scene(self.plan.splits, generator(self.plan.seed, f"loss/{self.step_}"), logits, lr)


def _weighed(terms: LossTerms, weights: Tensor, loss: Loss) -> LossTerms:
    """Multiply the losses of examples by their weights, whose mean over the training rows is one."""
    if terms.penalty is not None:
        raise InputError(
            f"Expected a loss that is a sum over examples, but {type(loss).__name__} has a part of the whole batch, "
            "which weights cannot reach. Leave out sample_weight and class_weight, or take another loss."
        )
    log_py = -terms.per_example if terms.log_py is None and isinstance(loss, CrossEntropy) else terms.log_py
    return terms._replace(per_example=terms.per_example * weights, log_py=log_py)


class Standardised(nn.Module):
    """A network behind a layer that gives each feature mean 0 and variance 1 over the training rows."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, model: nn.Module, inputs: Tensor, weights: Tensor | None) -> None:
        super().__init__()
        rows = inputs.double()
        shares = torch.ones(len(rows)).double() if weights is None else weights.double()
        shares = (shares / shares.sum()).view(-1, *[1] * (rows.ndim - 1))
        mean = (rows * shares).sum(0)
        deviation = ((rows - mean).square() * shares).sum(0).sqrt()
        self.register_buffer("mean", mean.to(inputs.dtype))
        self.register_buffer("deviation", torch.where(deviation > 1e-12, deviation, 1.0).to(inputs.dtype))
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the network's logits."""
        logits: Tensor = self.model((inputs - self.mean) / self.deviation)
        return logits
