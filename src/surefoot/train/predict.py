"""Logits of a whole split."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.errors import DivergedError
from surefoot.modes import in_eval_mode
from surefoot.schema import Split

CHUNK = 1000


@torch.no_grad()
def predict(model: nn.Module, split: Split) -> Tensor:
    """Evaluate a model in eval mode, chunk by chunk; its mode is as before afterwards.

    Args:
        model: A classifier.
        split: The examples.

    Returns:
        Logits on the CPU, float32, shape ``(n, classes)``.

    Raises:
        DivergedError: If a logit is NaN or infinite.
    """
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    with in_eval_mode(model):
        logits = torch.cat([model(inputs.to(device)).float().cpu() for inputs in split.inputs.split(CHUNK)])
    if not logits.isfinite().all():
        raise DivergedError("Expected finite logits, but got NaN or infinity. Lower the learning rate.")
    return logits
