"""Logits of a whole split, from one network or several."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.ensembles import Ensemble, log_mean_probs
from surefoot.errors import DivergedError
from surefoot.modes import in_eval_mode
from surefoot.optim import Wrapper
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


def predict_together(ensemble: Ensemble, model: nn.Module, optimizer: Wrapper, split: Split, seed: int) -> Tensor:
    """Evaluate all that an ensemble predicts with.

    Args:
        ensemble: Says over what to average.
        model: The network, trained.
        optimizer: Trained it.
        split: The examples.
        seed: Determines what is drawn.

    Returns:
        Logits where there is one network or sample; else the log of the mean probability, whose softmax is that mean.
    """
    found = [predict(model, split) for _ in ensemble.forward_passes(model, optimizer, seed)]
    return found[0] if len(found) == 1 else log_mean_probs(torch.stack(found).double()).float()
