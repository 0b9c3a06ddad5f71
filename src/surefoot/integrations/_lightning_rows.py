"""What a Lightning module predicts while it is validated, kept for callbacks that look at all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from surefoot.errors import InputError
from surefoot.outputs import are_probs
from surefoot.seeding import replaying, rng_state

Pair = tuple[Tensor, Tensor]
Reader = Callable[[LightningModule, Any, Any], Pair]


class Collecting(Callback):
    """Keep logits and labels of a validation, those of this rank.

    Args:
        dataloader: Which one, where there are several for validation.
        predictions: Takes module, batch and what ``validation_step`` returned, gives logits (n, classes) and labels
            (n,). Without it, these are ``"logits"`` and ``"labels"`` of what ``validation_step`` returned. If it
            returned neither, and batches are pairs, the module is called once more, ``module(inputs)``.
    """

    def __init__(self, dataloader: int | None, predictions: Reader | None) -> None:
        self.dataloader = dataloader
        self._reads = predictions
        self._batches: list[Pair] = []

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forget the rows before."""
        self._batches = []

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep a batch's logits and labels, without drawing random numbers that others would then not draw."""
        if trainer.sanity_checking:
            return
        if dataloader_idx != (self.dataloader or 0):
            self._check_loaders(dataloader_idx + 1)
            return
        with torch.no_grad(), trainer.precision_plugin.val_step_context(), replaying(rng_state()):
            logits, labels = (self._reads or self._find)(pl_module, batch, outputs)
        self._check(logits, labels)
        self._batches.append((logits.detach().cpu().float(), labels.detach().cpu().long()))

    def _check_loaders(self, n: int) -> None:
        """Refuse to guess which of several loaders is meant."""
        if n > 1 and self.dataloader is None:
            raise InputError(
                f"Expected one dataloader, but got several. Say which: {type(self).__name__}(dataloader=0)."
            )

    def _rows(self) -> Pair:
        """Put the batches of this rank together, and forget them."""
        logits, labels = (torch.cat(column) for column in zip(*self._batches, strict=True))
        self._batches = []
        return logits, labels

    def _find(self, module: LightningModule, batch: Any, outputs: Any) -> Pair:
        """Take logits and labels from what ``validation_step`` returned, or call the module on a pair."""
        if isinstance(outputs, Mapping) and "logits" in outputs and "labels" in outputs:
            return outputs["logits"], outputs["labels"]
        if isinstance(batch, list | tuple) and len(batch) == 2 and isinstance(batch[1], Tensor):
            return module(batch[0]), batch[1]
        raise InputError(f"Expected logits and labels, but validation_step returned neither. {self._how}")

    def _check(self, logits: Any, labels: Any) -> None:
        if not isinstance(logits, Tensor) or logits.ndim != 2 or labels.shape != logits.shape[:1]:
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise InputError(
                f"Expected logits (n, classes) and labels (n,), but got {got} for labels {tuple(labels.shape)}. "
                f"{self._how}"
            )
        if are_probs(logits.detach().float(), atol=1e-2):  # as far as bfloat16 can sum to 1
            raise InputError(f"Expected logits, but got rows that sum to 1: probabilities. {self._how}")

    @property
    def _how(self) -> str:
        return (
            'Return {"logits": logits, "labels": labels} from validation_step (beside "loss", if you like), or pass '
            f"{type(self).__name__}(predictions=lambda module, batch, outputs: (logits, labels))."
        )


def log(module: LightningModule, values: Mapping[str, Any]) -> None:
    """Log numbers of a whole validation."""
    for name, value in values.items():
        module.log(name, float(value), on_step=False, on_epoch=True, sync_dist=True, batch_size=1)
