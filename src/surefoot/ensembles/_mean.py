"""Mean of probabilities, in log space."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn


def log_mean_probs(logits: Tensor) -> Tensor:
    r"""Return :math:`\log \frac1M \sum_m \mathrm{softmax}(z_m)`, whose softmax is the mean probability itself.

    Args:
        logits: Of M members or samples, shape ``(M, n, classes)``.

    Returns:
        Shape ``(n, classes)``.

    Example:
        >>> members = torch.tensor([[[0.9, 0.1]], [[0.5, 0.5]]]).log()
        >>> log_mean_probs(members).exp()
        tensor([[0.7000, 0.3000]])
        >>> round(-log_mean_probs(members)[0, 0].item(), 6)  # not the mean of the NLLs, 0.399254
        0.356675
    """
    return logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))


@torch.no_grad()
def deep_predict(models: Iterable[nn.Module], inputs: Tensor) -> Tensor:
    """Predict with several networks, trained apart from each other.

    Args:
        models: The members; each one's mode is afterwards as it was.
        inputs: Shape ``(n, …)``.

    Returns:
        Log of the mean probability, shape ``(n, classes)``.

    Example:
        >>> sure, unsure = nn.Linear(1, 2, bias=False), nn.Linear(1, 2, bias=False)
        >>> sure.weight.data, unsure.weight.data = torch.tensor([[0.9], [0.1]]).log(), torch.zeros(2, 1)
        >>> deep_predict([sure, unsure], torch.ones(1, 1)).exp()
        tensor([[0.7000, 0.3000]])
    """
    found = []
    for model in models:
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        try:
            found.append(model(inputs))
        finally:
            for module, training in modes:
                module.training = training
    return log_mean_probs(torch.stack(found))
