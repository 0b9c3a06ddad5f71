"""Samples from bSAM's posterior."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

from surefoot.ensembles._base import Ensemble, at_least_one
from surefoot.ensembles._mean import deep_predict, log_mean_probs
from surefoot.errors import OptionError
from surefoot.optim import Wrapper
from surefoot.optim.bsam import BSAM
from surefoot.registry import ENSEMBLES
from surefoot.seeding import generator


@ENSEMBLES.register("bsam_posterior", optimizer="bsam", reference="Möllenhoff & Khan 2023, arXiv:2210.01620")
class BSAMPosterior(Ensemble):
    """Samples from the posterior that bSAM learns; goes with the optimizer bsam only.

    Weights from N(w, 1/(N·s)), which bSAM has learned; BatchNorm statistics are those of the mean w.

    Args:
        samples: How many to predict with.
    """

    def __init__(self, *, samples: int = 32) -> None:
        super().__init__()
        self.samples = at_least_one("samples", samples)

    def check_optimizer(self, optimizer: Wrapper) -> None:
        """Refuse optimizers without a posterior."""
        if not isinstance(optimizer, BSAM):
            raise OptionError(
                f"Expected bsam as the optimizer of bsam_posterior, but got {type(optimizer).__name__}. "
                "Write bsam_posterior + bsam, or vi for a posterior with any optimizer."
            )

    def forward_passes(self, model: nn.Module, optimizer: Wrapper, seed: int) -> Iterator[None]:
        """Set the network to one sample after another."""
        self.check_optimizer(optimizer)
        return posterior_samples(cast(BSAM, optimizer), self.samples, seed)


def posterior_samples(optimizer: BSAM, samples: int, seed: int) -> Iterator[None]:
    """Go through samples of the posterior.

    Args:
        optimizer: Knows mean and precision; the mean is back afterwards, bit for bit.
        samples: How many.
        seed: Determines them.

    Yields:
        Nothing; evaluate the network now.
    """
    for index in range(samples):
        with optimizer.sampled(generator(seed, f"sample/{index}")):
            yield


@torch.no_grad()
def posterior_predict(optimizer: BSAM, model: nn.Module, inputs: Tensor, *, samples: int = 32, seed: int = 0) -> Tensor:
    """Predict with several samples of the posterior that bSAM has learned.

    Args:
        optimizer: Trained the network.
        model: The network.
        inputs: Shape ``(n, …)``.
        samples: How many.
        seed: Determines them.

    Returns:
        Log of the mean probability, shape ``(n, classes)``.
    """
    passes = posterior_samples(optimizer, at_least_one("samples", samples), seed)
    return log_mean_probs(torch.stack([deep_predict([model], inputs) for _ in passes]))
