"""Logits of a whole split, from one network or several."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from surefoot.data.stored import batches_of
from surefoot.ensembles import Ensemble, log_mean_probs
from surefoot.errors import DivergedError
from surefoot.modes import in_eval_mode
from surefoot.optim import Wrapper
from surefoot.ranks import ALONE, Ranks, reshard
from surefoot.schema import Split

CHUNK = 1000


@torch.no_grad()
def predict(model: nn.Module, split: Split, ranks: Ranks = ALONE) -> Tensor:
    """Evaluate a model in eval mode, chunk by chunk; its mode is as before afterwards.

    Args:
        model: A classifier.
        split: The examples.
        ranks: Who shares the chunks; all of them call this together, and all get all logits.

    Returns:
        Logits on the CPU, float32, shape ``(n, classes)``.

    Raises:
        DivergedError: If a logit is NaN or infinite.
    """
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    ranks.align_buffers(model)
    with in_eval_mode(model):
        logits = torch.cat(list(_by_chunk(model, split.inputs, device, ranks)))
    if not logits.isfinite().all():
        raise DivergedError("Expected finite logits, but got NaN or infinity. Lower the learning rate.")
    return logits


def _by_chunk(model: nn.Module, inputs: Tensor, device: torch.device, ranks: Ranks) -> Iterator[Tensor]:
    """Evaluate one chunk after another. On several ranks each takes every n-th, and equally many: others may wait."""
    chunks = [slice(start, min(start + CHUNK, len(inputs))) for start in range(0, len(inputs), CHUNK)]
    rounds = range(0, len(chunks), ranks.n)
    mine = [chunks[min(first + ranks.rank, len(chunks) - 1)] for first in rounds]
    for first, chunk in zip(rounds, batches_of(inputs, mine), strict=True):
        logits = model(chunk.to(device)).float().cpu()
        if ranks.is_alone:
            yield logits
            continue
        yield from ranks.gathered(logits, [its.stop - its.start for its in chunks[first : first + ranks.n]])
    reshard(model)


def predict_together(
    ensemble: Ensemble, model: nn.Module, optimizer: Wrapper, split: Split, seed: int, ranks: Ranks = ALONE
) -> Tensor:
    """Evaluate all that an ensemble predicts with.

    Args:
        ensemble: Says over what to average.
        model: The network, trained.
        optimizer: Trained it.
        split: The examples.
        seed: Determines what is drawn.
        ranks: Who shares the work, where it is one network that draws nothing.

    Returns:
        Logits where there is one network or sample; else the log of the mean probability, whose softmax is that mean.
    """
    sharing = ranks if type(ensemble) is Ensemble else ALONE
    found = [predict(model, split, sharing) for _ in ensemble.forward_passes(model, optimizer, seed)]
    return found[0] if len(found) == 1 else log_mean_probs(torch.stack(found).double()).float()
