"""What a model says about batches: logits and labels of a loader's rows, whatever form they come in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from surefoot.errors import InputError, SplitError
from surefoot.modes import in_eval_mode
from surefoot.schema import Predictions

_LABELS = ("labels", "label")  # in batches that are dictionaries


def device_of(model: nn.Module) -> torch.device:
    """Return where a model's parameters are; one without any is on the CPU."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def run_batch(model: nn.Module, batch: Any, device: torch.device) -> tuple[Any, Tensor]:
    """Run a model on one batch of a loader.

    Args:
        model: Gives logits, or an output that holds them as ``logits``.
        batch: A pair of inputs and labels; or a dictionary with ``labels``, the rest of which the model takes.
        device: Where the model is.

    Returns:
        What the model gives as logits, and the labels.

    Raises:
        InputError: If the batch is something else.
    """
    batch = _moved(batch, device)
    if isinstance(batch, Mapping):
        key = next((name for name in _LABELS if name in batch), None)
        if key is None:
            raise InputError(
                f"Expected 'labels' in every batch of the loader, but got {', '.join(map(str, batch))}. Add them."
            )
        output, targets = model(**{name: value for name, value in batch.items() if name != key}), batch[key]
    elif isinstance(batch, tuple | list) and len(batch) == 2:
        inputs, targets = batch
        output = model(**inputs) if isinstance(inputs, Mapping) else model(inputs)
    else:
        what = f"{len(batch)} things" if isinstance(batch, tuple | list) else f"a {type(batch).__name__}"
        raise InputError(
            f"Expected the loader to give pairs (inputs, labels) or dictionaries with labels, but got {what}. Do so."
        )
    output = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", output)
    return output, targets if isinstance(targets, Tensor) else torch.as_tensor(np.asarray(targets))


def _moved(batch: Any, device: torch.device) -> Any:
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: _moved(value, device) for name, value in batch.items()}
    if isinstance(batch, tuple | list):
        moved = [_moved(each, device) for each in batch]
        return moved if isinstance(batch, list) else tuple(moved)
    return batch


def collect_logits(model: nn.Module, loader: Iterable[Any]) -> Predictions:
    """Run a model in eval mode over the batches of a loader.

    Args:
        model: Its modes are afterwards as they were.
        loader: Gives batches as :func:`run_batch` takes them.

    Returns:
        Logits and labels, as those of a calibration split.

    Raises:
        SplitError: If the loader's data say that they are a test split.
        InputError: If it gives something else, or the model no logits.
    """
    if str(getattr(getattr(loader, "dataset", loader), "split", "")) == "test":
        raise SplitError(
            "Expected held-out rows to fit on, but the loader's are of the test split. Keep it for scoring."
        )
    device = device_of(model)
    logits, labels = [], []
    with torch.no_grad(), in_eval_mode(model):
        for batch in loader:
            output, targets = run_batch(model, batch, device)
            logits.append(_logits(output, targets))
            labels.append(targets.detach().cpu())
    if not logits:
        raise InputError("Expected pairs of inputs and labels, but the loader gives nothing. Pass held-out rows.")
    found = torch.cat(logits)
    if are_probs(found, atol=1e-3):
        raise InputError("Expected logits, but the model gives probabilities. Take the softmax at its end away.")
    return Predictions(found.numpy(), torch.cat(labels).long().numpy(), "calibration")


def are_probs(rows: Tensor, *, atol: float) -> bool:
    """Return whether rows that should be logits are probabilities: none is negative, and each sums to 1."""
    return bool((rows >= 0).all()) and torch.allclose(rows.sum(1), torch.ones_like(rows[:, 0]), atol=atol)


def _logits(output: Any, labels: Tensor) -> Tensor:
    if not isinstance(output, Tensor) or output.ndim != 2 or output.shape[1] < 2 or labels.shape != output.shape[:1]:
        shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise InputError(
            f"Expected logits (n, classes) and labels (n,), but got {shape} for labels {tuple(labels.shape)}. "
            "Give one logit per class."
        )
    return output.detach().cpu().double()
